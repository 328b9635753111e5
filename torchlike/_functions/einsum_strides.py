"""Strides of what einsum computes: PyTorch multiplies operands in pairs, whose products lie as it permutes them.

Found by running it: of 3,000 random equations of two operands 2 differ, of 800 of three and four 2.

Layouts here have one dimension for each label, those of the result first: of length 1 where an operand lacks the label.
"""

from collections.abc import Sequence
from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from torchlike._base.layout import Ints, Layout, contiguous_strides, pointwise_strides
from torchlike._ops.products import parse


@lru_cache(4096)
def strides_of(equation: str, layouts: tuple[Layout, ...]) -> Ints:
    """The strides of ``einsum(equation, ...)`` of several operands of these layouts, as PyTorch's are."""
    inputs, output = parse(equation, [len(x.shape) for x in layouts])
    labels = list(dict.fromkeys([*output, *(label for term in inputs for label in term)]))
    operands = [_spread(x, term, labels) for x, term in zip(layouts, inputs, strict=True)]
    for pair in _path(equation, layouts):
        second, first = [operands.pop(i) for i in sorted(pair, reverse=True)]
        later = {d for x in operands for d in range(len(labels)) if x.shape[d] != 1}
        operands.append(_product(first, second, set(range(len(output), len(labels))) - later))
    return operands[0].strides[: len(output)]


def _path(equation: str, layouts: Sequence[Layout]) -> list[tuple[int, ...]]:
    if len(layouts) == 2:
        return [(0, 1)]
    operands = [np.broadcast_to(0.0, x.shape) for x in layouts]
    return [pair for pair in jnp.einsum_path(equation, *operands, optimize="auto")[0] if len(pair) == 2]


def _spread(x: Layout, term: Sequence, labels: Sequence) -> Layout:
    sizes, strides = [1] * len(labels), [0] * len(labels)
    for n, stride, label in zip(x.shape, x.strides, term, strict=True):
        sizes[labels.index(label)] = n
        strides[labels.index(label)] += stride  # of a label that comes twice: a diagonal
    return Layout(tuple(sizes), tuple(strides), 0)


def _product(a: Layout, b: Layout, gone: set[int]) -> Layout:
    """The product summed over the dimensions that are ``gone``: of matrices where both operands have one of these."""
    both = {d for d in gone if a.shape[d] != 1 and b.shape[d] != 1}
    alone = any([a.shape[d] != b.shape[d] for d in gone])
    a, b = _summed(a, gone - both), _summed(b, gone - both)
    shape = tuple(1 if d in gone else n if m == 1 else m for d, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)))
    if not both:
        return Layout(shape, pointwise_strides([a, b], shape), 0)
    batch = [d for d in range(len(shape)) if d not in gone and a.shape[d] != 1 and b.shape[d] != 1]
    rows = [d for d in range(len(shape)) if d not in gone and a.shape[d] != 1 and d not in batch]
    columns = [d for d in range(len(shape)) if d not in gone and b.shape[d] != 1 and d not in batch]
    turned = not alone and rows and columns and max(columns) < min(rows)  # then the second matrix comes first
    strides, step = [0] * len(shape), 1
    for d in reversed(batch + (columns + rows if turned else rows + columns)):
        strides[d] = step
        step *= max(shape[d], 1)
    return Layout(shape, tuple(strides), 0)


def _summed(x: Layout, dims: set[int]) -> Layout:
    if all([x.shape[d] == 1 for d in dims]):
        return x
    shape = tuple(1 if d in dims else n for d, n in enumerate(x.shape))
    return Layout(shape, contiguous_strides(shape), 0)
