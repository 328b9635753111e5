"""What to do when a kernel raises: infer on the meta device, or raise PyTorch's error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax

from torchlike._executor import level, sparse
from torchlike._executor.immediate import Abstract, infer
from torchlike._executor.pending import Pending, all_settled

if TYPE_CHECKING:
    from torchlike._decl.derive import Kernel
    from torchlike._decl.typed import Static, Values


def _demand_all_abstract(op: Kernel, values: Values) -> None:
    """A meta tensor computes with meta tensors, 0-dim ones and indices only."""
    if op.declaration.schema is None:
        return  # a backward, whose zeros for missing gradients have numbers
    for v in values:
        if isinstance(v, jax.Array) and v.ndim and v.dtype.kind not in "biu":
            raise RuntimeError(
                f"Tensor on device {next(iter(v.devices()))} is not on the expected device meta! ({op.name}() got a "
                f"tensor of shape {list(v.shape)} with numbers and one on meta; move them to one device with .to())"
            )


def translate(op: Kernel, static: Static, values: Values, error: Exception) -> Any:
    """The inferred result if a value is abstract; otherwise raise ``error`` as PyTorch would."""
    if any(type(v) is Abstract for v in values) and isinstance(error, TypeError):
        _demand_all_abstract(op, values)
        return infer(op.kernels[static], values)
    if any(type(v) is Pending for v in values) and "__jax_array__" in str(error):
        return op.kernels[static](*all_settled(values))  # recorded, before execution became immediate
    if level.holds(values):
        return level.run(op, static, values)
    if sparse.holds(values):
        return sparse.LAYER.run(op, static, values)
    if isinstance(error, ValueError) and "incompatible devices" in str(error):
        found = sorted({str(d) for v in values if isinstance(v, jax.Array) for d in v.devices()})
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but {op.name}() found {', '.join(found)}; "
            "move them with .to(device)"
        ) from None
    if notes := getattr(error, "__notes__", None):  # jax's remark on its frames; the message is to end the error
        notes[:] = [note for note in notes if "JAX has removed its internal frames" not in note]
    try:
        raise error
    finally:
        del error  # the traceback refers to this frame: they would keep the call's tensors in a cycle
