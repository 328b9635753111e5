"""Modules whose parameters are DTensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlike.distributed.device_mesh import DeviceMesh, current_mesh
from torchlike.distributed.tensor._dtensor import DTensor, distribute_tensor
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter

Hook = Callable[[Module, Any, DeviceMesh], Any]


def distribute_module(
    module: Module, device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Hook | None = None, output_fn: Hook | None = None,
) -> Module:  # fmt: skip
    """Make the parameters and buffers of a module DTensors, in place.

    Args:
        partition_fn: called with the name and object of each module in it and the mesh; it replaces parameters as it
            wishes. What it leaves, or everything without it, is replicated.
        input_fn, output_fn: called with the module, its inputs (or output) and the mesh around each call of it.

    RuntimeError for a module that was distributed before.
    """
    mesh = device_mesh or current_mesh()
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been called on this module!"
        )
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        replicate_rest(part, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, outputs, mesh))
    module._distribute_module_applied = True  # type: ignore[assignment]
    return module


def replicate_rest(part: Module, mesh: DeviceMesh) -> None:
    """Make what is no DTensor among a module's own parameters and buffers one that every device has whole."""
    for name, p in part._parameters.items():
        if p is not None and not isinstance(p, DTensor):
            part.register_parameter(name, Parameter(distribute_tensor(p.data, mesh), p.requires_grad))
    for name, b in part._buffers.items():
        if b is not None and not isinstance(b, DTensor):
            part._buffers[name] = distribute_tensor(b, mesh)
