"""``torch.random``: the default generator's seed and state."""

from torchlike._functions.generator import (
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from torchlike.interop.alias import missing_names

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]

__getattr__ = missing_names(__name__)
