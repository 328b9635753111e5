"""Copies to several GPUs and back."""

from collections.abc import Sequence
from typing import Any

from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike.cuda._devices import index_of
from torchlike.interop.alias import missing_names

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]

__getattr__ = missing_names(__name__)


def broadcast(tensor: Tensor, devices: Sequence[Any] | None = None, *, out: Any = None) -> tuple[Tensor, ...]:
    """A copy of a tensor on each device (numbers are GPUs)."""
    if out is not None:
        raise NotImplementedError("torch.cuda.comm.broadcast(out=): give devices instead")
    return tuple(tensor.to(_place(device), copy=True) for device in devices or ())


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760
) -> list[list[Tensor]]:
    """:func:`broadcast` of several tensors: a list for each device."""
    copies = [broadcast(t, devices) for t in tensors]
    return [[copy[i] for copy in copies] for i in range(len(devices))]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors of one shape, on a device: the first GPU unless given."""
    place = _place(inputs[0].device if destination is None else destination)
    total = inputs[0].to(place, copy=True)
    for t in inputs[1:]:
        total = total + t.to(place)
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """:func:`reduce_add` of the first tensors of all lists, of the second ones, and so on."""
    return tuple(reduce_add(list(group), destination) for group in zip(*inputs, strict=True))


def scatter(
    tensor: Tensor, devices: Sequence[Any] | None = None, chunk_sizes: Sequence[int] | None = None, dim: int = 0,
    streams: Any = None, *, out: Any = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Pieces of a tensor, one for each device."""
    if out is not None:
        raise NotImplementedError("torch.cuda.comm.scatter(out=): give devices instead")
    places = [_place(device) for device in devices or ()]
    pieces = tensor.chunk(len(places), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return tuple(piece.to(place) for piece, place in zip(pieces, places, strict=False))


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Any = None) -> Tensor:
    """Tensors joined along a dimension, on a device: the first GPU unless given."""
    if out is not None:
        raise NotImplementedError("torch.cuda.comm.gather(out=): give destination instead")
    place = _place("cuda" if destination is None else destination)
    return FUNCTIONS["cat"]([t.to(place) for t in tensors], dim)


def _place(device: Any) -> Any:
    return f"cuda:{index_of(device)}" if isinstance(device, int) and device >= 0 else "cpu" if device == -1 else device
