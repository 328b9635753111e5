"""As ``_composed``, of functions that are no operators here: derivatives of samples, combinations, histograms."""

from __future__ import annotations

from math import inf
from typing import Any

import torchlike._base.dtypes as dtypes

# -- choices of elements -----------------------------------------------------------------------------


def _grids(aten: Any, vectors: Any) -> list[Any]:
    """One tensor for each vector, of as many dimensions as there are vectors, that varies along one of them."""
    n, sizes = len(vectors), [v.shape[0] for v in vectors]
    shapes = [[-1 if i == j else 1 for j in range(n)] for i in range(n)]
    return [aten.expand(aten.view(v, shape), sizes) for v, shape in zip(vectors, shapes, strict=True)]


def cartesian_prod(aten: Any, *vectors: Any) -> Any:
    return aten.stack([aten.reshaped(g, [g.numel()]) for g in _grids(aten, vectors)], 1)


def combinations(aten: Any, input: Any, r: int, with_replacement: bool) -> Any:
    n, device = input.shape[0], input.device
    grids = _grids(aten, [input] * r)
    places = _grids(aten, [aten.arange(n, dtype=dtypes.int64, device=device)] * r)
    chosen = aten.full([n] * r, True, dtype=dtypes.bool, device=device)
    for before, after in zip(places, places[1:], strict=False):
        rising = aten["le.Tensor" if with_replacement else "lt.Tensor"](before, after)
        chosen = aten["mul_.Tensor"](chosen, rising)
    return aten.stack([aten.masked_select(g, chosen) for g in grids], 1)


# -- derivatives of sampled functions ----------------------------------------------------------------


def gradient(aten: Any, x: Any, dims: Any, steps: Any, order: int) -> list[Any]:
    numbers = {id(s): aten._local_scalar_dense(s) for s in steps if hasattr(s, "ndim") and not s.ndim}
    steps = [numbers.get(id(s), s) for s in steps]
    return [(_at if hasattr(s, "ndim") else _even)(aten, x, d, s, order) for d, s in zip(dims, steps, strict=True)]


def _even(aten: Any, x: Any, d: int, h: Any, order: int) -> Any:
    """The derivative along dimension ``d`` at points of the distance ``h``."""
    cut = lambda i, j=None: aten["slice.Tensor"](x, d, i, j)  # noqa: E731
    times = lambda t, n: aten["mul.Scalar"](t, n)  # noqa: E731
    sub, by = aten["sub.Tensor"], lambda t: aten["div.Scalar"](t, h)
    below, above = cut(0, -2), cut(2)
    inner = by(sub(above, below))
    if order == 1:
        low, high = cut(0, 1), cut(1, 2)
        first = by(sub(high, low))
        low, high = cut(-2, -1), cut(-1)
        last = by(sub(high, low))
    else:
        c, b, a = times(cut(2, 3), 0.5), times(cut(1, 2), 2), times(cut(0, 1), -1.5)
        first = by(sub(aten["add.Tensor"](a, b), c))
        c, b, a = times(cut(-1), 1.5), times(cut(-2, -1), 2), times(cut(-3, -2), 0.5)
        last = by(aten["add.Tensor"](sub(c, b), a))
    return aten.cat([first, aten["div.Scalar"](inner, 2), last], d)


def _at(aten: Any, x: Any, d: int, at: Any, order: int) -> Any:
    """The derivative along dimension ``d`` at points of the coordinates ``at``."""
    n = x.shape[d]
    cut = lambda i, j=None: aten["slice.Tensor"](x, d, i, j)  # noqa: E731
    add, sub, mul, div = (aten[f"{name}.Tensor"] for name in ("add", "sub", "mul", "div"))
    low, high = aten["slice.Tensor"](at, 0, 0, n - 1), aten["slice.Tensor"](at, 0, 1, n)
    gaps = sub(high, low)
    p, q = aten["slice.Tensor"](gaps, 0, 0, -1), aten["slice.Tensor"](gaps, 0, 1)
    shape = [-1 if i == d else 1 for i in range(x.ndim)]
    product = mul(p, add(p, q))
    a = aten.view(div(aten.neg(q), product), shape)
    product = mul(p, q)
    b = aten.view(div(sub(q, p), product), shape)
    product = mul(q, add(p, q))
    c = aten.view(div(p, product), shape)
    above, here = mul(cut(2), c), mul(cut(1, -1), b)
    inner = add(add(mul(cut(0, -2), a), here), above)
    gap = lambda i: aten["select.int"](gaps, 0, i)  # noqa: E731
    if order == 2:
        return aten.cat([_first(aten, cut, gap), inner, _last(aten, cut, gap)], d)
    near, low, high = gap(0), cut(0, 1), cut(1, 2)
    first = div(sub(high, low), near)
    near, low, high = gap(-1), cut(-2, -1), cut(-1)
    return aten.cat([first, inner, div(sub(high, low), near)], d)


def _first(aten: Any, cut: Any, gap: Any) -> Any:
    add, mul, div = (aten[f"{name}.Tensor"] for name in ("add", "mul", "div"))
    total = add(gap(1), gap(0))
    product = mul(gap(0), total)
    far, near = gap(1), gap(0)
    a = div(aten.neg(add(aten["mul.Scalar"](near, 2.0), far)), product)
    product = mul(gap(1), gap(0))
    b = div(add(gap(1), gap(0)), product)
    total = add(gap(1), gap(0))
    product = mul(gap(1), total)
    c = div(aten.neg(gap(0)), product)
    third, second = mul(c, cut(2, 3)), mul(b, cut(1, 2))
    return add(add(mul(a, cut(0, 1)), second), third)


def _last(aten: Any, cut: Any, gap: Any) -> Any:
    add, mul, div = (aten[f"{name}.Tensor"] for name in ("add", "mul", "div"))
    total = add(gap(-2), gap(-1))
    product = mul(gap(-2), total)
    a = div(gap(-1), product)
    product = mul(gap(-2), gap(-1))
    b = div(aten.neg(add(gap(-2), gap(-1))), product)
    total = add(gap(-2), gap(-1))
    product = mul(gap(-1), total)
    far, near = gap(-2), gap(-1)
    c = div(add(far, aten["mul.Scalar"](near, 2)), product)
    third, second = mul(c, cut(-1)), mul(b, cut(-2, -1))
    return add(add(mul(a, cut(-3, -2)), second), third)


# -- histograms, losses ------------------------------------------------------------------------------


def histogramdd(aten: Any, input: Any, bins: Any, range: Any, weight: Any, density: bool) -> tuple[Any, ...]:
    named = {"weight": weight, "density": density}
    if not all(isinstance(b, int) for b in bins):
        edges = list(bins)
        return aten._histogramdd_from_bin_tensors(input, edges, **named), *edges
    named["range"] = range if range is None else list(range)
    edges = aten._histogramdd_bin_edges(input, list(bins), **named)
    return aten._histogramdd_from_bin_cts(input, list(bins), **named), *edges


def ctc_loss(aten: Any, scores: Any, targets: Any, lengths: Any, wanted: Any, blank: int, mode: int, zero: bool) -> Any:
    listed, single = isinstance(wanted, list | tuple), scores.ndim == 2
    given = (list(lengths), list(wanted)) if listed else (lengths, wanted)
    scores = aten.unsqueeze(scores, 1) if single else scores
    found = aten["_ctc_loss" if listed else "_ctc_loss.Tensor"](scores, targets, *given, blank, zero)[0]
    if zero:
        none = aten.zeros([], dtype=found.dtype, device=found.device)
        found = aten["where.self"](aten["eq.Scalar"](found, inf), none, found)
    if mode == 1:
        counts = aten.given(wanted, found) if listed else wanted
        return aten.mean(aten["div.Tensor"](found, aten.clamp_min(counts, 1)))
    if mode == 2:
        return aten.sum(found)
    return aten["squeeze.dim"](found, 0) if single else found
