"""Numbers of operators that are given as tensors: read in eager code, part of the program in compiled functions."""

import pytest
import torch

import torchlike
from torchlike.nn import functional as F

CASES = {
    "add": lambda t, x, s: t.add(x, x, alpha=s),
    "add_": lambda t, x, s: x.clone().add_(x, alpha=s),
    "sub": lambda t, x, s: x.sub(x, alpha=s),
    "rsub": lambda t, x, s: t.rsub(x, x * 3, alpha=s),
    "addcmul": lambda t, x, s: t.addcmul(x, x, x, value=s),
    "addcdiv": lambda t, x, s: t.addcdiv(x, x, x, value=s),
    "addmm": lambda t, x, s: t.addmm(x, x.expand(3, 3), x.expand(3, 3), beta=s, alpha=s),
    "baddbmm": lambda t, x, s: t.baddbmm(x, x.expand(2, 3, 3), x.expand(2, 3, 3), beta=s),
    "addr": lambda t, x, s: t.addr(x.expand(3, 3), x, x, alpha=s),
    "index_add": lambda t, x, s: x.index_add(0, t.tensor([0]), x[:1], alpha=s),
    "pad": lambda t, x, s: t.nn.functional.pad(x, (1, 1), value=s),
    "leaky_relu": lambda t, x, s: t.nn.functional.leaky_relu(-x, s),
    "elu": lambda t, x, s: t.nn.functional.elu(-x, s),
    "softplus": lambda t, x, s: t.nn.functional.softplus(x, s),
    "threshold": lambda t, x, s: t.nn.functional.threshold(x, s, s),
    "renorm": lambda t, x, s: t.renorm(x[None], 2, 0, s),
    "nan_to_num": lambda t, x, s: t.nan_to_num(x / 0 * 0, nan=s),
    "linspace": lambda t, x, s: t.linspace(0, s, 5),
    "linspace of two": lambda t, x, s: t.linspace(s, s * 2, 5, dtype=t.float64),
    "logspace": lambda t, x, s: t.logspace(0.0, s, 4, base=2),
}


@pytest.mark.parametrize("of", ["float32", "float64", "int16"])
@pytest.mark.parametrize("name", CASES)
def test_one_program_for_all_numbers(name, of):
    def answers(t, compile=lambda f: f):
        function = compile(lambda x, s: CASES[name](t, x, s))
        for n in (2.5, 3.0):
            x = t.tensor([0.5, 1.0, 2.0], requires_grad=True)
            out = function(x, t.tensor(n, dtype=getattr(t, of)))
            yield str(out.dtype).rpartition(".")[2], out.tolist()
            if out.requires_grad:
                out.pow(2).sum().backward()
                yield "grad", x.grad.tolist()

    def close(got, expected):
        assert [kind for kind, _ in got] == [kind for kind, _ in expected]
        for (_, a), (_, b) in zip(got, expected, strict=True):
            torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=1e-5, atol=1e-6, equal_nan=True)

    expected = list(answers(torch))
    close(list(answers(torchlike)), expected)
    made = []
    close(list(answers(torchlike, lambda f: made.append(torchlike.compile(f, fullgraph=True)) or made[0])), expected)
    assert made[0].count == 1


def test_the_dtype_is_that_of_the_tensors():
    function = torchlike.compile(lambda x, s: x.add(x, alpha=s), fullgraph=True)
    for kind in ("float16", "float64", "complex64", "int32"):
        s = torchlike.tensor(2.0 if kind != "int32" else 2, dtype=torchlike.float64 if kind != "int32" else None)
        assert function(torchlike.ones(2, dtype=getattr(torchlike, kind)), s).dtype is getattr(torchlike, kind)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda t, s: t.ones(2, dtype=t.int64).add(t.ones(2, dtype=t.int64), alpha=s), RuntimeError),
        (lambda t, s: t.ones(2).add(t.ones(2), alpha=t.ones((), requires_grad=True) * s), TypeError),
        (lambda t, s: t.ones(2).add(t.ones(2), alpha=t.ones(2)), TypeError),
        (lambda t, s: t.linspace(0, t.ones(2) * s, 3), RuntimeError),
    ],
)
def test_what_is_no_such_number(function, error):
    for call in (
        lambda: function(torch, torch.tensor(2.5)),
        lambda: function(torchlike, torchlike.tensor(2.5)),
        lambda: torchlike.compile(lambda s: function(torchlike, s))(torchlike.tensor(2.5)),
    ):
        with pytest.raises(error):
            call()


def test_lengths_still_end_the_program():
    function = torchlike.compile(lambda n: torchlike.arange(n) * F.relu(n))
    assert [function(torchlike.tensor(n)).tolist() for n in (2, 3)] == [[0, 2], [0, 3, 6]]
