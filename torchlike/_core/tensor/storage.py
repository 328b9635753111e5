"""Storage: the only mutable cell. One value, a version counter, and the count of physical writes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NoReturn

from jax.core import Tracer

from torchlike._base.state import state
from torchlike._base.tracing import NOW

if TYPE_CHECKING:
    import numpy as np

    from torchlike._core.tensor.tensor import Tensor
    from torchlike._core.typed import Shape

# The captures in progress, of all threads: only while there are some does a change ask for that of its own thread.
CAPTURES: list = []

_addresses = itertools.count(1)
_SPACING = 1 << 40  # virtual bytes between two storages, so that addresses never overlap


class Storage:
    """One value shared by a base tensor and all its views.

    Attributes:
        value: the array, of the base's shape (opaque here: a jax array, a tracer, or abstract).
        version: bumped by every in-place operation of an alias that shares it; checked by autograd.
        epoch: bumped by every physical write; views cache what they read under it.
        strides: strides of the base where they are not the contiguous ones, else None.
        shown: weak reference to the UntypedStorage that shows it, once one has been asked for.
        host: memory with its bytes at a fixed address, once that has been asked for or numpy sees it.
        shared: whether others may write to that memory, see Note [Shared memory] in ``shared_memory``; then ``form``
            tells shape, dtype and place of the value without looking there, else it is the value.
        level, inner: set in a function that is differentiated, see Note [Grad levels] in ``_transforms/levels``.
        born: which function jax traced when it was made, see ``tracing.NOW``; not set where that cannot matter.
        copied: whether it takes its value from elsewhere, so that its bytes are a copy.
        stands: whether its tensors stand for others in such a function; they are no memory that can be pointed to.
    """

    __slots__ = (
        "value", "version", "epoch", "strides", "handle", "level", "inner", "host", "born", "_address", "__weakref__",
    )  # fmt: skip
    level: Any
    inner: Any
    host: Any
    born: Any
    form: Any
    stands = False
    shared = False
    copied = False

    value: Any
    version: int
    epoch: int
    strides: tuple[int, ...] | None
    _address: int

    def kept(self, t: Tensor) -> tuple[int, Any] | None:
        """The (epoch, value) that the view ``t`` has read, if that is not found with the view itself."""
        return None

    def keep(self, t: Tensor, epoch: int, value: Any) -> tuple[int, Any]:
        """Remember that the view ``t`` reads ``value`` while the epoch is ``epoch``; returns both."""
        cache = (epoch, value)
        if not isinstance(value, Tracer) or isinstance(self.value, Tracer):  # else a function that jax traces reads it
            t._cache = cache
        return cache

    def written(self, t: Tensor, new: Any) -> bool:
        """Write through the view ``t`` into memory that numpy sees, if there is such and it takes that."""
        return False

    def rows(self, t: Tensor, index: tuple[Any, ...]) -> Any:
        """What numpy's index selects of ``t``, taken out of memory that numpy sees; None where there is none."""
        return None

    def whole(self) -> Any:
        """The memory that numpy sees, all of it filled."""
        return None

    @property
    def address(self) -> int:
        """A stable virtual address: equal for aliases, distinct for distinct storages."""
        if not self._address:
            self._address = next(_addresses) * _SPACING
        return self._address


def holding(value: Any) -> Storage:
    """A new storage that holds ``value``. ``Storage()`` alone, without a constructor, is made in half of the time."""
    storage = Storage()
    storage.value = value
    storage.version = storage.epoch = storage._address = 0
    storage.strides = None
    storage.born = NOW.value
    if CAPTURES:
        told(storage)
    return storage


def told(storage: Storage) -> None:
    """Tell the capture or the trace of this thread, if there is one, of a new storage."""
    if state.capture is not None:
        state.capture.made(storage)
    if state.trace is not None:
        state.trace.made(storage)


Storage.form = Storage.__dict__["value"]  # the same slot
SHARING: dict[type, type] = {}
"""The class of storages whose memory numpy sees, by the class that they have else."""


class Freed:
    """Stands for the value of a storage whose memory was given up by ``resize_(0)``; it cannot be read."""

    __slots__ = ("shape", "dtype", "sharding")

    def __init__(self, value: Any) -> None:
        self.shape, self.dtype, self.sharding = value.shape, value.dtype, getattr(value, "sharding", None)

    @property
    def __jax_array__(self) -> Any:  # what jax looks for first when it is given an unknown object
        raise RuntimeError(
            f"the storage of this tensor of shape {list(self.shape)} was freed by untyped_storage().resize_(0), so it "
            "cannot be read; resize_() the storage back first"
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.__jax_array__


class Outgrown(Freed):
    """Stands for the value of a storage that a tensor has outgrown, where both cannot have the same memory."""

    __slots__ = ()

    @property
    def __jax_array__(self) -> Any:
        raise NotImplementedError(
            f"this tensor of shape {list(self.shape)} shows a storage that another tensor outgrew by resize_() or "
            "out=: they share memory only on the CPU and outside of what jax traces; clone() what grows before"
        )


class Outer:
    """Stands for the value of a wrapper subclass: its shape, dtype and place; the numbers are the subclass's affair."""

    __slots__ = ("shape", "dtype", "sharding", "__weakref__")

    def __init__(self, shape: Shape, dtype: np.dtype, sharding: Any) -> None:
        self.shape, self.dtype, self.sharding = shape, dtype, sharding

    ndim = property(lambda self: len(self.shape))

    @property
    def __jax_array__(self) -> Any:
        raise RuntimeError(
            "the value of a wrapper subclass made by _make_wrapper_subclass() was asked for, but it has no numbers of "
            "its own: its __torch_dispatch__ must compute with what it wraps"
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.__jax_array__


class Stand:
    """In the place of a value: what a tree of jax holds where it held a tensor, such as None, a bool or an axis."""

    __slots__ = ("leaf", "kind")

    def __init__(self, leaf: Any, kind: Any) -> None:
        self.leaf, self.kind = leaf, kind  # kind: what the tree keeps of the tensor beside its value

    def _refuse(self) -> NoReturn:
        raise TypeError(
            f"this tensor stands for {self.leaf!r} in a tree of jax, made by jax.tree.map or a library of jax, and has "
            "no value; take it with jax.tree.leaves(tree)"
        )

    shape = dtype = sharding = ndim = property(_refuse)

    @property
    def __jax_array__(self) -> Any:
        self._refuse()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self._refuse()


class Version:
    """A version counter of its own, for ``.data``: it shares the value but not the version."""

    __slots__ = ("version", "__weakref__")

    def __init__(self) -> None:
        self.version = 0
        if CAPTURES and state.capture is not None:
            state.capture.made(self)


class Untracked:
    """The version counter of inference tensors, which have none: it cannot be read, and writing does nothing."""

    __slots__ = ()

    @property
    def version(self) -> int:
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
            "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use "
            "it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
        )


UNTRACKED = Untracked()
