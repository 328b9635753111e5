"""Values that belong to a level of a function transform: what jax.jit refuses and the transform computes."""

from collections.abc import Callable
from typing import Any


class LevelValue:
    """The value of a tensor inside of a function transform, as ``_transforms`` defines it.

    It has ``shape``, ``dtype``, ``aval`` and ``devices()`` as an array has, but no numbers of its own: they are those
    of the tensor ``inner`` of the level below.
    """

    __slots__ = ()

    def run(self, op: Any, static: tuple, values: Any) -> Any:
        """The result of an operator with such values among its inputs."""
        raise NotImplementedError

    def one_by_one(self, f: Callable, tensors: tuple) -> Any:
        """``f(*tensors)`` for one example after the other."""
        raise NotImplementedError


def dynamic_shape(name: str) -> RuntimeError:
    """The error of an operator whose result has another shape for each example."""
    return RuntimeError(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
        f"aten::{name}: its result would have another shape for each example."
    )


def holds(values: Any) -> bool:
    """Whether a level's value is among ``values``."""
    return any(isinstance(v, LevelValue) for v in values)


def run(op: Any, static: tuple, values: Any) -> Any:
    """The result of an operator on values, some of which are of a level."""
    return next(v for v in values if isinstance(v, LevelValue)).run(op, static, values)


def one_by_one(f: Callable, *tensors: Any) -> Any:
    """``f(*tensors)`` for one example after the other, which give results of one shape; some are mapped."""
    return next(t._storage.value for t in tensors if mapped(t)).one_by_one(f, tensors)


def mapped(tensor: Any) -> bool:
    """Whether a tensor holds a level's value."""
    return tensor is not None and isinstance(tensor._storage.form, LevelValue)
