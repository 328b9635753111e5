"""``out=``: the result of a call written into a given tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import torchlike._base.device as devices
from torchlike._base.dtypes import dtype, from_np
from torchlike._base.frames import warn
from torchlike._base.layout import contiguous_strides
from torchlike._base.promotion import can_cast
from torchlike._base.state import state
from torchlike._core.autograd.node import requires_grad
from torchlike._core.dispatch.dispatch import call, walk
from torchlike._core.dispatch.inplace import demand_distinct, demand_same_or_apart, demand_writable
from torchlike._core.dispatch.layers import Call, Form
from torchlike._core.dispatch.resizing import resize
from torchlike._core.tensor.arguments import KIND, RETURN_TYPES
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.mutation import ANY, expected_of, reshape, write
from torchlike._core.tensor.tensor import Tensor, strided, value_of
from torchlike._decl import derive, rules
from torchlike._executor.level import LevelValue
from torchlike._executor.sparse import LAYER, holds
from torchlike._ops.cast import to_copy

if TYPE_CHECKING:
    import jax

    from torchlike._core.typed import Inputs, Shape
    from torchlike._decl.derive import Kernel
    from torchlike._decl.typed import Static


def call_out(op: Kernel, inputs: Inputs, static: Static, out: Any) -> Any:
    """Run ``op`` and write its result (or results) into ``out``, resizing it where PyTorch does."""
    returns = op.declaration.schema.returns
    several = len(returns) != 1 or returns[0][0].endswith("]")
    outs = tuple(out) if several and isinstance(out, tuple | list) else (out,)
    for o in outs:
        if not isinstance(o, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(o).__name__}")
    demand_as_many(op.name, len(returns), outs)
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    if state.grad and any([requires_grad(t) for t in (*tensors, *outs)]) and _differentiable(op, inputs, static):
        demand_unrecorded(f"{op.name}()", *tensors, *outs)
    _demand_no_tangent(f"{op.name}_out", (*tensors, *outs))
    for o in outs:
        demand_writable(o)
    _demand_no_overlap(op, tensors, outs)
    made = Call(op, OUT, (*inputs, *outs), (*static, len(outs)))
    (walk if state.active or any([type(x) not in KIND for x in (*inputs, *outs)]) else Call.run)(made)
    return out if op.returns is None else RETURN_TYPES.get(f"{op.returns.__name__}_out", op.returns)(outs)


def _differentiable(op: Kernel, inputs: Inputs, static: Static) -> bool:
    """Whether gradients can flow through the call at all."""
    if op.declaration.formulas == {}:
        return False
    avals = [derive.aval(value_of(x) if isinstance(x, Tensor) else x) for x in inputs]
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and rules.differentiable(avals[i].dtype)]
    return not wanted or op.derivative(static, avals, tuple(wanted)) is not None


def _run(op: Kernel, inputs: Inputs, static: Static) -> tuple[Tensor, ...]:
    """The call itself, unrecorded: the results are computed and put into the outputs, which it returns."""
    given = inputs, static
    inputs, static, outs = parts(inputs, static)
    expected = expected_of(outs[0]) if len(outs) == 1 else ANY
    if "computes" in op.declaration.out:
        static = _computed_as(op, static, outs[0])
    if "widens" in op.declaration.out:
        inputs, static = _as_floats_of(op, inputs, static, outs[0])
    before, state.grad = state.grad, False
    try:
        got = call(op, inputs, static)
    finally:
        state.__dict__["grad"] = before
    results = tuple(got) if isinstance(got, tuple) else (got,)
    for at, (r, o) in enumerate(zip(results, outs, strict=True)):
        if not ("parts" in op.declaration.out and _takes_parts(o.dtype, inputs[0].dtype)):
            _demand_dtype(op, value_of(r), o, at)
    if LAYER.used and holds([x._storage.form for x in (*results, *outs)]):
        LAYER.put(op, results, outs)
        return outs
    values = [_fitted(op, value_of(r), o) for r, o in zip(results, outs, strict=True)]
    for r, o, v in zip(results, outs, values, strict=True):
        if not put(o, v, expected, r):  # another thread has changed it, which may be an input too
            return _run(op, *given)
    return outs


OUT = Form("out", _run, outputs=True)


def parts(inputs: Inputs, static: Static) -> tuple[Inputs, Static, Inputs]:
    """(inputs, static arguments, outputs) of a call of the form ``out``."""
    n = static[-1]
    return inputs[:-n], static[:-1], inputs[-n:]


def _demand_no_overlap(op: Kernel, tensors: Sequence[Tensor], outs: Sequence[Any]) -> None:
    """Refuse an expanded output, and one that shares a part of its memory with an input of a pointwise call."""
    for o in outs:
        demand_distinct(op.name, o)
        apart = "apart" in op.declaration.out
        for x in tensors if op.pointwise or apart else ():
            if x._storage is o._storage and (apart or x is not o):
                demand_same_or_apart(op.name, o, x, apart)


_IN_CPP = {
    "float32": "float", "float64": "double", "int64": "long int", "int32": "int", "int16": "short int",
    "uint8": "unsigned char", "int8": "signed char", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def _computed_as(op: Kernel, static: Static, out: Tensor) -> Static:
    """The static arguments of a call that computes in the dtype of its output."""
    given = static[-1]
    if given is not None and given is not out.dtype:
        _refuse_dtype(op, given.np, out, 0)
    return *static[:-1], out.dtype


def _as_floats_of(op: Kernel, inputs: Inputs, static: Static, out: Tensor) -> tuple[Inputs, Static]:
    """A call that computes in the dtype of an output of other floats, which is the one that the call names, if any."""
    x, to = inputs[0], out.dtype
    if static and static[-1].__class__ is dtype:
        return (inputs, static) if static[-1] is to else _refuse_dtype(op, static[-1].np, out, 0)
    if to is x.dtype or not (x.dtype.is_floating_point and (to.is_floating_point or to.is_complex)):
        return inputs, static
    if op.declaration.static[-1].kind == "dtype":
        return inputs, (*static[:-1], to)
    return (call(to_copy, (x,), (to,)), *inputs[1:]), static


def _refuse_dtype(op: Kernel, dtype: Any, out: Tensor, at: int) -> NoReturn:
    if op.name in ("nanquantile", "quantile"):
        raise RuntimeError("quantile() out tensor must be same dtype as the input tensor; use its .dtype")
    wanted, got = from_np(np.dtype(dtype)).scalar_name, out.dtype.scalar_name
    if op.name in ("cummax", "cummin"):
        raise RuntimeError(f"expected scalar_type {wanted} but found {got} for {('values', 'indices')[at]} output")
    if op.name == "logcumsumexp":
        raise RuntimeError(f"expected scalar_type {wanted} but found {got}")
    if op.name == "mode":
        raise RuntimeError(f"expected scalar type '{wanted}' but got '{got}' for {('values', 'indices')[at]} output")
    if op.name in ("isposinf", "isneginf"):
        raise RuntimeError(f"{op.name} does not support non-boolean outputs, got: {got}")
    _differ(op.name, dtype, out)


def demand_dtype(name: str, dtype: Any, out: Tensor) -> None:
    """RuntimeError unless ``out`` has the numpy dtype of the result."""
    if dtype != out.dtype.np:
        _differ(name, dtype, out)


def _differ(name: str, dtype: Any, out: Tensor) -> NoReturn:
    wanted, got = (_IN_CPP.get(np.dtype(d).name, np.dtype(d).name) for d in (dtype, out.dtype.np))
    raise RuntimeError(f"Expected out tensor to have dtype {wanted}, but got {got} instead ({name})")


def demand_castable(name: str, dtype: Any, out: Tensor, what: str = "result") -> None:
    """RuntimeError unless a result of the numpy dtype can be cast to that of ``out``."""
    source = from_np(np.dtype(dtype))
    if source is not out.dtype and not can_cast(source, out.dtype):
        raise RuntimeError(
            f"{name}: Expected {what} to be safely castable from {source.scalar_name} dtype, but got {what} with dtype "
            f"{out.dtype.scalar_name}"
        )


def put_exactly(name: str, result: Tensor, out: Tensor) -> None:
    """Write the result of a composite into ``out``, which must have its dtype. RuntimeError otherwise."""
    demand_unrecorded(f"{name}()", out)
    demand_dtype(name, result.dtype.np, out)
    demand_fits(name, result, out)
    demand_distinct(name, out)
    put(out, value_of(result))


def _takes_parts(out: dtype, source: dtype) -> bool:
    """Whether real results of complex numbers are cast to an output of this dtype."""
    return source.is_complex and (out.is_floating_point or out is source)


def _demand_dtype(op: Kernel, value: Any, out: Tensor, at: int) -> None:
    """Refuse an output of another dtype than the result's, where PyTorch does not cast."""
    if "exact" in op.declaration.out and value.dtype != out.dtype.np:
        _refuse_dtype(op, value.dtype, out, at)
    if "promotes" in op.declaration.out and not can_cast(from_np(value.dtype), out.dtype):
        raise TypeError(
            f"torch.cat(): input types can't be cast to the desired output type {out.dtype.scalar_name} ({op.name})"
        )
    if "safely" in op.declaration.out:
        unnamed = "eigenvalues" if "eigenvalues" in op.declaration.out else "result"
        what = op.declaration.schema.returns[at][1] or unnamed
        demand_castable(op.name, value.dtype, out, what)
    if "truths" in op.declaration.out and out.dtype.np.name not in ("bool", "uint8"):
        raise RuntimeError(f"{op.name} only supports bool tensor for result, got: {out.dtype.scalar_name}")


def _fitted(op: Kernel, value: Any, out: Tensor) -> jax.Array:
    if isinstance(value, LevelValue) or isinstance(out._storage.form, LevelValue):
        raise RuntimeError(
            f"Batching rule not implemented for aten::{op.name}.out; the fallback path doesn't work on out= or view "
            "ops: inside of vmap, use the result instead of out="
        )
    nothing = isinstance(value, derive.jax.ShapeDtypeStruct)
    if nothing is not isinstance(out._storage.value, derive.jax.ShapeDtypeStruct):
        kind = "meta" if nothing else devices.of_array(value)
        raise RuntimeError(
            f"Attempting to copy from device {kind} to device {out.device}, but cross-device copies are not allowed! "
            f"({op.name} with out=)"
        )
    if not nothing and (found := devices.of_array(value)) != out.device:
        raise RuntimeError(
            f"Expected out tensor to have device {found}, but got {out.device} instead ({op.name}(); use .to())"
        )
    dtype = out.dtype.np
    if dtype.kind == "b" and "truths" in op.declaration.out:  # of uint8 they are uint8, which a bool takes all the same
        value = value.astype(dtype)
    if value.shape == tuple(out.shape):
        return derive.into(op.name, value, _like(value.shape, dtype))
    _tell_resized(out, value.shape)
    return derive.into(op.name, value, _like(value.shape, dtype))


def _tell_resized(out: Tensor, shape: Shape) -> None:
    if out.numel() and tuple(out.shape) != tuple(shape):
        warn(
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does "
            f"not match the required output shape {list(shape)}. This behavior is deprecated, and in a future "
            "PyTorch release outputs will not be resized unless they have zero elements.",
        )


def demand_as_many(name: str, wanted: int, outs: Sequence[Any]) -> None:
    """TypeError unless ``outs`` are as many as the results."""
    if len(outs) != wanted:
        raise TypeError(f"{name}(): argument 'out': expected tuple of {wanted} elements but got {len(outs)}")


def demand_fits(name: str, result: Tensor, out: Tensor) -> None:
    """RuntimeError unless ``out`` is where the result of a composite is; a warning if it takes another shape."""
    if result.device != out.device:
        raise RuntimeError(
            f"Attempting to copy from device {result.device} to device {out.device}, but cross-device copies are not "
            f"allowed! ({name} with out=)"
        )
    _tell_resized(out, result.shape)


def _like(shape: Shape, dtype: np.dtype) -> jax.ShapeDtypeStruct:
    return derive.jax.ShapeDtypeStruct(shape, dtype)


def _demand_no_tangent(name: str, tensors: Iterable[Tensor]) -> None:
    if state.levels and any([level.carries(t) for level in state.levels for t in tensors]):
        raise NotImplementedError(
            f"Trying to use forward AD with {name} that does not support it because it is an out= function; use the "
            "result of the call without out="
        )


def demand_unrecorded(name: str, *tensors: Tensor) -> None:
    """Refuse an output with a history, which what is written would not be in."""
    if state.grad and any([requires_grad(t) for t in tensors]):
        raise RuntimeError(
            f"{name}: functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )


def put(out: Tensor, value: Any, expected: Any = ANY, like: Tensor | None = None) -> bool:
    """Write ``value`` into ``out``, which takes its shape, and the strides of ``like``. It stays where its memory is.

    NotImplementedError for a dual tensor. False, with nothing done, where its storage holds no longer what was
    ``expected``.
    """
    _demand_no_tangent("a function", (out,))
    if value.shape == tuple(out.shape):
        return write(out, value, expected)
    view = None if like is None else like._view
    if out.layout is strided and 0 not in out._storage.form.shape:  # others may show its memory, too
        resize(out, value.shape, contiguous_strides(value.shape) if view is None else view.layout.strides)
        return write(out, value)
    reshape(out, None)
    write(out, value)
    if view is not None:
        restride(out, view.layout.strides)
    return True
