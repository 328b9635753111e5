"""Values that belong to a level of a function transform: what jax.jit refuses and the transform computes."""

from collections.abc import Callable
from typing import Any


class LevelValue:
    """The value of a tensor inside of a function transform, as ``_transforms`` defines it.

    It has ``shape``, ``dtype``, ``aval`` and ``devices()`` as an array has, but no numbers of its own.
    """

    __slots__ = ()


# (op, static, values) -> result: what computes an operator with such a value among its inputs. One at most.
RUN: list[Callable] = []


# (function, tensors) -> result: what computes a function of such tensors for one example after the other. One at most.
EACH: list[Callable] = []


def dynamic_shape(name: str) -> RuntimeError:
    """The error of an operator whose result has another shape for each example."""
    return RuntimeError(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
        f"aten::{name}: its result would have another shape for each example."
    )


def holds(values: Any) -> bool:
    """Whether a level's value is among ``values``."""
    return any(isinstance(v, LevelValue) for v in values)


def mapped(tensor: Any) -> bool:
    """Whether a tensor holds a level's value."""
    return tensor is not None and isinstance(tensor._storage.value, LevelValue)
