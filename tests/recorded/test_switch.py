"""Choosing the execution: the function, the context, the variable, threads."""

import subprocess
import sys
import threading

import pytest

import torchlike as torch


@pytest.fixture(autouse=True)
def as_before():
    with torch.set_execution(torch.get_execution()):
        yield


def test_names():
    with pytest.raises(ValueError, match='must be "immediate" or "recorded", not \'fast\''):
        torch.set_execution("fast")
    with pytest.raises(ValueError, match="must be"):
        torch.set_execution(None)
    with pytest.raises(TypeError):
        torch.set_execution()


def test_at_once_and_as_a_context():
    torch.set_execution("recorded")
    assert torch.get_execution() == "recorded"
    with torch.set_execution("immediate"):
        assert torch.get_execution() == "immediate"
        with torch.set_execution("recorded"):
            assert torch.get_execution() == "recorded"
        assert torch.get_execution() == "immediate"
    assert torch.get_execution() == "recorded"
    torch.set_execution("immediate")
    assert torch.get_execution() == "immediate"


def test_as_a_decorator():
    torch.set_execution("immediate")

    @torch.set_execution("recorded")
    def f():
        return torch.get_execution()

    assert torch.get_execution() == "immediate" and f() == "recorded" and torch.get_execution() == "immediate"


def test_an_error_inside_a_context():
    torch.set_execution("immediate")
    with pytest.raises(KeyError), torch.set_execution("recorded"):
        raise KeyError
    assert torch.get_execution() == "immediate"


@pytest.mark.parametrize("first, then", [("recorded", "immediate"), ("immediate", "recorded")])
def test_values_of_one_mode_in_the_other(first, then):
    with torch.set_execution(first):
        w = torch.ones(3, requires_grad=True)
        y = w * 2
        view = y[1:]
    with torch.set_execution(then):
        z = (y + view.sum() + w).sum()
        z.backward()
        with torch.no_grad():
            w += 1
        assert w.grad.tolist() == [3.0, 9.0, 9.0] and w.tolist() == [2.0, 2.0, 2.0]
    with torch.set_execution(first):
        assert (w * 2 + y.detach()).tolist() == [6.0, 6.0, 6.0]


def in_thread(f):
    found = []
    thread = threading.Thread(target=lambda: found.append(f()))
    thread.start()
    thread.join()
    return found[0]


def test_threads_begin_with_what_was_set_at_once():
    torch.set_execution("recorded")
    assert in_thread(torch.get_execution) == "recorded"
    torch.set_execution("immediate")
    assert in_thread(torch.get_execution) == "immediate"
    with torch.set_execution("recorded"):
        assert in_thread(torch.get_execution) == "immediate"


def run(code, **variables):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**environ(), **variables})


def environ():
    import os

    return {k: v for k, v in os.environ.items() if k != "TORCHLIKE_EXECUTION"}


@pytest.mark.once
def test_the_variable():
    code = "import torchlike as t; print(t.get_execution(), (t.ones(2) + 1).tolist())"
    assert run(code, TORCHLIKE_EXECUTION="recorded").stdout == "recorded [2.0, 2.0]\n"
    assert run(code, TORCHLIKE_EXECUTION="immediate").stdout == "immediate [2.0, 2.0]\n"
    wrong = run(code, TORCHLIKE_EXECUTION="lazy")
    assert wrong.returncode and "TORCHLIKE_EXECUTION is 'lazy', but must be one of immediate, recorded" in wrong.stderr


def test_the_end_of_a_program():
    """What nobody read is dropped in silence."""
    code = "import torchlike as t; x = t.ones(2); y = x + 1; z = y @ y; print('end')"
    done = run(code, TORCHLIKE_EXECUTION="recorded")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_an_immediate_step_after_recorded_changes(kind):
    p = torch.nn.Parameter(torch.zeros(2))
    p.grad, optimizer = torch.ones(2), kind([p], lr=1.0)
    with torch.set_execution("immediate"):
        for _ in range(3):
            with torch.set_execution("recorded"):
                p.data.add_(1)
            optimizer.step()
    torch.testing.assert_close(p.detach(), torch.zeros(2), rtol=0, atol=1e-5)
