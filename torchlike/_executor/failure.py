"""What to do when a kernel raises: infer on the meta device, or raise PyTorch's error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import jax.numpy as jnp

from torchlike._base import exhausted, promotion
from torchlike._base.device import of_array
from torchlike._base.dtypes import from_np
from torchlike._base.frames import JAX_NOTE
from torchlike._base.result_layouts import elementwise
from torchlike._decl import derive, rules
from torchlike._executor import level, sparse
from torchlike._executor.immediate import Abstract, infer
from torchlike._executor.pending import Pending, all_settled, settled
from torchlike._executor.spread import on_several_devices

if TYPE_CHECKING:
    from torchlike._decl.derive import Kernel
    from torchlike._decl.typed import Static, Values


def _demand_all_abstract(op: Kernel, values: Values) -> None:
    """A meta tensor computes with meta tensors, 0-dim ones and indices only, which pointwise operators have none of."""
    if op.declaration.schema is None:
        return  # a backward, whose zeros for missing gradients have numbers
    indices = "" if op.declaration.layout is elementwise else "biu"
    for v in values:
        if isinstance(v, jax.Array) and v.ndim and v.dtype.kind not in indices:
            raise RuntimeError(
                f"Tensor on device {next(iter(v.devices()))} is not on the expected device meta! ({op.name}() got a "
                f"tensor of shape {list(v.shape)} with numbers and one on meta; move them to one device with .to())"
            )


def _unsigned(value: Any) -> bool:
    """Whether a number is one of the integers that 64 bits hold without a sign alone."""
    return value.__class__ is int and 2**63 <= value < 2**64


def _representable(op: Kernel, static: Static, values: Values) -> Values:
    """The values, with such integers as PyTorch computes with them.

    They are floats where the result is, and wrap beside integers; bool tensors promote with none.
    """
    wrapped = [v - 2**64 if _unsigned(v) else v for v in values]
    kinds = {"f" if jnp.issubdtype(v.dtype, jnp.inexact) else v.dtype.kind for v in values if isinstance(v, jax.Array)}
    if kinds == {"b"}:
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote Bool and UInt64 "
            f"({op.name} got an integer of 64 bits without a sign; use a float or a smaller one)"
        )
    outs = jax.tree.leaves(infer(op.kernels[static], wrapped)) if "f" not in kinds else []
    if "f" in kinds or any([jnp.issubdtype(out.dtype, jnp.inexact) for out in outs]):
        return [float(v) if _unsigned(v) else v for v in values]
    return wrapped


def refuse_devices(name: str, values: Iterable[Any]) -> NoReturn:
    """Raise PyTorch's error of tensors on different devices."""
    places = dict.fromkeys(str(of_array(settled(v))) for v in values if isinstance(v, jax.Array | Pending))
    raise RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {' and '.join(places)}! "
        f"({name}(); move them with .to(device))"
    ) from None


def _demand_numbers(op: Kernel, values: Values) -> None:
    """Refuse None in the place of a number, as of a setting that was never set."""
    for arg, v in zip(getattr(op.declaration, "dynamic", ()), values, strict=False):
        if v is None and arg.is_number and not arg.optional:
            raise TypeError(
                f"{op.name.lstrip('_')}(): argument '{arg.name}' must be {arg.public_kind}, not NoneType"
            ) from None


def _demand_castable(op: Kernel, values: Values) -> None:
    """Refuse what an elementwise in-place call cannot hold: PyTorch says so before it refuses a dtype."""
    declared = op.declaration
    if getattr(declared, "inplace", None) is not op or declared.layout is not elementwise:
        return
    if declared.operator in ("<", "<=", ">", ">="):
        return  # of complex numbers, whose result is bool
    numbers = int | float | complex
    arrays: list[Any] = [derive.aval(v) for v in values if hasattr(v, "dtype") or isinstance(v, numbers)]
    promotion.demand_castable(op.name, rules.common_dtype(arrays), from_np(arrays[0].dtype))


def translate(op: Kernel, static: Static, values: Values, error: Exception) -> Any:
    """The inferred result if a value is abstract; otherwise raise ``error`` as PyTorch would."""
    if any(type(v) is Abstract for v in values) and (isinstance(error, TypeError) or "__jax_array__" in str(error)):
        values = all_settled(values)
        _demand_all_abstract(op, values)
        return infer(op.kernels[static], values)
    if any(type(v) is Pending for v in values) and "__jax_array__" in str(error):
        return op.kernels[static](*all_settled(values))  # recorded, before execution became immediate
    if level.holds(values):
        return level.run(op, static, values)
    if isinstance(error, OverflowError) and any(map(_unsigned, values)):
        return op.kernels[static](*_representable(op, static, all_settled(values)))
    if sparse.holds(values):
        return sparse.LAYER.run(op, static, values)
    if on_several_devices(error):
        refuse_devices(op.name, values)
    if isinstance(error, ValueError | TypeError) and "None" in str(error):
        _demand_numbers(op, values)
    if isinstance(error, NotImplementedError):
        _demand_castable(op, values)
    error = exhausted.told(error)
    if notes := getattr(error, "__notes__", None):  # jax's remark on its frames; the message is to end the error
        notes[:] = [note for note in notes if JAX_NOTE not in note]
    try:
        raise error
    finally:
        del error  # the traceback refers to this frame: they would keep the call's tensors in a cycle
