"""What is told of compilation: a line on a terminal while it takes long, and ``torchlike.explain()``."""

import io
import sys
import time

import pytest

import torchlike as torch
from torchlike.compiler import _report
from torchlike.compiler._function import CompiledFunction


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal_of(monkeypatch):
    """A terminal that is told at once. No fixture: pytest puts its own in place before the test."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setattr(_report, "PATIENCE", 0.02)
    monkeypatch.setattr(_report, "STEP", 0.02)
    return found


def test_explain_prints_what_was_compiled_how_often_and_why_again(capsys):
    def described(x, k):
        return x * k if x.shape[0] != 3 else x.item()

    run = torch.compile(described)
    for n, k in ((2, 1.0), (2, 1.0), (4, 1.0), (4, 2.0)):
        run(torch.ones(n), k)
    torch.explain(run)
    text = capsys.readouterr().out
    mine = text[text.index("described") :]
    lines = mine.splitlines()
    assert "test_report.py" in lines[0] and "3 programs" in lines[0]
    assert lines[1].startswith("    1. ") and lines[1].endswith(": first call")
    assert "(float32[2] before, float32[4] now) had changed" in lines[2]
    assert "argument 1 (1.0 before, 2.0 now) had changed" in lines[3]


def test_explain_says_what_runs_in_pieces(capsys):
    run = torch.compile(lambda x: x * x.sum().item())
    run(torch.ones(2))
    torch.explain(run)
    assert "runs in pieces: " in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [len, lambda x: x, 3])
def test_explain_of_what_was_not_compiled(wrong):
    with pytest.raises(TypeError, match=r"explain\(\): expected what torch.compile\(function\) returned, got"):
        torch.explain(wrong)


def test_explain_leaves_out_what_is_forgotten(capsys):
    def forgotten(x):
        return x

    run = torch.compile(forgotten)
    run(torch.ones(2))
    torch.compiler.reset()
    torch.explain(run)
    text = capsys.readouterr().out
    assert "forgotten" not in text and "Nothing was compiled" in text


def test_long_compilations_show_themselves_on_a_terminal(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with _report.Notice("a function") as notice:
        time.sleep(0.2)
        notice.phase = "XLA compiles 7 operations"
        time.sleep(0.2)
    text = terminal.getvalue()
    assert "torch.compile of a function: running its Python code, 0 s" in text and "XLA compiles 7 operations" in text
    assert text.endswith("compiled after 0 s\n")


def test_failures_end_the_line(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with pytest.raises(ValueError, match="no"), _report.Notice("a function"):
        time.sleep(0.2)
        raise ValueError("no")
    assert terminal.getvalue().endswith("gave up after 0 s\n")


def test_short_ones_and_files_see_nothing(monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    torch.compile(lambda x: x + 1)(torch.ones(2))
    assert terminal.getvalue() == ""
    monkeypatch.setattr(_report, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", None)
    torch.compile(lambda x: x + 2)(torch.ones(2))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    torch.compile(lambda x: x + 3)(torch.ones(2))
    assert sys.stderr.getvalue() == ""


def test_the_phases_of_a_compilation_are_told(monkeypatch):
    terminal = terminal_of(monkeypatch)
    made = CompiledFunction._program
    monkeypatch.setattr(CompiledFunction, "_program", lambda *args: (time.sleep(0.2), made(*args))[1])
    torch.compile(lambda x: x.sin() + 1)(torch.ones(2))
    text = terminal.getvalue()
    assert "<lambda> (" in text and "XLA compiles 2 operations" in text and "compiled after" in text
