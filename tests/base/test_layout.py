"""Contiguity, density, overlap, and the strides of fresh results, against PyTorch's."""

from __future__ import annotations

import random
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layout_cases import layout_of, shape_of, strided

from torchlike._base import layout as L

SEEDS = st.integers(0, 2**32)
EACH = 40  # programs per seed: drawing is dearer than running

ELEMENTWISE = {
    "add": (2, torch.add),
    "eq": (2, torch.eq),
    "addcmul": (3, torch.addcmul),
    "lerp": (3, torch.lerp),
}


def broadcastable(shape: tuple[int, ...], rnd: random.Random) -> tuple[int, ...]:
    if rnd.random() < 0.5:
        return shape
    shrunk = tuple([n if rnd.random() < 0.7 else 1 for n in shape])
    return shrunk[rnd.randint(0, len(shrunk)) :] if rnd.random() < 0.2 else shrunk


@given(SEEDS)
def test_what_a_layout_is_like(seed):
    rnd = random.Random(seed)
    for _ in range(EACH):
        x = strided(shape_of(rnd), rnd)
        lay = layout_of(x)
        assert L.is_contiguous(lay) == x.is_contiguous(), lay
        assert L.is_dense(lay) == torch.ops.aten.is_non_overlapping_and_dense(x), lay
        for dims, form in ((4, torch.channels_last), (5, torch.channels_last_3d)):
            assert L.is_contiguous_channels_last(lay, dims) == x.is_contiguous(memory_format=form), lay
        assert L.numel(lay.shape) == x.numel()
        assert L.contiguous(lay.shape) == layout_of(torch.empty(lay.shape))


@given(SEEDS)
def test_overlap_is_what_inplace_operators_refuse(seed):
    rnd = random.Random(seed)
    for _ in range(EACH):
        x = strided(shape_of(rnd), rnd)
        try:
            x.add_(1)
            refused = False
        except RuntimeError as error:
            assert "more than one element" in str(error)
            refused = True
        assert L.has_overlap(layout_of(x)) == refused, layout_of(x)


@given(SEEDS)
def test_preserved_strides(seed):
    rnd = random.Random(seed)
    for _ in range(EACH):
        x = strided(shape_of(rnd), rnd)
        lay = layout_of(x)
        for make in (torch.clone, torch.empty_like, torch.Tensor.double):
            assert L.preserve_strides(lay) == make(x).stride(), lay


@given(SEEDS)
def test_unary_strides(seed):
    rnd = random.Random(seed)
    for _ in range(EACH):
        x = strided(shape_of(rnd), rnd)
        lay = layout_of(x)
        for op in (torch.neg, torch.sqrt, torch.isnan):
            assert L.pointwise_strides([lay], lay.shape) == op(x).stride(), (lay, op)
        number = L.Layout((), ())
        assert L.pointwise_strides([lay, number], lay.shape) == (x + 1).stride(), lay


@pytest.mark.parametrize("name", ELEMENTWISE)
@given(SEEDS)
def test_pointwise_strides(name, seed):
    rnd = random.Random(seed)
    count, op = ELEMENTWISE[name]
    for _ in range(EACH):
        shape = shape_of(rnd)
        xs = [strided(broadcastable(shape, rnd), rnd) for _ in range(count)]
        out = op(*xs)
        lays = [layout_of(x) for x in xs]
        assert L.pointwise_strides(lays, tuple(out.shape)) == out.stride(), lays


@given(SEEDS)
def test_pointwise_strides_after_a_cast(seed):
    rnd = random.Random(seed)
    for _ in range(EACH):
        shape = shape_of(rnd)
        a, b = [strided(broadcastable(shape, rnd), rnd) for _ in range(2)]
        b = b.double()
        cast = L.Layout(tuple(a.shape), L.preserve_strides(layout_of(a)))
        out = a + b
        assert L.pointwise_strides([cast, layout_of(b)], tuple(out.shape)) == out.stride(), layout_of(a)


def test_memory_order_is_innermost_first():
    assert L.memory_order(layout_of(torch.zeros(2, 3, 4))) == (2, 1, 0)
    assert L.memory_order(layout_of(torch.zeros(2, 3, 4).permute(2, 0, 1))) == (0, 2, 1)
    assert L.memory_order(layout_of(torch.zeros(3).expand(2, 3).t())) == (1, 0)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 1, 1, 1), (0, 3, 2, 2), (2, 3, 4, 5, 6), (2, 3), ()])
@pytest.mark.parametrize("dims", [4, 5])
def test_channels_last_strides(shape, dims):
    form = torch.channels_last if dims == 4 else torch.channels_last_3d
    if len(shape) == dims:
        want = torch.empty(shape, memory_format=form).stride()
        assert L.channels_last_strides(shape, dims) == want
        return
    with pytest.raises(RuntimeError) as theirs:
        torch.empty(shape, memory_format=form)
    with pytest.raises(RuntimeError, match=re.escape(str(theirs.value).split("\n")[0])):
        L.channels_last_strides(shape, dims)
