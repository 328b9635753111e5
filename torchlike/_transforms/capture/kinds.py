"""What of an argument selects a program, and what of a value that is read anew in every call."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from torchlike._base.device import device
from torchlike._base.dtypes import dtype, get_default_dtype
from torchlike._base.state import AUTOCAST, state
from torchlike._core.dispatch.dispatch import refresh
from torchlike._core.tensor.tensor import Tensor, carried
from torchlike._executor.pending import Array
from torchlike._ops.view import is_conj, is_neg
from torchlike._transforms.capture.structure import exactly

_VALUES = (dtype, device, enum.Enum, range, frozenset, type, types.BuiltinFunctionType)
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def kind_of(x: Any) -> tuple[Any, ...]:
    """Equal for values with which a program does the same."""
    if isinstance(x, Tensor):
        view = x._view
        value = x._storage.form
        element = value.dtype if view is None or view.dtype is None else view.dtype
        layout = value.shape if view is None else view.layout if not view.steps else (view.layout, *marks(x))
        hooks = x._ex and _hooks(x._ex)
        kind = carried(x) or type(x)
        if x._diff is not None:
            up_to_date(x)
        return kind, layout, element, x._rg, x._edge and x._edge[0] is not None, x._grad is None, hooks
    if type(x) is tuple:
        return tuple, *map(kind_of, x)
    if isinstance(x, _PLAIN):
        return type(x), x if x and x == x else repr(x)  # -0.0 is not 0.0, and NaN is the same NaN
    if isinstance(x, slice):
        return slice, kind_of(x.start), kind_of(x.stop), kind_of(x.step)
    if isinstance(x, np.generic):
        return type(x), x.tobytes()
    if isinstance(x, frozenset):
        return type(x), frozenset(zip(x, exactly(x), strict=True))
    return (type(x), x) if isinstance(x, _VALUES) else (type(x), id(x))


def up_to_date(t: Tensor) -> None:
    """Let a view from outside have the history that its base gives it, which may have changed since it was asked."""
    before = capture = state.capture
    while capture is not None:
        if capture.repeats or id(t._diff.base) in capture.fields:  # a body renews it itself; fields are put back
            return
        capture = capture.outer
    state.capture = None
    try:
        refresh(t)
    except RuntimeError:
        pass  # who uses it is told
    finally:
        state.capture = before


def marks(t: Tensor) -> tuple[bool, ...]:
    """Whether ``t`` is a lazy conjugate, and whether a lazy negative; empty where it is no view."""
    return (is_conj(t), is_neg(t)) if t._view is not None and t._view.steps else ()


def same_kind(key: Any, leaves: Any) -> Callable[..., bool] | None:
    """``same(args)``: whether a call has this key, as straight code; None where an argument is no plain tensor.

    ``key``: of ``CompiledFunction``. ``same`` may deny what is true, for values that are not computed yet.
    """
    plain = [x.__class__ is Tensor and x._view is x._ex is x._diff is None for x in leaves]  # type: ignore[comparison-overlap]
    if key[2] is not None or not all(plain):
        return None
    space = {"Tensor": Tensor, "Array": Array, "state": state, "default": get_default_dtype, "dtype": key[5]}
    space["autocast"] = key[6]
    names, terms = [f"x{i}" for i in range(len(leaves))], []
    for i, (name, (_, shape, element, grad, edge, no_grad, _)) in enumerate(zip(names, key[1], strict=True)):
        space |= {f"shape{i}": shape, f"element{i}": element}
        terms += [
            f"{name}.__class__ is Tensor and {name}._view is {name}._ex is {name}._diff is None",
            f"{name}._rg is {grad} and ({name}._edge is None) is {edge is None}",
            f"({name}._grad is None) is {no_grad}",
            f"(v := {name}._storage.form).__class__ is Array",
            f"(v := v.aval).shape == shape{i} and v.dtype == element{i}",
        ]
        terms += [f"{name}._storage is not {other}._storage" for other in names[:i]]
    terms.append(f"state.grad is {key[3]} and state.inference is {key[4]} and default() is dtype")
    terms.append(f"state.autocast == autocast and state.active & {AUTOCAST} == {key[7]}")
    terms.append(f"state.overrides_off == {key[8]}")
    unpack = f"    {', '.join(names)}, = args\n" if names else ""
    lines = f"def same(args):\n    if len(args) != {len(names)}: return False\n{unpack}    return {' and '.join(terms)}"
    exec(compile(lines, "<torchlike kinds>", "exec"), space)
    return space["same"]


def _hooks(extras: Mapping[str, Any]) -> tuple[Any, ...]:
    """The hooks of an argument, by identity."""
    return tuple([(k, *map(id, v.values())) if isinstance(v, dict) else (k, id(v)) for k, v in extras.items()])
