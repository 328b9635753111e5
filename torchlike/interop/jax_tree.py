"""Tensors as nodes of jax's trees: what they are on both sides of ``jax.jit``, ``grad``, ``vmap`` and the others.

A gradient that jax computes and one that the tape computes never meet unseen. What a function of jax makes of a tensor
with history has a history that says so when it is differentiated. Inside of such a function the tensor requires grad
too; jax's own operators, which keep no tape, refuse it there unless jax itself is differentiating it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

try:
    from jax._src.core import pytype_aval_mappings as _types
except ImportError:  # no public name; without it jax's own error stands where it takes arrays alone
    _types = {}

from torchlike._base.dtypes import FROM_NP
from torchlike._base.state import state, stops
from torchlike._core.autograd.custom_function import guarded
from torchlike._core.autograd.fields import differentiable
from torchlike._core.autograd.node import AccumulateGrad
from torchlike._core.tensor.mutation import extras_of
from torchlike._core.tensor.storage import Stand
from torchlike._core.tensor.tensor import Tensor, alias, array_of, wrap
from torchlike._core.tensor.views import followed_by_jax
from torchlike._executor.immediate import Abstract
from torchlike._executor.level import LevelValue
from torchlike._executor.references import lent
from torchlike._executor.spread import in_order
from torchlike._ops.constant import still

_OUTSIDE = "history outside of jax"  # in the extras of a tensor or node: its history ends at a border that jax put up
_PROGRAMS = ("DynamicJaxprTracer", "BatchTracer")  # jax's classes of values in jit and vmap; the others have tangents
_LOST = (
    "the history of this tensor of shape {shape} stayed outside of the function of jax that it was passed to or "
    "returned from. To differentiate through that function make it one of tensors with "
    "torchlike.interop.from_jax(function), use jax.grad around it, or pass tensor.detach() to treat it as a constant"
)


def register(cls: type[Tensor], make: Callable[[Tensor, bool], Tensor]) -> None:
    """Make the tensors of exactly the class ``cls`` nodes of jax's trees, with their value as the one leaf.

    Args:
        cls: Tensor or a class derived from it.
        make: ``make(tensor, requires_grad)``, a tensor of that class over the value of a plain one.
    """

    def flatten(t: Tensor) -> tuple[tuple[jax.Array], tuple[bool, bool, bool]]:
        _demand_no_tangent(t)
        follows = t.requires_grad and bool(state.grad)
        functional = any([level.functional for level in state.levels])
        if follows and functional:
            raise _inside(t)
        if type(t._storage.form) is Stand:
            return (t._storage.value.leaf,), _StandKind(t._storage.value.kind)
        if isinstance(t._storage.form, LevelValue):
            raise _inside(t)
        leaf = t.requires_grad and t.is_leaf and not functional
        return (lent(array_of(t)),), (leaf, follows and not t.is_leaf, follows and _is_outside(t))

    def unflatten(kind: tuple[bool, bool, bool], leaves: Any) -> Any:
        (leaf,) = leaves
        value = _value(leaf, kind)
        requires_grad, has_history, outside = kind
        if stops() and followed_by_jax(value):  # the result of a function of jax that was called without grad
            value = still(value)
        t = wrap(value)
        if type(value) is Stand:
            return alias(t, cls)
        if has_history:
            new = guarded([t], _LOST.format(shape=list(t.shape)))[0]
        else:
            new = make(t, requires_grad and differentiable(t))
        if new is not None and outside and isinstance(leaf, jax.core.Tracer):
            edge = new._edge
            (extras_of(new) if edge is None else edge[0]._extra("metadata", dict))[_OUTSIDE] = True
        return new

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)


class _StandKind(tuple):
    """The structure of a tensor without a value of its own, as ``equinox.partition`` makes: where its history is does
    not tell it from the other part."""

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, tuple) and tuple(self[:2]) == tuple(other[:2])

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self[:2]))


def _value(leaf: Any, kind: Any) -> Any:
    """The value of a tensor with this leaf, which is anything that jax or a user has mapped its array to."""
    if isinstance(leaf, jax.Array):
        return in_order(leaf)
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return Abstract(leaf.shape, leaf.dtype)
    if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype in FROM_NP:
        return jax.numpy.asarray(leaf)
    return Stand(leaf, kind)


def _is_outside(t: Tensor) -> bool:
    """Whether the history of ``t`` is, or begins at, a tensor that jax is given and does not differentiate."""
    value = t._storage.value
    if type(value).__name__ not in _PROGRAMS:
        return not isinstance(value, jax.core.Tracer)
    if t._edge is None:
        return bool(t._ex) and _OUTSIDE in t._ex
    nodes, met = [t._edge[0]], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in met:
            continue
        met.add(node)
        leaf = isinstance(node, AccumulateGrad)
        if leaf and not isinstance(array_of(node.variable), jax.core.Tracer):
            return True
        marks = node.variable._ex if leaf else (node._ex or {}).get("metadata")
        if marks and _OUTSIDE in marks:
            return True
        nodes += [edge[0] for edge in node._edges if edge is not None]
    return False


def _operand(t: Tensor) -> jax.Array:
    """What jax's own functions and operators take for a tensor among their arguments: its array.

    Raises:
        RuntimeError: the tensor is part of a graph, has a tangent, or stands for many examples, all of which the
            result would silently not be.
    """
    if isinstance(t._storage.form, LevelValue):
        raise _inside(t)
    _demand_no_tangent(t)
    if t.requires_grad and state.grad and _is_outside(t):
        raise RuntimeError(
            f"a function of jax was given a tensor of shape {list(t.shape)} that requires grad, and its result would "
            "have no history. Use tensor.detach() or tensor.jax() for the value alone, "
            "torchlike.interop.from_jax(function) for a function that keeps the history, or `tensor + array` with the "
            "tensor on the left"
        )
    return lent(array_of(t))


def _demand_no_tangent(t: Tensor) -> None:
    """Refuse a tensor with a tangent, which a result of jax would silently not have."""
    if any([level.carries(t) for level in state.levels]):
        raise _inside(t)


def _inside(t: Tensor) -> RuntimeError:
    return RuntimeError(
        f"a function of jax was given a tensor of shape {list(t.shape)} inside of a function transform (vmap, grad, "
        "jvp, a dual level), which its result would not be part of. Use torchlike.interop.from_jax(function) for a "
        "function that is, or `tensor + array` with the tensor on the left"
    )


def _plain(t: Tensor, requires_grad: bool) -> Tensor:
    t = alias(t)
    return t.requires_grad_() if requires_grad else t


class _JaxArray:
    """The method ``__jax_array__`` of tensors, for jax's functions.

    Tensors lack it while lengths are symbols: a symbol on the left of an operator asks for it, and would compute.
    """

    def __get__(self, t: Tensor | None, cls: type) -> Any:
        if state.capture is not None and state.capture.symbolic:
            raise AttributeError("jax takes no tensor while torch.export traces with dynamic lengths: use tensor.jax()")
        return _operand if t is None else partial(_operand, t)


def _no_array(t: Tensor) -> Any:
    raise ValueError(
        f"jax takes an array here, not a tensor of shape {list(t.shape)}: use tensor.jax(), also for the result of a "
        "function that jax.grad differentiates"
    )


def refuse(cls: type, way_out: str) -> None:
    """Make jax say ``way_out`` where an object of ``cls`` or of a class below it stands for an array."""

    def raises(x: Any) -> Any:
        raise ValueError(
            f"jax takes arrays and trees of them, not an object of {type(x).__name__}: it cannot be an argument, "
            f"result or carry of jax.jit, grad, vmap, scan and the like. {way_out}"
        )

    _types[cls] = raises
    cls.__jax_array__ = raises  # type: ignore[attr-defined]


_types[Tensor] = _no_array
Tensor.__jax_array__ = _JaxArray()  # type: ignore[method-assign, assignment]
Tensor.__numpy_dtype__ = property(lambda self: self.dtype.np)  # functions of jax ask for it before the value
register(Tensor, _plain)
