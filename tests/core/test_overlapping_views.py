"""Writes through a part of a view whose elements share memory: ``unfold``, ``expand`` and ``as_strided``."""

import numpy as np
import pytest
from both import agree, agree_error

import torchlike


def _row(x):
    return x.unfold(-1, 2, 1)[..., 0, :]


def _changed(make, part, change):
    def f(t):
        x = make(t)
        change(part(x))
        return x

    return f


def _first_row_times(t):
    x, p = t.ones(3, dtype=t.float64, requires_grad=True), t.ones((), dtype=t.float64, requires_grad=True)
    y = x * 1
    y.unfold(0, 2, 1)[0].mul_(p)
    return x, p, y


def gradients(t):
    x, p, y = _first_row_times(t)
    first = t.autograd.grad((y**3).sum(), (x, p), create_graph=True)
    return *first, *t.autograd.grad(first[0].sum() + first[1], (x, p))


def under_func(t):
    def f(x):
        y = x * 1
        y.unfold(0, 2, 1)[0].mul_(x.sum())
        return y

    x = t.arange(8.0).reshape(2, 4)
    return t.func.vmap(f)(x), t.func.jacrev(f)(x[1]), t.func.jacfwd(f)(x[1])


def bits_below(t):
    x = t.arange(8.0).reshape(2, 2, 2)
    t.view_as_real(t.view_as_complex(x).unfold(1, 2, 1))[0, 0].mul_(-1)
    return x


def seen_by_both(t):
    x = t.arange(6.0)
    rows, rest = x.as_strided((2, 2), (0, 1), 1), x[1:]
    rows[0] = 7
    return x, rows, rest


def negative_zero(t):
    x = t.zeros(3)
    x.expand(4, 3)[2].mul_(-1.0)
    return 1 / x


def put_into_all(t):
    x = t.arange(4.0)
    x.unfold(0, 2, 1)[(t.tensor([1]),)] = t.tensor([7.0, 8.0])
    return x


def filled_in_places(t):
    x = t.arange(4.0)
    e, s = x.unfold(0, 2, 1), x.as_strided((3, 2), (1, 1))
    e.index_fill_(0, t.tensor([0]), 0.25)
    s.masked_fill_(s == 2, 5.0)
    s.index_add_(0, t.tensor([1]), t.ones(1, 2))
    return e, s, x, e + 0


def memory_of_numpy(t):
    x = np.arange(4.0)
    e = t.from_numpy(x).unfold(0, 2, 1)
    e[1, 0] = 7
    e.index_fill_(0, t.tensor([0]), 0.25)
    return x.tolist(), e


_STORIES = (
    gradients, under_func, bits_below, seen_by_both, negative_zero, put_into_all, filled_in_places, memory_of_numpy
)  # fmt: skip
PROGRAMS = {
    "row": _changed(lambda t: t.arange(4.0), _row, lambda x: x.mul_(10)),
    "column": _changed(lambda t: t.arange(4.0), lambda x: x.unfold(0, 2, 1)[:, 1], lambda x: x.add_(10)),
    "element": _changed(lambda t: t.arange(4), lambda x: x.unfold(0, 2, 1)[1, 0], lambda x: x.fill_(5)),
    "as_strided": _changed(lambda t: t.arange(6.0), lambda x: x.as_strided((4, 3), (1, 1))[2], lambda x: x.neg_()),
    "zeros": _changed(lambda t: t.arange(6.0), lambda x: x.as_strided((4, 3), (1, 1))[:, 1], lambda x: x.zero_()),
    "expand": _changed(lambda t: t.arange(3.0), lambda x: x.expand(4, 3)[1, 1:], lambda x: x.mul_(4)),
    "twice": _changed(lambda t: t.arange(6.0), lambda x: _row(_row(x.expand(3, 6))), lambda x: x[0].mul_(3)),
    "unfolded twice": _changed(
        lambda t: t.arange(6.0), lambda x: x.unfold(0, 2, 1).unfold(0, 2, 1)[1, 1], lambda x: x.mul_(3)
    ),
    "transposed": _changed(lambda t: t.arange(12.0).reshape(3, 4).t(), _row, lambda x: x.zero_()),
    "of a part": _changed(lambda t: t.arange(12.0).reshape(3, 4), lambda x: _row(x[:, 1:]), lambda x: x.add_(1)),
    "conjugate": _changed(lambda t: t.arange(4.0) + 1j, lambda x: x.unfold(0, 2, 1).conj()[0], lambda x: x.mul_(1j)),
    "bool": _changed(lambda t: t.arange(4) == 1, _row, lambda x: x.fill_(True)),
    "bfloat16": _changed(lambda t: t.arange(4.0).to(t.bfloat16), _row, lambda x: x.mul_(3)),
    **{f.__name__: f for f in _STORIES},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_writes_reach_the_base(name):
    agree(PROGRAMS[name])


@pytest.mark.parametrize("name", ("row", "expand", "conjugate", "gradients", "filled_in_places"))
def test_compiled(name):
    agree(lambda t: (torchlike.compile(PROGRAMS[name]) if t is torchlike else PROGRAMS[name])(t))


def test_a_tensor_to_fill_expanded_ones_with():
    agree_error(lambda t: t.zeros(3).expand(2, 3).fill_(t.tensor(1.0)), "more than one element of the written-to")
