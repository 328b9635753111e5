"""Operators whose derivative at a singular point differs between PyTorch and JAX, found by running both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, overload

import jax
import jax.numpy as jnp
import jax.scipy.special
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
from torchlike.conventions._points import Case, groups

KERNEL = "jax.vjp of the kernel"
_LIBRARIES = (jnp, jax.nn, jax.scipy.special, jnp.linalg)


@dataclass(frozen=True)
class Kink:
    """One way in which an operator's derivative differs.

    Attributes:
        operator: PyTorch's name, with the overload: ``clamp``, ``max.dim``.
        argument: the argument differentiated with respect to.
        pytorch, jax: the derivative (of the sum of the results) in each library; a complex one is given
            in PyTorch's convention for both, so that what differs is not the conjugate.
        points: the points where that is so, each the arguments as text: ``self=0, other=0``.
        compared: JAX's function of the same name and values, or ``jax.vjp of the kernel``, that of the
            function by which torchlike computes the operator.
    """

    operator: str
    argument: str
    pytorch: str
    jax: str
    points: tuple[str, ...]
    compared: str


class Kinks(Sequence[Kink]):
    """A list of :class:`Kink` that prints as a table."""

    _head = ("operator", "argument", "at", "PyTorch", "JAX", "JAX's function")

    def __init__(self, found: Sequence[Kink]):
        self._found = tuple(found)

    @overload
    def __getitem__(self, index: int) -> Kink: ...
    @overload
    def __getitem__(self, index: slice) -> Kinks: ...
    def __getitem__(self, index):
        return Kinks(self._found[index]) if isinstance(index, slice) else self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    @property
    def operators(self) -> list[str]:
        """The names of the operators in the list, each once."""
        return list(dict.fromkeys(k.operator for k in self._found))

    def _rows(self) -> list[tuple[str, ...]]:
        return [(k.operator, k.argument, _at(k.points), k.pytorch, k.jax, k.compared) for k in self._found]

    def _title(self) -> str:
        n = len(self.operators)
        return f"{n} operator{'s' * (n != 1)} with derivatives that differ at singular points"

    def __repr__(self) -> str:
        return _table.text(self._title(), self._head, self._rows())

    def _repr_html_(self) -> str:
        return _table.html(self._title(), self._head, self._rows())


def kinks(*names: str) -> Kinks:
    """Find the operators whose derivative differs between PyTorch and JAX at zeros, ties, bounds, infinities and NaN.

    Nothing here is a list kept by hand: every operator that has a derivative formula of its own (or a
    namesake in ``jax.numpy``, ``jax.nn``, ``jax.scipy.special``) is run at the points that its signature
    allows, and its gradient compared with ``jax.vjp``.

    Args:
        names: operators to look at, as ``"abs"`` or ``"max.dim"`` (a name means all its overloads); by
            default all, which compiles some hundred kernels and takes about a minute.

    Raises:
        ValueError: a name is no operator with a derivative.

    >>> from torchlike import conventions
    >>> for kink in conventions.kinks("abs", "exp"):
    ...     print(kink.operator, kink.argument, kink.points[0], kink.pytorch, kink.jax, sep=" | ")
    abs | self | self=0 | 0 | 1
    abs | self | self=nan | 0 | -1
    """
    chosen = [op for op in REGISTRY.values() if _is_candidate(op)]
    known = {n for op in chosen for n in (op.full_name, op.schema.name)}
    unknown = sorted(set(names) - known)
    if unknown:
        raise ValueError(f"kinks: {unknown} are not among the differentiable operators, such as 'abs' or 'max.dim'")
    chosen = [op for op in chosen if not names or {op.full_name, op.schema.name} & set(names)]
    found = [kink for op in sorted(chosen, key=lambda op: op.full_name) for kink in _of(op)]
    return Kinks([kink for i, kink in enumerate(found) if not any(_repeats(kink, k) for k in found[:i])])


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


def namesake(name: str) -> tuple[str, Callable] | None:
    """JAX's function of the same name, with its name."""
    short = name.removeprefix("special_").removeprefix("linalg_")
    for library in _LIBRARIES:
        function = getattr(library, short, None)
        if callable(function) and not inspect.isclass(function):
            return f"{library.__name__}.{short}", function
    return None


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
    """The same gradients as ``jax.vjp`` gives them, of the namesake if its values are the same."""
    values = [jnp.asarray(arguments[n]) for n in names]
    keywords = chosen | {n: v for n, v in arguments.items() if n not in names and v is not None}
    if found := namesake(op.schema.name):
        gradients = _same_function(partial(found[1], **keywords), values, out)
        if gradients is not None:
            return found[0], gradients
    forward = op.forward(static)

    def kernel(*xs: jax.Array) -> tuple:
        filled = dict(zip(names, xs, strict=True))
        results = as_tuple(forward(*(filled.get(a.name, arguments.get(a.name)) for a in op.dynamic)))
        return tuple(r for i, r in enumerate(results) if rules.differentiable(r.dtype) and i not in op.nondiff)

    return KERNEL, _pulled(kernel, values)[1]


def _same_function(function: Callable, values: list, out: list) -> list | None:
    """Gradients of JAX's function, or None where it does not compute what the operator does."""
    try:
        results, gradients = _pulled(lambda *xs: as_tuple(function(*xs)), values)
    except Exception:  # another signature
        return None
    alike = len(results) == len(out) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-6, equal_nan=True) for a, b in zip(results, out, strict=True)
    )
    return gradients if alike else None


def _pulled(function: Callable, values: list) -> tuple[list, list]:
    """(results, gradients of their sum), the gradients in PyTorch's convention."""
    results, pull = jax.vjp(function, *values)
    gradients = rules.conj(pull(tuple(jnp.ones_like(r) for r in results)))
    return [np.asarray(r) for r in results], [np.asarray(g) for g in gradients]


def _point(arguments: dict, index: Any) -> str:
    """The arguments of a call, or those of one element of it, as text."""
    shown = []
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            shown.append(f"{name}={_table.number(value[index]) if index is not None else _table.numbers(value)}")
        elif value is not None:
            shown.append(f"{name}={_table.number(value)}")
    return ", ".join(shown)


def _at(points: tuple[str, ...]) -> str:
    return points[0] if len(points) == 1 else f"{points[0]} (and {len(points) - 1} more)"
