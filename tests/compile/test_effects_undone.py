"""Captures and programs that fail have changed nothing; effects that no program has are refused."""

import threading
import time
import types

import numpy as np
import pytest
from compile_kit import numbers, same
from guard_kit import x2

import torchlike as torch
from torchlike import nn
from torchlike._transforms.capture import program as programs
from torchlike._transforms.capture.capture import Trace
from torchlike._transforms.capture.program import Program
from torchlike._transforms.capture.structure import flatten_call
from torchlike._transforms.interpreter.run import Interpreter
from torchlike.utils.checkpoint import checkpoint


# -- when nothing may have changed -----------------------------------------------------------------------------
def world():
    return types.SimpleNamespace(n=0, log=[1], d={"a": 1}, s={1}, last=None)


def change_all(w, x):
    w.n += 1
    w.last = x
    w.log.append(x)
    w.d["a"] = w.d.pop("a") + 1
    w.s.add(w.n)


ITERATOR = iter([1.0] * 9)
ENDS = {
    "an iterator from outside": lambda x: x * next(ITERATOR),
    "the value of a tensor": lambda x: x * x.sum().item(),
    "an unknown function in C": lambda x: x * len(time.ctime()) * 0 + x,
}


@pytest.mark.parametrize("name", ENDS)
def test_a_capture_that_is_given_up_has_changed_nothing(name):
    w = world()

    def f(x):
        change_all(w, x)
        return ENDS[name](x)

    with pytest.raises(RuntimeError, match="is not one program"):
        torch.compile(f, fullgraph=True)(x2())
    same(vars(w), vars(world()))
    torch.compile(f)(x2())
    assert (w.n, len(w.log), w.d, w.s) == (1, 2, {"a": 2}, {1})


def test_an_error_of_the_function_happens_after_what_it_has_changed():
    found = []
    for wrap in (lambda f: f, torch.compile):
        w = world()

        def f(x, w=w):
            change_all(w, x)
            if w.n == 3:
                raise KeyError("three")
            return x * w.n

        run, errors = wrap(f), 0
        for i in range(5):
            try:
                run(x2(i))
            except KeyError:
                errors += 1
        found.append((numbers(vars(w)) | {"s": sorted(w.s)}, errors))
    same(*found)


@pytest.mark.parametrize("directly", [False, True])
def test_an_error_of_the_program_leaves_all_as_it_was(monkeypatch, directly):
    monkeypatch.setattr(programs, "_MANY", 0 if directly else 1000)
    w = world()

    @torch.compile(fullgraph=True)
    def f(x):
        change_all(w, x)
        return x * w.n

    f(x2())
    [(_, program)] = f.programs.popitem()[1]
    before = numbers(vars(w))

    def fail(*values):
        raise MemoryError

    with pytest.raises(RuntimeError, match="can't allocate memory"):
        leaves = [x2()]
        found = {"takes": lambda values, known: True, "epochs": None, "last": None}
        direct = types.SimpleNamespace(**found, execute=fail, collect=None)
        monkeypatch.setitem(program.run_alone.__globals__, "direct", direct)
        monkeypatch.setitem(program.run_alone.__globals__, "early", fail)
        program.run_alone(leaves, program.numbers())
    same(before, numbers(vars(w)))


def test_nothing_changes_before_the_program_has_run():
    w, (leaves, tree) = world(), flatten_call((x2(),), {})
    moving = {("entry", id(vars(w)), "n"), ("entry", id(w.d), "a")}
    with Interpreter(lambda x: (change_all(w, x), x * 2)[1], moving) as interpreter:
        trace = Trace(interpreter, leaves, tree)
    same(vars(w), vars(world()))
    assert Program(trace)(leaves, first=True).tolist() == [2, 2] and w.n == 1 and w.d == {"a": 2}


def test_threads_that_change_one_world():
    w = types.SimpleNamespace(log=[], d={}, last=None)

    @torch.compile(fullgraph=True)
    def f(x, k):
        w.log.append(x * 2)
        w.d[k] = w.last = x + 1
        return x

    def work(k):
        for i in range(50):
            f(x2(i), k)

    threads = [threading.Thread(target=work, args=(k,)) for k in "ab"]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(int(x[0]) for x in w.log) == sorted([2 * i for i in range(50)] * 2)
    assert w.d["a"].tolist() == w.d["b"].tolist() == [50, 50] and any(w.last is x for x in w.d.values())


# -- what stays in pieces ----------------------------------------------------------------------------------------
class Meta(type):
    def __setattr__(cls, name, value):
        super().__setattr__(name, value + 1)


class Odd(metaclass=Meta):
    n = 0


def stores(value):
    def make():
        box = types.SimpleNamespace()

        def f(x):
            box.kept = value(x)
            return x

        return f

    return make


def stored_within_a_transform():
    box = types.SimpleNamespace(n=0, y=None)

    def g(y):
        box.n, box.y = box.n + 1, y * 2
        return (y * y).sum()

    return lambda x: torch.func.grad(g)(x)


def recomputed():
    log, w = [], nn.Parameter(x2())

    def f(x):
        y = checkpoint(lambda v: (log.append(1), v * w)[1], x, use_reentrant=False)
        return y.sum()

    return f


def chosen():
    log = []

    def branch(v):
        log.append(1)
        return v * 2

    return lambda x: torch.cond(x.sum() > 0, branch, branch, (x,))


def in_backward():
    log = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log.append(1)
            return g * 2

    w = nn.Parameter(x2())
    return lambda x: Twice.apply(w * x)


REFUSED = {
    "a function made inside": stores(lambda x: lambda: x),
    "an iterator": stores(lambda x: iter([x])),
    "a numpy array": stores(lambda x: np.zeros(2)),
    "a parameter made inside": stores(lambda x: nn.Parameter(torch.zeros(2))),
    "a list that holds itself": stores(lambda x: (rows := [x], rows.append(rows))[0]),
    "rows of a native map": stores(lambda x: list(map(list, ["ab"]))),
    "a metaclass with __setattr__": lambda: lambda x: (setattr(Odd, "n", 3), x)[1],
    "a tensor of a transform": stored_within_a_transform,
    "a checkpoint": recomputed,
    "cond": chosen,
    "a backward that is traced later": in_backward,
    "a bound append": lambda log=[]: lambda x: (list(map(log.append, [1])), x)[1],  # noqa: B006
}


@pytest.mark.parametrize("name", REFUSED)
def test_no_program_for(name):
    f = REFUSED[name]()
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.compile(f, fullgraph=True)(x2())
