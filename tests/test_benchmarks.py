"""The benchmarks run, at small sizes, and report what they promise; their figures mean nothing here."""

import importlib
import json
import math
import os
import pathlib
import sys

import pytest
import torch

import torchlike

HERE = pathlib.Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def load():
    """Imports a script of the benchmarks by its name."""
    before, known, mode = list(sys.path), set(sys.modules), torchlike.get_execution()
    environment, threads, tf32 = dict(os.environ), torch.get_num_threads(), torch.backends.cudnn.allow_tf32
    sys.path.insert(0, str(HERE))
    yield importlib.import_module
    sys.path[:] = before
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = tf32
    for name in set(sys.modules) - known:
        if str(HERE) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    torchlike.set_execution(mode)


def found(load, script, name):
    """The rows of a quick run; each has a ratio, a number above nothing."""
    rows = load(script).measure(name, quick=True)
    assert rows and all(math.isfinite(row.ratio) and row.ratio > 0 for row in rows)
    return rows


@pytest.mark.parametrize("name", ["cnn", "gpt", "lstm", "adam"])
def test_a_compiled_step_agrees_with_the_hand_written_and_is_measured(load, name):
    rows = found(load, "compiled_step", name)
    assert [row.measure for row in rows] == ["compiled step", "compiled step", "memory, compiled"]
    assert [row.target for row in rows] == [1.05, {"cnn": 1.5, "gpt": 1.0}.get(name, 0.9), 1.05]


def test_an_eager_step_is_measured_both_ways(load):
    rows = found(load, "eager_step", "small")
    assert [row.measure.split()[0] for row in rows] == ["recorded", "recorded", "recorded", "immediate"]


@pytest.mark.parametrize("name", ["mlp", "lstm", "gpt"])
def test_a_step_under_autocast_agrees_with_the_hand_written_and_is_measured(load, name):
    rows = load("amp_step").measure(name, quick=True)
    kinds = ["compiled", "compiled", "scaled", "recorded", "immediate"]
    assert [row.measure for row in rows][:5] == [f"amp, {kind}" for kind in kinds]
    assert all(row.ratio is None and "no kernel" in row.note or row.ratio > 0 for row in rows)
    assert [row.target for row in rows][:3] == [1.05, None, 1.05]


@pytest.mark.parametrize("name", ["add", "backward"])
def test_one_call_is_measured(load, name):
    assert all(row.target in (1.6, 2.0) for row in found(load, "eager_overhead", name))


def test_operators_agree_and_the_slow_ones_are_named(load):
    rows = found(load, "operators", "reductions")
    assert [row.measure for row in rows] == [f"operators, small, forward{more}" for more in ("", " and backward")]
    assert all("worst: " in row.note and "torch " in row.note and row.target is None for row in rows)


def test_an_operator_beyond_the_limit_is_named(load):
    found = {"a": {"jax": 2.0, "torch": 1.0, "ours": 1.4}, "b": {"jax": 1.0, "torch": 3.0, "ours": 1.75}}
    row = load("operators").row("x", "y", found, large=True)
    assert (row.ratio, row.verdict) == (1.75, "missed; median 1.57; worst: b; beyond 1.5: b 1.75")


def test_the_operators_are_the_most_used_ones(load):
    operators = load("_operators")
    named = [name for group in operators.GROUPS.values() for name in group]
    assert sorted(named) == sorted(operators.USES) and len(named) == 60
    assert list(operators.USES.values()) == sorted(operators.USES.values(), reverse=True)


def test_other_ways_to_write_the_baseline_agree(load):
    assert len(found(load, "baseline", "cnn")) == 3


@pytest.mark.parametrize("name", ["function_mode", "dispatch_mode", "subclass", "own_function", "wrapper"])
def test_an_override_is_measured_next_to_torch_s(load, name):
    without, theirs = found(load, "overrides", name)
    assert without.against == "the call without it" and "torch " in without.note and theirs.against == "torch's with it"


@pytest.mark.parametrize("name", ["plain", "create_graph"])
def test_a_backward_is_measured(load, name):
    assert found(load, "backward", name)


def test_growth_tells_what_each_operator_costs(load):
    for row in found(load, "growth", "recorded"):
        assert "10: " in row.note and "100: " in row.note


def test_a_chain_frees_what_it_saved(load):
    rows = found(load, "memory", "chain")
    assert all(row.verdict == "met" for row in rows if row.target)


def test_growth_is_the_worst_of_the_steps(load):
    row = load("growth").growth("x", "y", "layer", 1.0, "s", {1: 5.0, 8: 8.0, 16: 32.0, 32: 40.0}, start=8)
    assert (row.ratio, row.verdict.split(";")[0], row.base) == (2.0, "missed", 1.25)


@pytest.mark.parametrize("name", ["mlp", "small", "cnn", "gpt"])
def test_the_parameters_of_a_first_step_are_the_model_s(load, name):
    programs = load("_programs")
    program = programs.PROGRAMS[name]
    model = getattr(programs, program.model)(torchlike, **program.options)
    shapes = {k: tuple(p.shape) for k, p in model.named_parameters()}
    assert load("_first_step").shapes_of(name) == shapes


def test_a_sharded_step_agrees_with_the_hand_written_and_is_measured(load):
    time, counted, part = found(load, "sharding", "fully")
    assert time.against == counted.against == "hand-written JAX" and part.ratio < 1.1


def test_losses_over_eight_devices_are_those_of_one(load):
    rows = load("curves").measure("tensor", quick=True)
    assert [row.program for row in rows] == ["tensor parallel 2x4, eager", "tensor parallel 2x4, compiled"]
    assert all(row.ratio <= 1 for row in rows), [row.note for row in rows]


def test_steps_of_two_processes_of_four_devices_go_on(load):
    """Half of such runs stood still, each process with three devices within a sum and one that never began it."""
    eager, compiled = load("curves").curves("both_spanning", 12)
    assert eager == pytest.approx(compiled, rel=1e-6)


def test_every_layout_has_a_curve(load):
    assert [*load("curves").LAYOUTS][1:] == load("_jobs").JOBS["curves"]


def test_the_machine_and_the_names_of_jobs(load):
    report = load("report")
    assert f"jax {importlib.metadata.version('jax')}" in report.machine()
    assert report.jobs(["growth:layers", "memory"]) == [("growth", "layers"), ("memory", "chain")]
    with pytest.raises(SystemExit, match=r"no such benchmark: growth:x; there are compiled_step:mlp"):
        report.jobs(["growth:x"])
    assert {p.stem for p in HERE.glob("[a-z]*.py")} >= set(report.JOBS)


@pytest.fixture
def folder(load, tmp_path, monkeypatch):
    """The report over a folder and a page of its own."""
    report = load("report")
    monkeypatch.setattr(report, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(report, "PAGE", tmp_path / "page.md")
    return report


def a_row(report, ratio=0.5, **more):
    return sys.modules["_rows"].Row("m", "p", "a", 2.0, "ms", ratio, 1.0, **more)


def test_rows_are_kept_and_written_between_the_marks(folder):
    folder.PAGE.write_text(f"before\n{folder.BEGIN}\nold\n{folder.END}\nafter\n")
    folder.keep("memory", "chain", [a_row(folder), a_row(folder, 1.5), a_row(folder, None, note="why")])
    rows = folder.kept()
    assert [row.verdict for row in rows] == ["met", "missed", "why"]
    folder.write(rows)
    page = folder.PAGE.read_text()
    assert page.startswith(f"before\n{folder.BEGIN}\n") and page.endswith(f"{folder.END}\nafter\n")
    assert "| m | p | a | 2 ms | 1.50 | 1.00 | missed |" in page and "old" not in page
    assert "1 targets met, 1 missed" in page and folder.machine() in page
    folder.write(rows)
    assert folder.PAGE.read_text() == page


def test_what_another_machine_measured_is_left_out(folder, capsys):
    folder.keep("memory", "chain", [a_row(folder)])
    path = folder.kept_path("memory", "chain")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"machine": "another"}))
    assert folder.kept() == []
    assert "left out: memory:chain, measured on another" in capsys.readouterr().out


def test_a_page_without_marks_is_left_alone(folder):
    folder.PAGE.write_text("nothing\n")
    with pytest.raises(SystemExit, match="lacks the lines"):
        folder.write([])
    assert folder.PAGE.read_text() == "nothing\n"


def test_the_table_lines_up(load):
    rows = load("_rows")
    table = rows.text([rows.Row("a", "b", "c", 1.5, "ms", 0.333, 1.0), rows.Row("aa", "b", "c", None, "", None)])
    first, second, third = table.splitlines()
    assert first.split()[:3] == ["measure", "program", "over"]
    assert second.split() == ["a", "b", "c", "1.5", "ms", "0.33", "1.00", "met"] and third.split()[-1] == "n/a"


@pytest.mark.parametrize("name", ["per_sample", "hessian", "jacobian"])
def test_a_transform_agrees_with_jax_and_is_measured(load, name):
    assert [row.target for row in found(load, "transforms", name)] == [1.2, 1.0]


@pytest.mark.parametrize("name", ["pointwise", "layer", "loss", "products", "convolution"])
def test_gradcheck_passes_and_is_measured(load, name):
    (row,) = found(load, "gradcheck", name)
    assert row.target is None and "100 inputs" in row.program
