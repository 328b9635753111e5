"""Behaviours of autograd around indexing and setting items, one small story each."""

import pytest
from both import agree, attempt
from story_kit import grid, leaf, said, story

INDEX = {
    "int": lambda t: 1,
    "negative": lambda t: -1,
    "slice": lambda t: slice(0, 2),
    "ellipsis": lambda t: (..., 0),
    "none": lambda t: (None, 1),
    "list": lambda t: [0, 1, 0],
    "lists": lambda t: ([0, 1, 1], [2, 2, 2]),
    "tensor": lambda t: t.tensor([[0, 1], [1, 1]]),
    "tensors that broadcast": lambda t: (t.tensor([[0], [1]]), t.tensor([0, 2])),
    "slice and list": lambda t: (slice(None), [0, 0]),
    "list and int": lambda t: ([0, 1], 2),
    "list, none, slice": lambda t: ([1, 1], None, slice(1, None)),
    "mask": lambda t: t.tensor([[True, False, True], [False, True, False]]),
    "row mask": lambda t: t.tensor([True, False]),
    "slice and mask": lambda t: (slice(None), t.tensor([True, False, True])),
    "empty mask": lambda t: t.zeros(2, 3, dtype=t.bool),
    "empty list": lambda t: [],
    "true": lambda t: True,
    "false": lambda t: False,
    "0-dim tensor": lambda t: t.tensor(1),
    "step": lambda t: (slice(None), slice(None, None, 2)),
    "range": lambda t: range(2),
    "everything": lambda t: ...,
    "tuple of a tensor": lambda t: (t.tensor([1]),),
    "int32": lambda t: t.tensor([1, 0], dtype=t.int32),
}


@pytest.mark.parametrize("name", INDEX)
def test_gradients_of_indexing(name):
    def f(t):
        x = grid(t)
        y = x[INDEX[name](t)]
        (y**2).sum().backward()
        (g,) = t.autograd.grad((x**3)[INDEX[name](t)].sum(), x, create_graph=True)
        return y, y.grad_fn, x.grad, g, t.autograd.grad(g.sum(), x)

    agree(f)


@pytest.mark.parametrize("value", ["number", "tensor", "0-dim", "one element", "broadcast"])
@pytest.mark.parametrize("name", INDEX)
def test_gradients_of_setting_items(name, value):
    def f(t):
        x, v = grid(t), leaf(t, 5)
        y = x * 2
        index = INDEX[name](t)
        values = {
            "number": lambda: 7,
            "tensor": lambda: v * t.ones_like(y[index]),
            "0-dim": lambda: v[0],
            "one element": lambda: v,
            "broadcast": lambda: (v * t.ones(2, dtype=t.float64)).sum().reshape(1, 1),
        }[value]()
        got = attempt(lambda: y.__setitem__(index, values))
        if isinstance(got, Exception):
            return got, y
        (y**2).sum().backward()
        return y, x.grad, v.grad, y._version

    agree(f)


@story
def test_an_index_of_bytes_is_a_mask(t):
    x = grid(t)
    y = x[t.tensor([1, 0], dtype=t.uint8)]
    y.sum().backward()
    return y, x.grad


@story
def test_setting_items_of_another_dtype(t):
    x, y = leaf(t), t.tensor([2.0], requires_grad=True)
    z = x * 1
    z[0] = y[0]
    z[1:] = y
    z.sum().backward()
    i = t.zeros(3, dtype=t.int64)
    i[0] = 2.7
    return z, x.grad, y.grad, i, said(lambda: i.__setitem__(0, x[0]), ".{0,10}")


@story
def test_indexing_does_not_save_the_tensor(t):
    x = leaf(t)
    y = x * 1
    z = y[t.tensor([0, 2])]
    y.add_(1)
    z.sum().backward()
    return x.grad


@story
def test_an_index_changed_after_use(t):
    x = leaf(t)
    i = t.tensor([0, 2])
    z = x[i]
    w = x.index_select(0, i)
    i.fill_(1)
    return said(z.sum().backward, "inplace operation"), said(w.sum().backward, "inplace operation"), x.grad


@story
def test_unbind_iteration_and_unpacking(t):
    x = grid(t)
    a, b = x
    rows = [r * i for i, r in enumerate(x)]
    (a * b + rows[0] + rows[1]).sum().backward()
    return x.grad, a.grad_fn, a.output_nr, b.output_nr


@story
def test_unused_outputs(t):
    x = grid(t, 2, 4)
    parts = x.split(1, dim=1)
    (parts[0] * 2 + parts[3]).sum().backward()
    return x.grad, t.autograd.grad(x.max(0).values[1], x), t.autograd.grad(t.svd(x)[1].sum(), x)
