"""Tensors copied to, cut up over, and brought together from several devices. Gradients flow back.

Devices are numbers (of what jax computes on here), texts or ``torch.device``.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from torchlike._core.autocast.composite import off
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn.parallel._places import all_places, place_of, places_of

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _refuse_out(out: Any, name: str) -> None:
    if out is not None:
        raise NotImplementedError(f"comm.{name}(out=) is not supported: copy the results with Tensor.copy_")


def broadcast(tensor: Tensor, devices: Iterable[Any] | None = None, *, out: Any = None) -> tuple[Tensor, ...]:
    """``tensor`` on each device; where it is already, itself.

    NotImplementedError for ``out``.
    """
    _refuse_out(out, "broadcast")
    places = all_places() if devices is None else places_of(devices)
    return tuple([tensor.to(place) for place in places])


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Iterable[Any], buffer_size: int = 10485760
) -> list[tuple[Tensor, ...]]:
    """For each device all of ``tensors`` on it. ``buffer_size`` is ignored: nothing is packed."""
    return [tuple([t.to(place) for t in tensors]) for place in places_of(devices)]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors of one shape on a device, by default that of the first.

    ValueError where a shape is another.
    """
    place = inputs[0].device if destination is None else place_of(destination)
    for t in inputs:
        if t.shape != inputs[0].shape:
            found, expected = tuple(t.shape), tuple(inputs[0].shape)
            raise ValueError(f"reduce_add expects inputs of one shape, but got {found} beside {expected}")
    total = inputs[0].to(place)
    for t in inputs[1:]:
        total = total + t.to(place)
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """:func:`reduce_add` of the first tensors of all sequences, of the second, and so on."""
    return tuple([reduce_add(group, destination) for group in zip(*inputs, strict=True)])


def scatter(
    tensor: Tensor, devices: Iterable[Any] | None = None, chunk_sizes: Sequence[int] | None = None, dim: int = 0,
    streams: Any = None, *, out: Any = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """``tensor`` cut along ``dim`` into as many pieces as there are devices, each on its own.

    Without ``chunk_sizes`` the pieces are those of :func:`torch.chunk`, which may be fewer. ``streams`` is ignored.
    NotImplementedError for ``out``.
    """
    _refuse_out(out, "scatter")
    places = all_places() if devices is None else places_of(devices)
    if chunk_sizes is None:
        pieces = tensor.chunk(len(places), dim)
    else:
        pieces = tensor.split(list(chunk_sizes), dim)
        if len(pieces) != len(places):
            raise ValueError(f"scatter expects as many chunk_sizes as devices, but got {len(pieces)} and {len(places)}")
    return tuple([piece.to(place) for piece, place in zip(pieces, places, strict=False)])


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Any = None) -> Tensor:
    """The tensors joined along ``dim`` on a device, by default the first; -1 is the CPU.

    NotImplementedError for ``out``.
    """
    _refuse_out(out, "gather")
    place = place_of(0 if destination is None else "cpu" if destination == -1 else destination)
    with off():
        return FUNCTIONS["cat"]([t.to(place) for t in tensors], dim)
