"""How the results of an exported program are made, in plain numbers and texts that a file can hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from torchlike._base import dtypes
from torchlike._base.layout import Layout
from torchlike._base.state import set_grad_enabled, state
from torchlike._core.dispatch.dispatch import call, refresh
from torchlike._core.dispatch.view_calls import attach
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import alias, fresh
from torchlike._core.tensor.views import View, reader
from torchlike._decl.op import REGISTRY
from torchlike._ops.view import view_dtype
from torchlike._transforms.capture.boundary import CompiledFunctionBackward

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor


class _Unpacked(Exception):
    """The view has no packed form."""


def packed_view(view: View | None) -> dict[str, Any] | None:
    """A view as nested lists; None if it holds what a file cannot, as symbolic lengths."""
    try:
        return {
            "steps": [[op.full_name, _packed(static), n] for op, static, n in view.steps],
            "ints": _packed(tuple(view.ints)),
            "layout": _packed(tuple(view.layout)),
            "dtype": None if view.dtype is None else dtypes.FROM_NP[view.dtype].name,
        }
    except _Unpacked:
        return None


def _packed(x: Any) -> Any:
    if isinstance(x, bool | str | type(None)):
        return x
    if isinstance(x, tuple):
        return [_packed(y) for y in x]
    if isinstance(x, dtypes.dtype):
        return {"dtype": x.name}
    if isinstance(x, jax.core.Tracer) or not hasattr(x, "__index__") or jax.export.is_symbolic_dim(x):
        raise _Unpacked
    return x.__index__()


def unpacked_view(packed: Mapping[str, Any]) -> View:
    """The view that ``packed_view`` described; KeyError or ValueError if it describes none."""
    steps = tuple([(REGISTRY[name], _unpacked(static), n) for name, static, n in packed["steps"]])
    shape, strides, offset = _unpacked(packed["layout"])
    dtype = packed["dtype"]
    np_dtype = None if dtype is None else dtypes.as_dtype(getattr(dtypes, dtype)).np
    return View(steps, _unpacked(packed["ints"]), Layout(shape, strides, offset), np_dtype)


def _unpacked(x: Any) -> Any:
    if isinstance(x, list):
        return tuple([_unpacked(y) for y in x])
    return getattr(dtypes, x["dtype"]) if isinstance(x, dict) else x


class StoredSpec:
    """Makes the results of one call.

    Args:
        outs: what the program returned. own: {"state" or "argument": its tensors by number}.
        node: the history of the results, or None.
    """

    def __init__(self, outs: Sequence[Any], own: Mapping[str, Sequence[Any]], node: Callable[..., Any] | None) -> None:
        self.outs, self.own, self.node, self.storages, self.results = outs, own, node, {}, []

    def add(self, how: Mapping[str, Any]) -> None:
        """Make one more of ``results``."""
        self.results.append(self.results[how["again"]] if "again" in how else self._made(how))

    def _made(self, how: Mapping[str, Any]) -> Any:
        if "constant" in how:
            return how["constant"]
        if "size" in how:
            return Size(how["size"])
        if "same" in how:
            kind, k = how["same"]
            return self.own[kind][k]
        if "alias" in how:
            kind, k = how["alias"]
            return _view_of(self.own[kind][k], how)
        t = self._new(how)
        t._view, t._cache = None if how["view"] is None else unpacked_view(how["view"]), None
        if how["root"] is not None and self.node is not None:
            t._rg, t._edge = True, (self.node, how["root"])
        return t

    def _new(self, how: Mapping[str, Any]) -> Tensor:
        storage = self.storages.get(how["slot"])
        t = fresh(self.outs[how["slot"]])
        if storage is None:
            storage = self.storages[how["slot"]] = t._storage
            storage.strides = None if how["strides"] is None else tuple(how["strides"])
        elif t._vc is t._storage:
            t._vc = storage
        t._storage = storage
        return t


def _view_of(t: Tensor, how: Mapping[str, Any]) -> Tensor:
    """The view of an argument, taken as in eager code."""
    view = None if how["view"] is None else unpacked_view(how["view"])
    with set_grad_enabled(bool(state.grad) and how["grad"]):
        if view is None or not view.steps:
            return alias(t)
        if t._view is not None:  # what the steps start from is no storage: its values, copied
            return call(reader(view.steps), (t, *view.ints), ())
        return _attached(t, view)


def _attached(t: Tensor, view: View | None) -> Tensor:
    ints, new = view.ints, t
    for step in view.steps:
        here, ints = ints[: step[2]], ints[step[2] :]
        new = attach(new, step, here, view.layout, view.dtype)
    if any(op is view_dtype for op, _, _ in view.steps):
        new._diff = None
    elif new._diff is not None and state.grad:
        new._diff.version = -1  # not that of any change: the history is made now
        refresh(new)
    return new


class ExportedProgramBackward(CompiledFunctionBackward):
    """The history of what an exported program returned: its backward is another program of the file."""

    __slots__ = ()

    _refusal = (
        "the backward of an exported program has no derivative of its own, so double backward is not supported; "
        "compute the gradient inside the exported function, with torch.autograd.grad"
    )
