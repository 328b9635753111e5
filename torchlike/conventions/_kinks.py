"""Operators whose derivative at a singular point differs between PyTorch and JAX, found by running both."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base.state import enable_grad
from torchlike._core.conversion.convert import from_jax_array
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl import rules
from torchlike._decl.derive import as_tuple
from torchlike._decl.op import REGISTRY, Op, ViewOp
from torchlike.autograd import grad
from torchlike.conventions import _table
from torchlike.conventions._kink_table import Kink, Kinks, shipped, versions
from torchlike.conventions._namesakes import KERNEL, alike, namesake, pulled
from torchlike.conventions._points import Case, groups


def kinks(*names: str, recompute: bool = False, progress: bool | None = None) -> Kinks:
    """The operators whose derivative differs between PyTorch and JAX at zeros, ties, bounds, infinities and NaN.

    Nothing here is a list kept by hand: every operator that has a derivative formula of its own, or a namesake in
    ``jax.numpy``, ``jax.nn``, ``jax.scipy.special``, ``jax.lax``, is run at the points that its signature allows, and
    its gradient compared with JAX's. The whole table was computed so once, and comes with torchlike; its ``versions``
    say with which jax.

    Args:
        names: operators to run now, as ``"abs"`` or ``"max.dim"`` (a name means all its overloads); without any,
            the table that comes with torchlike.
        recompute: run all operators now instead, which compiles some hundred kernels and takes minutes.
        progress: whether to show a bar (of tqdm, where it is installed); by default if there is much to do.

    Raises:
        ValueError: a name is no operator with a derivative.

    >>> from torchlike import conventions
    >>> for kink in conventions.kinks("abs", "exp"):
    ...     print(kink.operator, kink.argument, kink.points[0], kink.pytorch, kink.jax, kink.compared, sep=" | ")
    abs | self | self=0 | 0 | 1 | jax.numpy.abs
    abs | self | self=nan | 0 | -1 | jax.numpy.abs
    """
    if not names and not recompute:
        return shipped()
    chosen = [op for op in REGISTRY.values() if _is_candidate(op)]
    known = {n for op in chosen for n in (op.full_name, op.schema.name)}
    unknown = sorted(set(names) - known)
    if unknown:
        raise ValueError(f"kinks: {unknown} are not among the differentiable operators, such as 'abs' or 'max.dim'")
    chosen = [op for op in chosen if not names or {op.full_name, op.schema.name} & set(names)]
    chosen.sort(key=lambda op: op.full_name)
    bar = _bar(chosen) if progress or (progress is None and len(chosen) > 20) else chosen
    found = [kink for op in bar for kink in _of(op)]
    return Kinks([kink for i, kink in enumerate(found) if not any(_repeats(kink, k) for k in found[:i])], versions())


def _bar(ops: list[Op]) -> Iterable[Op]:
    """The operators, with a bar on the error stream that names the one at work."""
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError:
        for i, op in enumerate(ops):
            print(f"kinks: {i + 1}/{len(ops)} {op.full_name}", file=sys.stderr)
            yield op
        return
    with tqdm(ops, desc="kinks", unit="operator", file=sys.stderr) as bar:
        for op in bar:
            bar.set_postfix_str(op.full_name)
            yield op


def _repeats(kink: Kink, other: Kink) -> bool:
    """Whether a kink of one overload says what that of another does."""
    mine, theirs = (replace(k, operator=k.operator.partition(".")[0]) for k in (kink, other))
    return mine == theirs


def _is_candidate(op: Any) -> bool:
    if not isinstance(op, Op) or isinstance(op, ViewOp) or op.lists or op.schema.name.startswith("_"):
        return False
    random = any(a.name == "words" for a in op.schema.args)
    if random or op.variants == {"inplace"} or op.formulas == {}:
        return False
    return op.formulas is not None or namesake(op.schema.name) is not None


def _of(op: Op) -> list[Kink]:
    """The kinks of one operator, those with the same values joined."""
    joined: dict[tuple[str, ...], list[str]] = {}
    for group in groups(op):
        answers = [_differences(op, case) for case in group]
        for at, *what in (found for answer in answers for found in answer or ()):
            joined.setdefault(tuple(what), []).append(at)
        if any(answer is not None for answer in answers):
            break
    return [
        Kink(op.full_name, wrt, ours, theirs, tuple(points), source)
        for (wrt, ours, theirs, source), points in joined.items()
    ]


def _differences(op: Op, case: Case) -> list[tuple[str, str, str, str, str]] | None:
    """(point, argument, PyTorch's, JAX's, source) of each difference in a call; None where it is refused."""
    arguments, static, chosen = case
    names = [a.name for a in op.dynamic if isinstance(arguments.get(a.name), np.ndarray)]
    try:
        out, ours = _ours(op, arguments, names, static)
        source, theirs = _theirs(op, arguments, names, static, chosen, out)
    except Exception:  # the operator does not take these shapes, dtypes or values: others are tried
        return None
    found = []
    for name, a, b in zip(names, ours, theirs, strict=True):
        if a is None:
            continue
        differ = ~np.isclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True)
        for i in np.flatnonzero(differ) if op.pointwise else [None] * bool(differ.any()):
            x, y = (_table.numbers(v if i is None else v[i]) for v in (a, b))
            found.append((_point(arguments | chosen, i), name, x, y, source))
    return found


def _ours(op: Op, arguments: dict, names: list[str], static: tuple) -> tuple[list, list]:
    """The differentiable results, and the gradients of their sum, as torchlike gives them."""
    tensors = {n: from_jax_array(jnp.asarray(arguments[n])).requires_grad_() for n in names}
    inputs = tuple(tensors.get(a.name, arguments.get(a.name)) for a in op.dynamic)
    with enable_grad():
        out = [t for t in as_tuple(call(op, inputs, static)) if isinstance(t, Tensor) and t.requires_grad]
    ones = [from_jax_array(jnp.ones_like(t.jax())) for t in out]
    found = grad(out, [tensors[n] for n in names], ones, allow_unused=True)
    return [np.asarray(t.jax()) for t in out], [None if g is None else np.asarray(g.jax()) for g in found]


def _theirs(op: Op, arguments: dict, names: list[str], static: tuple, chosen: dict, out: list) -> tuple[str, list]:
    """The same gradients as JAX gives them, of the namesake if its values are the same; in PyTorch's convention."""
    values = [jnp.asarray(arguments[n]) for n in names]
    if found := namesake(op.full_name):
        dims = {a.name: v for a, v in zip(op.static, static, strict=True) if a.name in ("dim", "keepdim") and v != ()}
        named = dims | chosen | {n: v for n, v in arguments.items() if n not in names and v is not None}
        gradients = _same_function(partial(found.call, **named), values, out)
        if gradients is not None:
            return found.name, gradients
    return KERNEL, [
        np.asarray(rules.conj(jnp.asarray(g))) for g in pulled(_kernel(op, arguments, names, static), values)[1]
    ]


def _kernel(op: Op, arguments: dict, names: list[str], static: tuple) -> Callable:
    forward = op.forward(static)

    def kernel(*xs: jax.Array) -> tuple:
        filled = dict(zip(names, xs, strict=True))
        results = as_tuple(forward(*(filled.get(a.name, arguments.get(a.name)) for a in op.dynamic)))
        return tuple(r for i, r in enumerate(results) if rules.differentiable(r.dtype) and i not in op.nondiff)

    return kernel


def _same_function(function: Callable, values: list, out: list) -> list | None:
    """Gradients of JAX's function, or None where it does not compute what the operator does."""

    def inexact(*xs: jax.Array) -> tuple:
        return tuple(r for r in as_tuple(function(*xs)) if rules.differentiable(jnp.asarray(r).dtype))

    try:
        results, gradients = pulled(inexact, values)
    except Exception:  # another signature
        return None
    same = len(results) == len(out) and all(alike(a, b) for a, b in zip(results, out, strict=True))
    return [np.conj(g) for g in gradients] if same else None


def _point(arguments: dict, index: Any) -> str:
    """The arguments of a call, or those of one element of it, as text that Python's ``complex`` reads."""
    texts = []
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            texts.append(f"{name}={_exact(value[index]) if index is not None else _exact(value)}")
        elif value is not None:
            texts.append(f"{name}={_table.number(value)}")
    return ", ".join(texts)


def _exact(x: Any) -> str:
    """A number or an array as text, with the signs of zeros."""
    if np.ndim(x):
        return "[" + ", ".join(map(_exact, x)) + "]"
    return str(complex(x)).strip("()") if np.iscomplexobj(x) else f"{float(x):g}"
