"""Plans applied to models."""

from __future__ import annotations

import fnmatch
import warnings
from collections.abc import Mapping

from torchlike.distributed.device_mesh import DeviceMesh, current_mesh
from torchlike.distributed.tensor.parallel.style import ParallelStyle
from torchlike.nn.modules.module import Module

Plan = ParallelStyle | Mapping[str, ParallelStyle]


def parallelize_module(
    module: Module, device_mesh: DeviceMesh | None = None, parallelize_plan: Plan | None = None, *,
    src_data_rank: int | None = 0,
) -> Module:  # fmt: skip
    """Lay a module's parts out over a mesh of one dimension, in place.

    Args:
        device_mesh: one dimension, perhaps a slice of a larger mesh; by default that of ``with mesh:``.
        parallelize_plan: a style for the module, or a dict from paths of its parts to styles; ``*`` in a path stands
            for any part's name.
        src_data_rank: the process whose parameters count.

    A path that leads nowhere is warned of. NotImplementedError for a style that does not know the module's class.
    ValueError for a mesh of several dimensions.
    """
    mesh = device_mesh or current_mesh()
    if mesh.ndim != 1:
        raise ValueError(f"parallelize_module(): the mesh must have one dimension, got {mesh}; slice it: mesh['tp']")
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so this "
            "parallelize_module call will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, Mapping):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        if not _apply(module, path.split(".") if path else [], mesh, style, src_data_rank):
            warnings.warn(
                f"Parallelize plan key {path!r} could not be resolved: no submodule matching it, skipping "
                "this plan entry.",
                stacklevel=2,
            )
    return module


def _apply(module: Module, path: list[str], mesh: DeviceMesh, style: Plan, src: int | None) -> bool:
    """Apply a style to the parts at a path; whether there are any."""
    if not path:
        parallelize_module(module, mesh, style, src_data_rank=src)
        return True
    found = [part for name, part in module.named_children() if fnmatch.fnmatch(name, path[0])]
    return any([_apply(part, path[1:], mesh, style, src) for part in found])
