"""Random numbers of GPUs: one generator serves all devices."""

from collections.abc import Iterable
from typing import Any

from torchlike._base.volatile import volatile
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions import generator
from torchlike.cuda._devices import demand, device_count, is_available
from torchlike.interop.alias import missing_names

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
    "set_rng_state", "set_rng_state_all",
]  # fmt: skip

__getattr__ = missing_names(__name__)

_GENERATOR: Any = generator.default_generator


def manual_seed(seed: int) -> None:
    """Seed the generator of the GPUs, which is that of all devices; without a GPU nothing happens."""
    seed = int(seed)
    if is_available():
        _GENERATOR.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """:func:`manual_seed`."""
    manual_seed(seed)


def seed() -> None:
    """Seed the generator of the GPUs by chance; without a GPU nothing happens."""
    if is_available():
        _GENERATOR.seed()


def seed_all() -> None:
    """:func:`seed`."""
    seed()


def initial_seed() -> int:
    """The seed. AssertionError without a GPU."""
    demand()
    return _GENERATOR.initial_seed()


@volatile
def get_rng_state(device: Any = "cuda") -> Tensor:
    """The generator's state. AssertionError without a GPU."""
    demand()
    return _GENERATOR.get_state()


@volatile
def get_rng_state_all() -> list[Tensor]:
    """The generator's state, once for each GPU."""
    return [get_rng_state() for _ in range(device_count())]


@volatile
def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Set the generator's state; without a GPU nothing happens."""
    if is_available():
        _GENERATOR.set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """:func:`set_rng_state` for each GPU."""
    for state in new_states:
        set_rng_state(state)
