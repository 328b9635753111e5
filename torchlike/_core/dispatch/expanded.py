"""Filling expanded tensors in place: what PyTorch still allows, with a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlike._base.frames import warn
from torchlike._base.layout import has_overlap
from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.dispatch.view_calls import call_view
from torchlike._core.tensor.tensor import Tensor
from torchlike._ops import index, shape
from torchlike._ops import view as views

if TYPE_CHECKING:
    from torchlike._core.typed import Inputs
    from torchlike._decl.op import Op
    from torchlike._decl.typed import Static


def fill_inplace(op: Op, inputs: Inputs, static: Static, name: str | None) -> Tensor:
    """Run in place an operator that writes one value to places of ``inputs[0]``, which may be expanded.

    Elements that share a place all change where one of them does. One that requires grad is refused. ``name``: that of
    the method, of which PyTorch warns; None where it does not.
    """
    target = inputs[0]
    if target._view is None or not has_overlap(target._view.layout) or (state.grad and _tracked(inputs)):
        return call_inplace(op.inplace, inputs, static)
    if name is not None:
        warn(
            f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this "
            "operation. This also applies to advanced indexing e.g. tensor[mask] = scalar"
        )
    new, dims, places = call(op, inputs, static), [], target
    for dim, (n, stride) in enumerate(zip(*target._view.layout[:2], strict=True)):
        if n > 1 and not stride:
            dims.append(dim)
            places = call_view(views.slice_, (places,), (dim, 0, 1, 1))
    call_inplace(shape.copy.inplace, (places, call(index.changed, (target, new), (tuple(dims),))), (False,))
    return target


def _tracked(inputs: Inputs) -> bool:
    return any([isinstance(x, Tensor) and nodes.requires_grad(x) for x in inputs])
