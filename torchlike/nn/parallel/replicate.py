"""Copies of a module on several devices, whose parameters hand their gradients to those of the module."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeVar

from torchlike._base.device import device as Device
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn.modules.module import Module
from torchlike.nn.parallel._places import places_of

__all__ = ["replicate"]

T = TypeVar("T", bound=Module)


def replicate(network: T, devices: Sequence[Any], detach: bool = False) -> list[T]:
    """``network`` on each of the devices.

    A replica has the attributes of its module, with tensors on its device in the place of parameters: they are
    computed from them, so that a backward through all replicas adds up in the ``.grad`` of the module's parameters,
    and a replica has no ``parameters()``. Where the module is, a replica shares its buffers; elsewhere changes of
    buffers, as of all attributes, go with the replica.

    Args:
        devices: numbers, texts or devices. detach: let the tensors have no history.

    >>> import torchlike as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> a, b = torch.nn.parallel.replicate(layer, ["cpu", "cpu"])
    >>> (a(torch.ones(1, 2)) + b(torch.ones(1, 2))).sum().backward()
    >>> layer.bias.grad
    tensor([2.])
    """
    tree = list(network.modules())
    return [_replica(tree, place, detach) for place in places_of(devices)]


def _replica(tree: list[Any], place: Device, detach: bool) -> Any:
    copies = {id(module): module._replicate_for_data_parallel() for module in tree}
    known: dict[int, Tensor] = {}  # parameters and buffers that several modules share stay shared
    for module in tree:
        replica = copies[id(module)]
        replica._former_parameters = OrderedDict()
        for name, child in module._modules.items():
            replica._modules[name] = None if child is None else copies[id(child)]
        for name, p in module._parameters.items():
            if p is None:
                replica._parameters[name] = None
            else:
                copied = replica.__dict__[name] = _copied(p, place, detach, known)
                replica._former_parameters[name] = copied
        for name, b in module._buffers.items():
            replica._buffers[name] = None if b is None else _buffer(b, place, detach, known)
    return copies[id(tree[0])]


def _copied(p: Tensor, place: Device, detach: bool, known: dict[int, Tensor]) -> Tensor:
    found = known.get(id(p))
    if found is None:
        source = p.detach() if detach else p
        found = known[id(p)] = source.view_as(source) if p.device == place else source.to(place)
    return found


def _buffer(b: Tensor, place: Device, detach: bool, known: dict[int, Tensor]) -> Tensor:
    if b.requires_grad and not detach:
        return _copied(b, place, detach, known)
    found = known.get(id(b))
    if found is None:
        found = known[id(b)] = b if b.device == place else b.detach().to(place)
    return found
