"""What the tests of in-place changes and their history share."""

from __future__ import annotations

import re

from both import attempt


def double(t, *shape):
    """1, 2, ... in double precision."""
    n = 1
    for s in shape:
        n *= s
    return t.arange(1.0, n + 1, dtype=t.float64).reshape(shape).clone()


def leaf(t, *shape):
    return double(t, *shape).requires_grad_()


def message(f):
    """What an error says (without the operator's name, which only one library tells), or the result."""
    got = attempt(f)
    if not isinstance(got, Exception):
        return got
    text = re.sub(r" \((in )?\w+\)(?=\.?$)", "", f"{type(got).__name__}: {got}")
    return re.sub(r", which is output 0 of (Select|AsStrided),", "", text)


def graph(node, depth=6):
    """The names below a node, nested."""
    if node is None or not depth:
        return None
    name = node.name().rpartition(":")[2]
    return name, [(graph(n, depth - 1), i) for n, i in node.next_functions if n is not None]


def tell(*tensors):
    """What autograd says of tensors."""
    return [
        (graph(x.grad_fn), x.requires_grad, x.is_leaf, x.output_nr, x._version, x._is_view(), x.detach().clone())
        for x in tensors
    ]


def no_grad(t, f):
    with t.no_grad():
        return f()


def square(*tensors):
    """A scalar of all the tensors, in which every element counts differently."""
    total = 0
    for i, x in enumerate(tensors):
        total = total + (x * x).abs().sum() * (i + 1)
    return total
