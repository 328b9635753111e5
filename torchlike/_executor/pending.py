"""Values of recorded execution: their kind is known, their numbers may still have to be computed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from torchlike._base import exhausted
from torchlike._base.tracing import trace_ctx, trace_state_clean

NUMPYS = 64  # the most dimensions of numpy's arrays; XLA's may have more

if TYPE_CHECKING:
    from jax.core import ShapedArray

    from torchlike._decl.typed import Value, Values
    from torchlike._executor.typed import Settles

try:
    from jax._src.array import ArrayImpl as Array
except ImportError:  # no public name for the class of concrete arrays; without it calls run at once

    class Array:  # type: ignore[no-redef]
        """Stands for a class that there is not."""


def traces_program() -> bool:
    """Whether what is computed now becomes part of a program, of ``jax.jit`` or a loop, even where all is known."""
    return not trace_state_clean() and type(getattr(trace_ctx, "trace", None)).__name__ == "DynamicJaxprTrace"


class Kind:
    """Shape, dtype and place of an array. Kinds are interned: equal ones are one object."""

    __slots__ = ("shape", "dtype", "aval", "sharding", "abstract", "nbytes")

    def __init__(self, aval: ShapedArray, sharding: Any) -> None:
        self.shape, self.dtype, self.aval, self.sharding = aval.shape, aval.dtype, aval, sharding
        self.abstract = jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
        self.nbytes = aval.size * aval.dtype.itemsize


_kinds: dict = {}


def kind_of(aval: ShapedArray, sharding: Any) -> Kind:
    """The kind of an array with this aval and sharding."""
    found = _kinds.get((aval, sharding))
    if found is None:
        found = _kinds.setdefault((aval, sharding), Kind(aval, sharding))
    return found


_new = object.__new__


class Pending:
    """A value that was recorded. ``array`` is None until it has been computed.

    Attributes:
        kind, shape, dtype, aval: known from the start. recorder: whose trace computes it, None once that is done.
    """

    __slots__ = ("array", "kind", "shape", "dtype", "aval", "recorder", "__weakref__")

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: self.aval.size)
    nbytes = property(lambda self: self.kind.nbytes)
    sharding = property(lambda self: self.kind.sharding)
    weak_type = property(lambda self: self.aval.weak_type)

    def devices(self) -> Any:
        """The devices on which the value will be."""
        return self.kind.sharding.device_set

    def block_until_ready(self) -> jax.Array:
        """The array, once its numbers are there."""
        return settled(self).block_until_ready()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return as_numpy(self, dtype)

    def __jax_array__(self) -> jax.Array:
        return settled(self)

    def __bool__(self) -> bool:
        return bool(settled(self))

    def __int__(self) -> int:
        return int(settled(self))

    def __float__(self) -> float:
        return float(settled(self))

    def __getattr__(self, name: str) -> Any:  # what needs the numbers
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(settled(self), name)

    def __repr__(self) -> str:
        state = "to be computed" if self.array is None else "computed"
        return f"<{state}: {self.dtype.name}{list(self.shape)}>"


def pending(kind: Kind, recorder: Settles) -> Pending:
    """A new value of this kind, to be computed by ``recorder``."""
    p = _new(Pending)
    p.array, p.recorder = None, recorder
    p.kind, p.shape, p.dtype, p.aval = kind, kind.shape, kind.dtype, kind.aval
    return p


def settled(value: Value) -> Any:
    """The array of a value, computed now if it has to be; other values as they are."""
    if value.__class__ is not Pending:
        return value
    if value.array is None and (recorder := value.recorder) is not None:  # None: another thread has just computed it
        recorder.settle(value)
    return value.array


def ready(value: Value) -> Any:
    """A settled value whose numbers are there, which may be read in its memory.

    Where XLA could not compute it, as memory did not suffice, reading it there would end the process (in jax 0.10).
    """
    value = settled(value)
    if value.__class__ is Array:
        try:
            value.block_until_ready()
        except exhausted.EXHAUSTED as error:
            raise exhausted.told(error) from None
    return value


def as_numpy(value: Value, dtype: Any = None) -> np.ndarray:
    """numpy's array of a value."""
    return np.asarray(ready(value), dtype)


def flat_numpy(value: Value) -> np.ndarray:
    """As :func:`as_numpy`, of values with more dimensions than numpy's arrays the elements in order."""
    return as_numpy(value) if len(value.shape) <= NUMPYS else as_numpy(ready(value).reshape(-1))


def lost(value: Value) -> bool:
    """Whether the computation of a value raised: there is none, which it says whenever it is read."""
    return value.__class__ is Pending and value.array is None and hasattr(value.recorder, "error")


def all_settled(values: Values) -> Values:
    """``values``, each settled; the same list if there was nothing to do."""
    return [settled(v) for v in values] if any(v.__class__ is Pending for v in values) else values


def place_of(kinds: Iterable[Kind]) -> SingleDeviceSharding | None:
    """The one device that all of these are on; None if they are on several."""
    places = {k.sharding for k in kinds}
    if not places:
        device = jax.config.jax_default_device or jax.local_devices()[0]
        return SingleDeviceSharding(device) if isinstance(device, jax.Device) else None
    place = places.pop()
    return place if not places and isinstance(place, SingleDeviceSharding) else None
