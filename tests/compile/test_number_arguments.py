"""Numbers among the arguments of a compiled function: one more program at the second value, and none after that."""

import dataclasses
import math
import threading

import pytest
import torch
from compile_kit import same

import torchlike
from torchlike.nn import functional as F

FLOATS = [0.5, 1.5, 2.25, -3.25, 0.5, 7.0, 9.0, 11.0]
INTS = [5, 4, 3, 7, 12, 5, 8, 9]

FUNCTIONS = {
    "operators": lambda t, x, s: x * s + s - x / s + (s - x) // 3 + s * x,
    "in place": lambda t, x, s: x.clone().mul_(s).add_(x, alpha=s).clamp_(max=s),
    "comparisons": lambda t, x, s: (x > s) | (x == s) | (s <= x),
    "arithmetic": lambda t, x, s: x * ((s + 1) * math.cos(s) / (abs(s) + 1) - min(s, 2.0) + float(s)),
    "dtypes": lambda t, x, s: [x.to(d) * s for d in (t.float16, t.bfloat16, t.float64, t.int32, t.complex64, t.bool)],
    "no dimensions": lambda t, x, s: [x.sum() * s, x.sum().double() * s, x.sum().long() + s],
    "functions": lambda t, x, s: [t.add(x, x, alpha=s), t.sub(x, s), t.where(x > 0, x, s), t.lerp(x, x + 1, s)],
    "more functions": lambda t, x, s: [
        t.clamp(x, min=s), t.addcmul(x, x, x, value=s), t.remainder(x, 2.0) * s, x % s, t.nn.functional.elu(x, s),
    ],
    "filled": lambda t, x, s: [t.full((2,), s), t.full_like(x, s), x.new_full((1,), s), t.tensor(s)],
    "filled again": lambda t, x, s: x.clone().fill_(s),
    "masks": lambda t, x, s: x.masked_fill(x > 0, s),
    "returned": lambda t, x, s: (x * s, s, {"next": s + 1}, [2 * s]),
    "types": lambda t, x, s: (x * isinstance(s, float), type(s) is int, s is None),
    "a function inside": lambda t, x, s: (lambda a, b=s, **k: a * b + k["c"])(x, c=s),
    "containers": lambda t, x, s: [x, s][1] * x + (s, 2)[0] + {"s": s}["s"],
    "transforms": lambda t, x, s: [t.func.grad(lambda y: (y * s).sum())(x), t.vmap(lambda y: y * s)(x)],
    "gradients": lambda t, x, s: _gradient(t, x.clone().requires_grad_(), s),
}  # fmt: skip


def _gradient(t, x, s):
    return t.autograd.grad((x * s).sin().sum(), x)[0]


def seen(x):
    """What is compared of a value of either library."""
    if hasattr(x, "detach"):
        kind = str(x.dtype).rpartition(".")[2]
        return kind, (x.detach().numpy() if x.is_complex() else x.detach().double().numpy())
    if isinstance(x, dict):
        return {k: seen(v) for k, v in x.items()}
    return [seen(v) for v in x] if isinstance(x, list | tuple) else x


def told(t, f, values):
    """What ``f(x, s)`` gives for each value of ``s``."""
    return [seen(f(t.tensor([1.0, -2.5, 0.25]), s)) for s in values]


@pytest.mark.parametrize("values", [FLOATS, INTS], ids=["floats", "ints"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_number_costs_one_more_program(name, values):
    function = FUNCTIONS[name]
    run = torchlike.compile(lambda x, s: function(torchlike, x, s), fullgraph=True)
    found = told(torchlike, run, values)
    same(told(torchlike, lambda x, s: function(torchlike, x, s), values), found)
    same(told(torch, lambda x, s: function(torch, x, s), values), found)
    assert run.count == 2


def test_zeros_and_what_is_no_number():
    run = torchlike.compile(lambda x, s: x * s, fullgraph=True)
    for s in (1.0, 0.0, -0.0, math.inf, -math.inf, 1e-310, 5e-324, math.nan):
        assert repr(run(torchlike.ones(1), s).item()) == repr((torch.ones(1) * s).item())
    assert run.count == 2


# name: function, programs for eight values. What decides in Python guards the number, or is its constant.
DECIDING = {
    "a branch": (lambda x, s: x * 2 if s > 4 else x + s, 3),
    "a truth": (lambda x, s: x * (s or 5), 2),
    "a power": (lambda x, s: x**s, 4),  # 2, 3 and 0.5 have kernels of their own
    "a key": (lambda x, s: x * {1: 3, 2: 5}.get(s, s), 8),
    "a set": (lambda x, s: x * len({s, 1, 2}), 8),
    "a text": (lambda x, s: (x, f"{s}"), 8),
    "a slice": (lambda x, s: x.expand(9)[: int(s)].sum(), 8),
    "a loop": (lambda x, s: sum([x * i for i in range(int(s))]), 8),
    "an option": (lambda x, s: x.sum(0, keepdim=s > 3), 3),
}


@pytest.mark.parametrize("name", DECIDING)
@pytest.mark.parametrize("kind", [int, float])
def test_a_number_that_decides(name, kind):
    function, programs = DECIDING[name]
    run = torchlike.compile(function, fullgraph=True)
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 3, 1):
        x = torchlike.tensor([1.5])
        same(seen(function(x, kind(n))), seen(run(x, kind(n))))
    assert run.count == programs


def test_the_first_value_keeps_its_program():
    run = torchlike.compile(lambda x, s: x.expand(8)[:s].sum(), fullgraph=True)
    for s in (1, 2, 1, 2, 1, 2):
        assert run(torchlike.ones(1), s).item() == s
    assert run.count == 2


def test_kinds_of_numbers_have_programs_of_their_own():
    run = torchlike.compile(lambda x, s: x * s)
    for s in (2, 3, 2.5, 3.5, True, 4, 1.5, False):
        made, expected = run(torchlike.arange(3), s), torch.arange(3) * s
        assert made.tolist() == expected.tolist() and str(made.dtype)[-5:] == str(expected.dtype)[-5:]
    assert run.count == 5  # two of ints, one of floats, one of each bool


def test_several_numbers_and_containers():
    @dataclasses.dataclass
    class Options:
        scale: object
        shift: float

    def f(x, lr, given, *more, decay=0.1):
        return x * lr - given["a"] * more[0].scale + more[0].shift * decay

    run = torchlike.compile(f, fullgraph=True)
    for i in range(6):
        args = torchlike.ones(2), i / 2, {"a": i * 3}, Options(torchlike.ones(2), i * 1.5)
        assert run(*args, decay=i / 8).tolist() == f(*args, decay=i / 8).tolist()
    assert run.count == 2


def test_what_the_function_keeps_is_of_the_call():
    kept, held = [], {}

    class M(torchlike.nn.Module):
        def forward(self, x, s):
            self.last = s
            kept.append(s * 2)
            held["x"] = x * s
            return x + self.last

    run = torchlike.compile(M(), fullgraph=True)
    for s in (0.5, 1.5, 2.5, 3.5):
        assert run(torchlike.zeros(1), s).item() == s == held["x"].item() + s
        assert run._orig_mod.last == s
    assert kept == [1.0, 3.0, 5.0, 7.0]


@pytest.mark.parametrize("dynamic, programs", [(None, 2), (True, 1), (False, 4)])
def test_dynamic(dynamic, programs):
    run = torchlike.compile(lambda x, s: x * s, dynamic=dynamic)
    assert [run(torchlike.ones(1), s).item() for s in (1.0, 2.0, 3.0, 4.0)] == [1, 2, 3, 4]
    assert run.count == programs


def test_numbers_beyond_64_bits_are_refused_as_in_eager_code():
    run = torchlike.compile(lambda x, s: x * s)
    for s in (1, 2, 3):
        run(torchlike.ones(1), s)
    for s in (1 << 64, -(1 << 80)):
        with pytest.raises(OverflowError, match="too large|too big"):
            run(torchlike.ones(1), s)
    assert run(torchlike.ones(1), 1 << 63).item() == 2.0**63
    assert run(torchlike.ones(1), 4).item() == 4


def test_errors_of_numbers_are_those_of_eager_code():
    run = torchlike.compile(lambda x, s: x * (math.sqrt(s) / (s - 9)))
    for s in (1.0, 2.0, 4.0):
        run(torchlike.ones(1), s)
    with pytest.raises(ValueError):
        run(torchlike.ones(1), -1.0)
    with pytest.raises(ZeroDivisionError):
        run(torchlike.ones(1), 9.0)
    assert run(torchlike.ones(1), 16.0).item() == pytest.approx(4 / 7)


def test_a_function_that_is_no_program_with_inputs_has_constants():
    run = torchlike.compile(lambda x, s: F.huber_loss(x, x + 1, delta=s), fullgraph=True)
    for s in (1.0, 2.0, 3.0):
        assert (
            run(torchlike.ones(1), s).item() == F.huber_loss(torchlike.ones(1), torchlike.ones(1) + 1, delta=s).item()
        )
    with pytest.raises(RuntimeError, match="non-positive values for delta"):
        run(torchlike.ones(1), -1.0)


def test_backends_are_given_numbers_as_tensors():
    graphs = []

    def backend(graph, inputs):
        graphs.append(len(inputs))
        return graph.forward

    run = torchlike.compile(lambda x, s: x * s, backend=backend)
    assert [run(torchlike.ones(1), s).item() for s in (1.0, 2.0, 3.0, 4.0)] == [1, 2, 3, 4]
    assert graphs == [1, 2]


def test_threads_have_numbers_of_their_own():
    run, wrong = torchlike.compile(lambda x, s: x * s), []

    def work(k):
        for i in range(40):
            s = k + i / 64
            if run(torchlike.ones(1), s).item() != s:
                wrong.append(s)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong and run.count <= 3


def test_arguments_are_not_kept():
    run = torchlike.compile(lambda x, s: x * s)
    for s in (1.0, 2.0):
        run(torchlike.ones(1), s)
    assert run.arguments.leaves == ()
