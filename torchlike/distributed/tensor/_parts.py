"""This process's part of a DTensor, as a tensor that shares its memory: what is written to either the other one has.

Note [Memory of parts]
~~~~~~~~~~~~~~~~~~~~~~
The storage of a part has no value of its own: it is taken from the whole each time that has changed, and an array that
is stored becomes the piece of this process in the array of all. No process waits for another one, so replicas that only
some processes change differ, as PyTorch's do. Where parts are not equal every process has an array of the whole, which
one process cannot change for the others: such parts can be read only.
"""

from __future__ import annotations

from typing import Any, NoReturn

import jax

from torchlike._base.state import state
from torchlike._core.dispatch.view_calls import tie
from torchlike._core.tensor.mutation import write_silently
from torchlike._core.tensor.storage import CAPTURES, UNTRACKED, Storage
from torchlike._core.tensor.tensor import Tensor, alias, fresh, value_of
from torchlike._executor.pending import settled
from torchlike._executor.references import sharing
from torchlike._transforms.capture import overlay
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._layouts import Placements, alone, own_part, own_rows, sharding_for


class Part(Storage):
    """The storage of a part; see Note [Memory of parts].

    Attributes:
        of: the whole, a plain tensor. mesh, cut: the mesh of the DTensor, and its placements where they cut into parts
            that are not equal. cached: (value of the whole, the part) when it was read last.
    """

    __slots__ = ("of", "mesh", "cut", "cached")
    copied = True

    def __init__(self, of: Tensor, mesh: DeviceMesh, cut: Placements | None) -> None:
        self.of, self.mesh, self.cut, self.cached = of, mesh, cut, (None, None)
        self.version, self.strides, self._address = 0, None, 0
        if CAPTURES and state.capture is not None:
            state.capture.made(self)

    @property
    def value(self) -> Any:  # type: ignore[override]
        """This process's part of the whole as it is now."""
        value = value_of(self.of)
        if self.cached[0] is not value:
            self.cached = value, own(value, self.mesh, self.cut)
        return self.cached[1]

    @value.setter
    def value(self, new: Any) -> None:
        whole, old = settled(value_of(self.of)), self.value
        if isinstance(new, jax.core.Tracer) or isinstance(whole, jax.core.Tracer):
            raise NotImplementedError(
                "to_local(): a traced function changes this process's part of a DTensor in place; change the DTensor, "
                "or a clone of the part"
            )
        new = settled(new)
        if (new.shape, new.dtype) != (old.shape, old.dtype):
            raise RuntimeError(
                f"to_local(): a part of shape {list(old.shape)} cannot get the shape {list(new.shape)} or another "
                "dtype, since it shares the memory of a DTensor; clone() it first"
            )
        if self.cut is not None and lies_as(whole, self.mesh, self.cut):
            raise NotImplementedError(
                f"to_local(): changing a part in place of a DTensor of shape {list(whole.shape)} whose parts are not "
                "equal is not supported; change the DTensor, or a clone of the part"
            )
        changed = joined_as(whole, sharing(jax.device_put(new, old.sharding), new))
        write_silently(self.of, changed)
        value = value_of(self.of)
        self.cached = value, own_part(value)

    @property
    def epoch(self) -> int:  # type: ignore[override]
        """That of the storage of the whole."""
        return self.of._storage.epoch

    @epoch.setter
    def epoch(self, new: int) -> None:
        self.of._storage.epoch = new


Part.form = Part.__dict__["value"]


class OverlaidPart(overlay.Overlaid, Part):
    """The storage of a part that a capture has touched, which sees nothing of what it does to the whole."""

    __slots__ = ()
    version, epoch, strides = [overlay.overlaid(Part, name) for name in ("version", "epoch", "strides")]

    @property
    def value(self) -> Any:  # type: ignore[override]
        """As the capture sees it. NotImplementedError where it has changed the whole."""
        found, whole = overlay.cell_of(self), overlay.cell_of(self.of._storage)
        if found is None:
            return Part.value.__get__(self)
        if whole is not None and whole.value is not whole.before:
            _refuse_aliases()
        return found.value

    @value.setter
    def value(self, new: Any) -> None:
        if overlay.cell_of(self) is not None:
            _refuse_aliases()
        Part.value.__set__(self, new)

    form = value


def _refuse_aliases() -> NoReturn:
    raise NotImplementedError(
        "to_local(): a compiled function changes a DTensor, or this process's part of it, in place and reads the other "
        "one; change the DTensor within and take its part afterwards, or give the function a clone of the part"
    )


overlay.OVERLAID[Part] = OverlaidPart
overlay.PLAIN[OverlaidPart] = Part


def joined_as(whole: Any, part: Any) -> Any:
    """An array that lies as ``whole`` does, of which this process has ``part``."""
    pieces = {piece.device: piece.data for piece in part.addressable_shards}
    here = [piece.device for piece in whole.addressable_shards]
    made = jax.make_array_from_single_device_arrays(whole.shape, whole.sharding, [pieces[d] for d in here])
    return sharing(made, part)


def part_of(t: Tensor, mesh: DeviceMesh, cut: Placements | None) -> Tensor:
    """This process's part of ``t``: a view of it, as what a custom function returns of its input."""
    if alone():
        return _viewed(t)
    value = value_of(t)
    if isinstance(value, jax.core.Tracer) or len(getattr(value, "addressable_shards", ())) == 0:
        return fresh(own(value, mesh, cut))
    base = fresh(own(value, mesh, cut))
    base._storage = Part(alias(t), mesh, cut)
    if base._vc is not UNTRACKED:
        base._vc = base._storage
    return _viewed(base)


def _viewed(t: Tensor) -> Tensor:
    new = alias(t)
    if new._vc is not UNTRACKED:
        tie(t, new)
    return new


def own(value: Any, mesh: DeviceMesh, cut: Placements | None) -> Any:
    """This process's part of an array, where ``cut`` has parts that are not equal the rows that PyTorch has here."""
    part = own_part(value)
    if cut is None or alone() or isinstance(value, jax.core.Tracer) or not lies_as(value, mesh, cut):
        return part
    rows = own_rows(mesh, cut, value.shape, "to_local")
    return part[tuple(rows.get(dim, slice(None)) for dim in range(part.ndim))]


def lies_as(value: Any, mesh: DeviceMesh, cut: Placements) -> bool:
    """Whether an array is whole where ``cut`` has parts that are not equal, and as it says elsewhere."""
    sharding = sharding_for(mesh, cut, value.shape, "DTensor")
    return value.sharding.is_equivalent_to(sharding, value.ndim)
