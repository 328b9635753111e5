"""Numbers at the ends of dtypes: means in a narrower one, NaN that is left out, powers by lists, complex numbers."""

import pytest
from both import agree

import torchlike

INF, NAN = float("inf"), float("nan")
WIDE = [[70000.0, -69999.0], [1e6, 3.0]]
CASES = {
    "means of floats": lambda t: [t.tensor(WIDE).mean(d, dtype=h) for h in halves(t) for d in (0, 1, (0, 1))],
    "means of doubles": lambda t: [t.tensor(WIDE, dtype=t.float64).mean(dtype=h) for h in halves(t)],
    "means of ints": lambda t: [t.tensor([2**31 - 1, -(2**31)]).int().mean(dtype=h) for h in halves(t)],
    "gradients of such means": lambda t: [slope(t, lambda x, h=h: x.mean(0, dtype=h), WIDE) for h in halves(t)],
    "no NaN as integers": lambda t: [t.nansum(t.tensor([1.0, NAN, 4]), dtype=d) for d in (t.int64, t.int32, t.bool)],
    "powers of a list": lambda t: [t._foreach_pow([t.tensor([-INF, -0.0, 4])], e) for e in (0.5, -0.5, [-0.5], 2, -1)],
    "powers of complex numbers": lambda t: [t._foreach_pow([t.tensor([-3j, -1 + 1j])], e) for e in (1, 2, 3, -1, -2)],
    "powers in place": lambda t: powers(t, [t.tensor([-3j]), t.tensor([2, 3]), t.tensor([-INF])], [2, 3, 0.5]),
    "negative powers": lambda t: t._foreach_pow([t.tensor([2])], -1),
    "negative powers in place": lambda t: t._foreach_pow_([t.tensor([2.0]), t.tensor([2])], [2, -1]),
    "a maximum beyond": lambda t: t._foreach_maximum([t.tensor([1], dtype=t.int8)], 2**31),
    "a minimum beyond": lambda t: t._foreach_minimum_([t.tensor([1.0]).half()], [1e10]),
    "a maximum within": lambda t: t._foreach_maximum([t.tensor([1], dtype=t.int8), t.tensor([1.0])], [3, 1e10]),
    "roots": lambda t: [t.tensor([-INF, -0.0, 4, NAN], dtype=d) ** e for d in floats(t) for e in (0.5, -0.5)],
    "slopes of powers": lambda t: [slope(t, lambda x: x**1.5, [-INF, -0.0, 4], d) for d in floats(t)],
    "over zeros": lambda t: [z / t.tensor(x) for z in (1j, -1j, 1 + 1j, 0j) for x in ([0, 1, -64], [0.0, -0.0, 2.0])],
    "slopes over floats": lambda t: slope(t, lambda x: (1 - 2j) / x, [0.5, -2.0]),
    "different NaN": lambda t: [t.unique(t.tensor([NAN, 1, 0, 1, NAN, INF, -INF], dtype=d), return_counts=True,
                                         return_inverse=True) for d in floats(t)],  # fmt: skip
    "places behind NaN": lambda t: [t.searchsorted(t.tensor(s, dtype=d), t.tensor([7, -3, NAN, 0]).to(d), right=right)
                                    for s in ([-1.0, 0, 0, NAN, NAN, NAN], [0, 1, 2, 3, NAN], [0.0, 1], [])
                                    for d in floats(t) for right in (False, True)],  # fmt: skip
    "places in rows": lambda t: t.searchsorted(t.tensor([[0, 1, NAN], [NAN] * 3]), t.tensor([[0.5, 9], [1.0, NAN]])),
    "buckets": lambda t: [t.bucketize(t.tensor([0.5, NAN, 9]), t.tensor([0, 1, NAN]), right=r) for r in (False, True)],
}  # fmt: skip
RAISE = ("negative powers", "negative powers in place", "a maximum beyond", "a minimum beyond")


def halves(t):
    return t.float16, t.bfloat16


def floats(t):
    return t.float16, t.bfloat16, t.float32, t.float64


def slope(t, f, numbers, dtype=None):
    x = t.tensor(numbers, dtype=dtype, requires_grad=True)
    y = f(x)
    return t.autograd.grad(t.view_as_real(y).sum() if y.is_complex() else y.sum(), x)


def powers(t, xs, exponents):
    t._foreach_pow_(xs, exponents)
    return xs


@pytest.mark.parametrize("name", [name for name in CASES if name not in RAISE])
def test_numbers(name):
    agree(CASES[name])


@pytest.mark.parametrize("name", RAISE)
def test_refused_numbers(name):
    with pytest.raises(RuntimeError, match="negative integer powers|without overflow"):
        CASES[name](torchlike)
