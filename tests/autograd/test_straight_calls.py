"""Calls by straight code, of one or two plain tensors: whatever is switched on after the first call, they see it."""

import gc
import threading

import numpy as np
import pytest
import torch as theirs
from both import agree

import torchlike as torch
from torchlike._base.state import UNUSUAL, state
from torchlike._decl.op import REGISTRY
from torchlike.overrides import TorchFunctionMode
from torchlike.utils._python_dispatch import TorchDispatchMode


class Doubles(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {})) * 2


class Counts(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def program(x, y):
    return ((x * y) + y).sum()


@pytest.fixture
def warm():
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])
    for _ in range(2):
        program(x, y).backward()
    x.grad = None
    return x, y


def of_one_tensor(op):
    return "function" in op.variants and sum([not a.has_default for a in op.schema.args]) == 1


SEVERAL = sorted({op.schema.name for op in REGISTRY.values() if of_one_tensor(op) and len(op.schema.returns) > 1})


@pytest.mark.parametrize("name", SEVERAL)
def test_several_results_stay_apart(name):
    """Also in later calls, which are the ones by straight code."""
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    found = [getattr(torch, name)(x) for _ in range(3)]
    assert [type(r) for r in found] == [type(found[0])] * 3 and isinstance(found[0], tuple)


SWITCHES = {
    "inference": lambda: torch.inference_mode(),
    "autocast": lambda: torch.autocast("cpu"),
    "function mode": Doubles,
    "dispatch mode": Counts,
    "recorded": lambda: torch.set_execution("recorded"),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_marked_while_it_is_on(name):
    with torch.set_execution("immediate"):
        before = set(UNUSUAL)
        with SWITCHES[name]():
            assert before < UNUSUAL.keys()
            with SWITCHES[name]():
                assert before < UNUSUAL.keys()
            assert before < UNUSUAL.keys()
        assert before == UNUSUAL.keys()


def test_the_marks_of_a_thread_end_with_it():
    before, inside = set(UNUSUAL), []

    def body():
        state.active = 1
        inside.append(before < UNUSUAL.keys())

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    gc.collect()
    assert inside == [True] and before == UNUSUAL.keys()


def test_a_mode_of_one_thread_is_none_of_another(warm):
    x, y = warm
    entered, leave, seen = threading.Event(), threading.Event(), []

    def body():
        with Counts() as mode:
            entered.set()
            leave.wait(30)
            seen.append(mode.calls)

    thread = threading.Thread(target=body)
    thread.start()
    entered.wait(30)
    program(x, y).backward()
    leave.set()
    thread.join()
    assert seen == [0] and x.grad.tolist() == [3.0, 4.0]


def test_switches_after_the_first_calls(warm):
    x, y = warm
    with Counts() as mode:
        program(x, y)
        assert mode.calls == 3
    with Doubles():
        product, total = x * y, y.sum()
    assert product.tolist() == [6.0, 16.0] and total.item() == 14.0
    with torch.no_grad():
        assert not (x * y).requires_grad and not x.sum().requires_grad
    with torch.inference_mode():
        assert (x * y).is_inference() and y.sum().is_inference()
    with torch.autocast("cpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
    rows = torch.func.vmap(lambda a: (a * y + y).sum())(torch.ones(3, 2))
    assert rows.tolist() == [14.0] * 3
    assert torch.func.jvp(lambda a: (a * y).sum(), (y,), (y,))[1].item() == 25.0
    program(x, y).backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_the_kept_plan_is_that_of_the_call():
    """Operands change places, dtypes, shapes, and whether they require grad."""

    def stories(t):
        given = [
            t.ones(2, requires_grad=True),
            t.tensor([3.0, 4.0]),
            t.tensor([2, 3]),
            t.ones(2, 2, requires_grad=True)[0],
        ]
        found = []
        for _ in range(2):
            for a in given:
                for b in given:
                    c = a * b
                    found += [c, c.requires_grad, type(c.grad_fn).__name__]
                    if c.requires_grad:
                        found += t.autograd.grad(c.sum(), [z for z in (a, b) if z.requires_grad])
        return found

    agree(stories)


def test_the_default_dtype_of_a_straight_call():
    a, b = torch.tensor([1, 2]), torch.tensor([2, 4])
    assert (a / b).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert (a / b).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert (a / b).dtype is torch.float32


def test_memory_of_numpy_is_read_anew():
    memory = np.ones(3, np.float32)
    x = torch.from_numpy(memory)
    assert (x * x).tolist() == [1.0] * 3 and x.sum().item() == 3
    memory[0] = 5
    assert (x * x).tolist() == [25.0, 1.0, 1.0] and x.sum().item() == 7


def test_gradients_are_arrays_of_their_own():
    """None is shared with another tensor: what a program donates is lost to nobody else."""
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    for _ in range(3):
        a.grad = b.grad = None
        ((a * b) + b).sum().backward()
        kept = a.grad, b.grad
        a.grad.mul_(7)
        assert kept[0].tolist() == [7.0, 7.0] and kept[1].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("f", [lambda t: t.ones(2) * t.ones(3), lambda t: t.ones(2, 2) @ t.ones(3, 2)])
def test_errors_of_a_straight_call(f):
    for library in (torch, theirs):
        with pytest.raises(RuntimeError):
            f(library)
