"""Functions of this process's parts as functions of DTensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._dtensor import DTensor
from torchlike.distributed.tensor.placement_types import Placement, Replicate


def local_map(
    func: Callable[..., Any] | None = None, out_placements: Any = None, in_placements: Any = None,
    in_grad_placements: Any = None, device_mesh: DeviceMesh | None = None, *, redistribute_inputs: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function of DTensors that calls ``func`` with this process's parts of them.

    In one process that has all devices the part is the whole, so that ``func`` computes the whole, which XLA cuts.

    Args:
        out_placements: the placements of the result, or a tuple with those of each result; None for what is no
            tensor, or the same on all devices.
        in_placements: what the arguments must have, None for those that are no DTensors.
        in_grad_placements: of the gradients of the parts.
        redistribute_inputs: give arguments these placements if they have others; else that is an error.

    ValueError where arguments have other placements; AssertionError where there are not as many entries as values.
    """
    if func is None:
        return functools.partial(
            local_map, out_placements=out_placements, in_placements=in_placements,
            in_grad_placements=in_grad_placements, device_mesh=device_mesh, redistribute_inputs=redistribute_inputs,
        )  # fmt: skip

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        mesh = device_mesh or next((x._device_mesh for x in args if isinstance(x, DTensor)), None)
        if in_placements is not None and len(in_placements) != len(args):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the number of input args {len(args)}!"
            )
        parts = []
        for i, x in enumerate(args):
            wanted = None if in_placements is None else in_placements[i]
            grads = None if in_grad_placements is None else in_grad_placements[i]
            parts.append(_part(x, mesh, wanted, grads, redistribute_inputs) if isinstance(x, DTensor) else x)
        return _joined(func(*parts, **kwargs), mesh, out_placements)

    return mapped


def _part(x: DTensor, mesh: Any, wanted: Sequence[Any] | None, grads: Any, move: bool) -> Any:
    if wanted is not None and tuple(wanted) != tuple(x.placements):
        if not move:
            raise ValueError(
                f"arg {x.placements} in local_map has mismatched placements: arg placements is {x.placements} but the "
                f"input placements is {tuple(wanted)}! If redistribute_inputs is wanted, set redistribute_inputs=True"
            )
        x = x.redistribute(mesh, wanted)
    return x.to_local(grad_placements=grads)


def _joined(out: Any, mesh: Any, placements: Any) -> Any:
    if mesh is None:
        return out
    if isinstance(out, tuple):
        if placements is None or len(placements) != len(out):
            raise AssertionError(
                f"local_map requires one PlacementType be provided for each output value, got {placements}"
            )
        return tuple(_laid(x, mesh, p) for x, p in zip(out, placements, strict=True))
    if isinstance(placements, tuple) and len(placements) == 1 and not isinstance(placements[0], Placement):
        placements = placements[0]
    return _laid(out, mesh, placements)


def _laid(out: Any, mesh: Any, placements: Any) -> Any:
    """A tensor whose placements nobody gives is the same on all devices; what is no tensor stays."""
    if isinstance(out, Tensor):
        return DTensor.from_local(out, mesh, [Replicate()] * mesh.ndim if placements is None else placements)
    if placements is not None:
        raise AssertionError(f"Non-tensor output {out} expects None placements but received {placements}!")
    return out
