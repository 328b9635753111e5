"""Which devices a module may be spread over, and what numbers mean among them."""

from collections.abc import Iterable
from typing import Any

import jax

from torchlike._base.device import device, from_jax, jax_device
from torchlike._base.state import state


def all_places() -> list[device]:
    """The GPUs or TPUs of this process; without any the CPUs that jax was told to have, unless that is one."""
    found = jax.local_devices()
    return [] if found[0].platform == "cpu" and len(found) == 1 else [from_jax(d) for d in found]


def place_of(given: Any) -> device:
    """The device that a number, a text or a device stands for; a number counts what jax computes on here.

    RuntimeError for one that is not there.
    """
    if isinstance(given, device | str):
        wanted = device(given)
        there = from_jax(jax_device(wanted))
        if wanted.index not in (None, there.index or 0):  # which elsewhere means the first CPU
            raise RuntimeError(f"device '{wanted}' is not available: {_count()}")
        return there
    number, found = given.__index__(), jax.local_devices()
    if not 0 <= number < len(found):
        raise RuntimeError(f"device {number} is not available: {_count()}")
    return from_jax(found[number])


def places_of(given: Iterable[Any]) -> list[device]:
    """:func:`place_of` each of them."""
    return [place_of(x) for x in given]


def _count() -> str:
    found = jax.local_devices()
    hint = "; XLA_FLAGS=--xla_force_host_platform_device_count=N makes N of the CPU" * (found[0].platform == "cpu")
    return f"jax has {len(found)} device(s) of the platform {found[0].platform} in this process{hint}"


def number_of(place: device) -> int | device:
    """What ``device_ids`` says of a device: its index; a CPU among GPUs stays itself."""
    return place.index or 0 if place.type == from_jax(jax.local_devices()[0]).type else place


def refuse_transforms(what: str) -> None:
    """Refuse to call modules in threads where threads would not be seen."""
    if state.capture is not None:
        state.capture.refuse(f"calls modules in threads ({what}): compile the module inside")
    if state.levels:
        raise NotImplementedError(
            f"{what} under torch.vmap or a transform of torch.func is not supported: it calls modules in threads, "
            "which transforms do not reach; transform the module inside"
        )
