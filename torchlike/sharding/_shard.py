"""One tensor laid out over a mesh of devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from torchlike._core.tensor.tensor import Tensor, array_of, fresh, value_of
from torchlike._executor.pending import settled
from torchlike._executor.spread import laid, named
from torchlike.autograd.function import Function

Spec = PartitionSpec | Sequence[Any] | str | None


def make_mesh(
    axes: Mapping[str, int] | None = None, *, devices: Sequence[jax.Device] | None = None, **sizes: int
) -> Mesh:
    """A mesh of devices whose axes have names and lengths.

    Args:
        axes, sizes: the length of each axis, as one dict or as keywords; one may be -1 for what is left.
        devices: the devices, all of jax's by default, in the order of the axes (the last one runs fastest).

    Raises:
        ValueError: there are no axes, a length is not positive, or the lengths do not make up the number of devices.

    >>> import torchlike as torch
    >>> torch.sharding.make_mesh(dp=1, tp=-1).axis_names
    ('dp', 'tp')
    """
    named = {**(axes or {}), **sizes}
    found = list(jax.devices() if devices is None else devices)
    lengths = [*named.values()]
    if not named or any(not isinstance(n, int) or n == 0 or n < -1 for n in lengths) or lengths.count(-1) > 1:
        raise ValueError(f"make_mesh(): lengths of axes must be positive, one may be -1, got {named}")
    known = math.prod([n for n in lengths if n != -1])
    if -1 in lengths and len(found) % known == 0:
        lengths[lengths.index(-1)] = len(found) // known
    if math.prod(lengths) != len(found):
        hint = "; XLA_FLAGS=--xla_force_host_platform_device_count=N makes N of the CPU" * (found[0].platform == "cpu")
        raise ValueError(f"make_mesh(): a mesh of {named} is not made of {len(found)} devices; pass devices={hint}")
    return Mesh(np.array(found).reshape(lengths), tuple(named))


def jax_mesh(mesh: Any, function: str) -> Mesh:
    """The mesh of jax behind one: of jax, or a DeviceMesh. TypeError for something else."""
    found = getattr(mesh, "jax_mesh", mesh)
    if not isinstance(found, Mesh):
        raise TypeError(
            f"{function}(): argument 'mesh' must be a Mesh or DeviceMesh, not {type(mesh).__name__}; "
            "make one with torchlike.sharding.make_mesh(dp=2, tp=4)"
        )
    return found


def layout(mesh: Mesh, spec: Spec, shape: Sequence[int], what: str) -> NamedSharding:
    """The sharding of a tensor of ``shape``; ``what`` names it in errors.

    Raises ValueError where the spec does not fit: an unknown or repeated axis, more entries than dimensions, a length
    that its axes do not divide.
    """
    entries = (spec,) if isinstance(spec, str) else tuple(spec or ())
    if len(entries) > len(shape):
        raise ValueError(f"{what}: the spec {entries} has {len(entries)} entries for the shape {list(shape)}")
    seen: list[str] = []
    for dim, entry in enumerate(entries):
        axes = () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
        unknown = [a for a in axes if a not in mesh.shape]
        if unknown or {*axes} & {*seen}:
            why = f"unknown axis {unknown[0]!r}" if unknown else "an axis that stands in it twice"
            raise ValueError(f"{what}: the spec {entries} has {why}; the mesh has {dict(mesh.shape)}")
        seen += axes
        parts = math.prod([mesh.shape[a] for a in axes])
        if shape[dim] % parts:
            raise ValueError(
                f"{what}: dimension {dim} of the shape {list(shape)} cannot be cut into {parts} equal parts ({axes})"
                "; leave it whole (None), or pad it"
            )
    return NamedSharding(mesh, PartitionSpec(*entries))


class _Laid(Function):
    """A tensor in another layout; its gradient gets the layout that the tensor had."""

    @staticmethod
    def forward(ctx: Any, t: Any, sharding: Any, back: Any) -> Any:
        value = settled(value_of(t))
        ctx.back = back or (None if isinstance(value, jax.core.Tracer) else value.sharding)
        return fresh(named(laid(value, sharding), sharding))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        back = ctx.back
        if back is None or (back.num_devices == 1 and isinstance(value_of(grad), jax.core.Tracer)):
            return grad, None, None
        return _Laid.apply(grad, back, None), None, None


def relaid(t: Tensor, sharding: NamedSharding, back: NamedSharding | None = None) -> Tensor:
    """``t`` in another layout. ``back``: that of its gradient, by default the one it had."""
    return _Laid.apply(t, sharding, back)


def shard(t: Tensor, mesh: Any, spec: Spec = None) -> Tensor:
    """The tensor cut over a mesh: each device holds a part of it.

    What is computed of it is cut as XLA's partitioner finds best; what changes it in place, and its gradient, keep its
    layout. Within ``torch.compile`` it is a constraint on the program.

    Args:
        t: a tensor of any shape.
        mesh: a :class:`Mesh` or DeviceMesh.
        spec: for each dimension the name of the axis that cuts it, several names, or None; dimensions without an entry
            are whole. None leaves the tensor whole on every device.

    Returns:
        A tensor of the same shape and dtype, which carries gradients to ``t``.

    Raises:
        TypeError: ``t`` is no tensor, ``mesh`` no mesh.
        ValueError: the spec names an unknown axis, or one twice, has more entries than the tensor has dimensions, or
            cuts a dimension into unequal parts.

    >>> import torchlike as torch
    >>> mesh = torch.sharding.make_mesh(dp=-1)
    >>> x = torch.sharding.shard(torch.ones(8 * mesh.size, 4), mesh, "dp")
    >>> x.shape == (8 * mesh.size, 4), (x + 1).sum().item() == 64 * mesh.size
    (True, True)
    """
    if not isinstance(t, Tensor):
        raise TypeError(f"shard(): argument 't' must be Tensor, not {type(t).__name__}")
    return relaid(t, layout(jax_mesh(mesh, "shard"), spec, t.shape, "shard()"))


def replicate(t: Tensor, mesh: Any) -> Tensor:
    """The tensor whole on every device of a mesh; see :func:`shard`.

    >>> import torchlike as torch
    >>> torch.sharding.replicate(torch.ones(2), torch.sharding.make_mesh(dp=-1))
    tensor([1., 1.])
    """
    return shard(t, mesh)


def sharding_of(t: Tensor) -> Any:
    """The ``jax.sharding.Sharding`` of a tensor's value; RuntimeError while a program is traced, which has none yet.

    >>> import torchlike as torch
    >>> len(torch.sharding.sharding_of(torch.ones(2)).device_set)
    1
    """
    array = array_of(t)
    if isinstance(array, jax.core.Tracer):
        raise RuntimeError("sharding_of(): a traced program has no layout until it is compiled; ask outside of it")
    return array.sharding


def spec_of(t: Tensor) -> PartitionSpec | None:
    """Which axes cut each dimension of a tensor; None if it lies on one device.

    >>> import torchlike as torch
    >>> torch.sharding.spec_of(torch.ones(2)) is None
    True
    """
    return getattr(sharding_of(t), "spec", None)
