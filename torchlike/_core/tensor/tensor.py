"""Tensor: a storage, a view of it, and the autograd fields. Operators are installed by bind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torchlike._base.device as devices
from torchlike._base.dims import wrap_dim
from torchlike._base.dtypes import FROM_NP
from torchlike._base.layout import contiguous, is_contiguous, is_contiguous_channels_last
from torchlike._base.state import state
from torchlike._base.tracing import NOW
from torchlike._base.volatile import volatile
from torchlike._core.dispatch.layers import DISPATCH, TRANSFORMS
from torchlike._core.overrides import torch_function
from torchlike._core.tensor import views
from torchlike._core.tensor.mutation import become, count_with, demand_own, enter, placed
from torchlike._core.tensor.shared_memory import address
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.storage import CAPTURES, UNTRACKED, Freed, Outer, Storage, Version, holding, told
from torchlike._executor.immediate import Abstract
from torchlike._executor.level import LevelValue
from torchlike._executor.pending import Array, settled
from torchlike._executor.sparse import LAYER, SparseValue, refuse

if TYPE_CHECKING:
    import jax

    import torchlike._base.dtypes as dtypes
    from torchlike._base.layout import Layout
    from torchlike._core.autograd.node import AccumulateGrad
    from torchlike._core.dispatch.view_calls import DiffView
    from torchlike._core.tensor._methods import Methods  # what is installed while importing: docs/make_stubs.py
    from torchlike._core.typed import Edge
else:
    Methods = object


class TensorBase:
    """The fields of a tensor.

    ``_storage``/``_vc``: the cell and the object whose ``version`` counts in-place changes.
    ``_view``: None for a contiguous base, else a View. ``_cache``: (epoch, value) of a view.
    ``_rg``: requires grad. ``_edge``: (node, output number) or None for a leaf. ``_acc``: weak
    reference to a leaf's AccumulateGrad. ``_diff``: how a view is tied to its base for autograd.
    ``_ex``: rarely used extras (hooks, retains_grad...) as a dict, or None.
    """

    __slots__ = (
        "_storage",
        "_vc",
        "_view",
        "_cache",
        "_rg",
        "_edge",
        "_grad",
        "_acc",
        "_diff",
        "_ex",
        "__weakref__",
    )
    if TYPE_CHECKING:
        _storage: Storage
        _vc: Any  # what has a version: a Storage, a Version, or UNTRACKED
        _view: views.View | None
        _cache: tuple[int, Any] | None
        _rg: bool
        _edge: Edge
        _grad: Tensor | None
        _acc: Callable[[], AccumulateGrad | None] | None
        _diff: DiffView | None
        _ex: dict[str, Any] | None


def _planned() -> bool:
    """Whether shapes stand for tensors with numbers: inputs of a program that is planned, not run."""
    return state.capture is not None and state.capture.abstract


class Tensor(TensorBase, Methods):
    """An n-dimensional array with PyTorch's semantics, whose value is a ``jax.Array``.

    >>> import torchlike as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __hash__ = object.__hash__
    _carried: tuple[str, ...] = ()  # attributes with which programs take and give instances of the class
    _keeps_class = True  # whether the views of it that module hooks work on are of its class

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        torch_function.subclassed(cls)

    # -- metadata ------------------------------------------------------------------------------
    @property
    def shape(self) -> Size:
        view = self._view
        return _tuple(Size, self._storage.form.shape if view is None else view.shape)

    @property
    def dtype(self) -> dtypes.dtype:
        """The tensor's element type."""
        view = self._view
        return FROM_NP[self._storage.form.dtype if view is None or view.dtype is None else view.dtype]

    @property
    def device(self) -> devices.device:
        """Where the tensor's value lives."""
        value = self._storage.form
        if type(value) is Abstract:
            return devices.default_device() if _planned() else devices.META
        return devices.of_array(value)

    @property
    def ndim(self) -> int:
        view = self._view
        return len(self._storage.form.shape if view is None else view.shape)

    @property
    def layout(self) -> MemoryLayout:
        value = self._storage.form
        return value.layout if isinstance(value, SparseValue) else strided

    @property
    def _layout(self) -> Layout:
        """Shape, strides and storage offset as a geometry.Layout."""
        view = self._view
        return contiguous(self._storage.form.shape) if view is None else view.layout

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of one dimension."""
        view = self._view
        shape = _tuple(Size, self._storage.form.shape if view is None else view.shape)
        return shape if dim is None else shape[wrap_dim(_index(dim), len(shape))]

    def stride(self, dim: int | None = None) -> Any:
        """The strides in elements, or that of one dimension."""
        if LAYER.used and self.layout is sparse_coo:
            strides: tuple[int, ...] = (0,) * self.ndim
        elif LAYER.used and self.is_quantized:
            strides = self._storage.form.codes.stride()
        else:
            strides = tuple(self._layout.strides)
        return strides if dim is None else strides[wrap_dim(_index(dim), len(strides))]

    def storage_offset(self) -> int:
        if LAYER.used and self.is_quantized:
            return self._storage.form.codes.storage_offset()
        return 0 if LAYER.used and self.layout is not strided else self._layout.offset

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        n, view = 1, self._view
        for s in self._storage.form.shape if view is None else view.shape:
            n *= s
        return n

    nelement = numel

    def element_size(self) -> int:
        return self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        if LAYER.used and self.layout is sparse_coo:
            raise RuntimeError(
                "nbytes is not defined for sparse tensors; add those of the indices and of the values, or multiply "
                "numel() by element_size() for the size of the equivalent dense tensor"
            )
        return self.numel() * self.itemsize

    @volatile
    def data_ptr(self) -> int:
        """The address of the first element (0 when empty, freed or on meta). Aliases agree on it.

        On the CPU what lies there can be read as long as the storage lives, and is the value as of this call; writing
        there changes no tensor, unless a numpy array shares the memory. On other devices it is a number that nobody can
        read.

        >>> import ctypes, torchlike as torch
        >>> x = torch.tensor([1.0, 2.0])
        >>> ctypes.c_float.from_address(x.data_ptr() + x.itemsize).value
        2.0
        """
        if not self.numel() or isinstance(self._storage.form, Abstract | Freed | Outer):
            return 0
        if LAYER.used and self.is_quantized:
            return self._storage.form.codes.data_ptr()
        return address(self._storage) + self._layout.offset * self.itemsize

    def is_contiguous(self, *, memory_format: MemoryFormat | None = None) -> bool:
        if LAYER.used and isinstance(self._storage.form, SparseValue):
            if self.is_quantized:
                return self._storage.form.codes.is_contiguous(memory_format=memory_format)
            if self.layout is not sparse_coo:
                refuse("is_contiguous()")
            return False
        if memory_format is not None and memory_format is not contiguous_format:
            demand_format("is_contiguous", memory_format)
            if isinstance(self._storage.form, LevelValue):
                raise RuntimeError(
                    "NYI: querying is_contiguous inside of vmap for memory_format other than torch.contiguous_format: "
                    f"got {memory_format}"
                )
        if memory_format is channels_last:
            return is_contiguous_channels_last(self._layout, 4)
        if memory_format is channels_last_3d:
            return is_contiguous_channels_last(self._layout, 5)
        return self._view is None or is_contiguous(self._view.layout)

    def is_floating_point(self) -> bool:
        return dtype_of(self).is_floating_point

    def is_complex(self) -> bool:
        return dtype_of(self).is_complex

    def is_signed(self) -> bool:
        return self.dtype.is_signed

    is_cuda = property(lambda self: self.device.type == "cuda")
    is_cpu = property(lambda self: self.device.type == "cpu")
    is_meta = property(lambda self: type(self._storage.form) is Abstract and not _planned())
    is_mkldnn = is_nested = property(lambda self: False)

    @property
    def is_quantized(self) -> bool:
        """Whether the elements are integers that stand for numbers: see :func:`torch.quantize_per_tensor`."""
        value = self._storage.form
        return isinstance(value, SparseValue) and value.quantizer is not None

    @property
    def is_sparse(self) -> bool:
        """Whether the layout is ``torch.sparse_coo``."""
        return self.layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the layout is ``torch.sparse_csr``."""
        return self.layout is sparse_csr

    def get_device(self) -> int:
        index = self.device.index
        return -1 if self.device.type == "cpu" else index or 0

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    # -- aliasing ------------------------------------------------------------------------------
    @property
    def _cdata(self) -> int:  # tells whether two names mean one tensor
        return id(self)

    @property
    @volatile
    def _version(self) -> int:
        if self._vc is UNTRACKED:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._vc.version

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode, so that autograd cannot use it."""
        return self._vc is UNTRACKED

    def _is_view(self) -> bool:
        if CAPTURES and self._diff is None:
            placed(self)
        return self._diff is not None

    def _is_zerotensor(self) -> bool:
        """Whether ``torch._efficientzerotensor()`` made it, and nothing has changed it."""
        return self._ex is not None and self._ex.get("zero") == getattr(self._vc, "version", 0)

    @property
    def _base(self) -> Tensor | None:
        if CAPTURES:
            placed(self)
        return None if self._diff is None else self._diff.base

    def detach(self) -> Tensor:
        """The same storage and version counter, without history.

        >>> import torchlike as torch
        >>> torch.ones(1, requires_grad=True).detach().requires_grad
        False
        """
        if state.active and state.levels:
            return state.levels[-1].detach(self)
        if state.dispatch_modes or self.__class__ is not Tensor:
            out = DISPATCH.detach(self)
            if out is not None:
                return out
        new = alias(self)
        return new if self._storage.form.__class__ is Array else stopped(new)

    @property
    def data(self) -> Tensor:
        """The same storage without history and with a version counter of its own."""
        if state.active and state.levels:
            return state.levels[-1].data(self)
        if state.dispatch_modes or self.__class__ is not Tensor:
            return versioned(self.detach())
        new = alias(self)
        return versioned(new if self._storage.form.__class__ is Array else stopped(new, unseen=True))

    @data.setter
    def data(self, other: Tensor) -> None:
        if not isinstance(other, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(other).__name__}")
        if state.levels and (self._storage.stands or other._storage.stands):
            raise RuntimeError("mutating directly with `.data` inside functorch transform is not allowed.")
        if self.layout is not other.layout or self.is_meta != other.is_meta:
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor "
                f"type: {self.layout} on {self.device} cannot become {other.layout} on {other.device}; use the new "
                "tensor itself"
            )
        if self._rg and not (other.dtype.is_floating_point or other.dtype.is_complex):
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        demand_own(self._storage, other._storage.value)
        become(self, _apart(other._storage), other._view)
        if other._vc is UNTRACKED:
            count_with(self, UNTRACKED)
        elif self._vc is UNTRACKED:
            count_with(self, None)
        self._acc = None

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    # -- autograd fields (behaviour lives in node.py and engine.py) -------------------------------
    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return self.grad_fn is None

    @property
    def output_nr(self) -> int:
        return 0 if self._edge is None else self._edge[1]


class MemoryLayout:
    """How a tensor keeps its elements: all of them, or those that are not zero."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return _get_layout, (repr(self),)

    def __repr__(self) -> str:
        return f"torch.{self.name}"


def _get_layout(name: str) -> MemoryLayout:
    """The layout of a name, from a pickle."""
    return LAYOUTS[name]


MemoryLayout.__name__ = MemoryLayout.__qualname__ = "layout"
MemoryLayout.__module__ = "torch"


class MemoryFormat:
    """A memory format: how the strides of a new tensor are chosen."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


MemoryFormat.__name__ = MemoryFormat.__qualname__ = "memory_format"  # its public name, by which pickles find it


strided = MemoryLayout("strided")
sparse_coo = MemoryLayout("sparse_coo")
sparse_csr = MemoryLayout("sparse_csr")
sparse_csc = MemoryLayout("sparse_csc")
sparse_bsr = MemoryLayout("sparse_bsr")
sparse_bsc = MemoryLayout("sparse_bsc")
jagged = MemoryLayout("jagged")  # of nested tensors
COMPRESSED = (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
LAYOUTS = {repr(kind): kind for kind in (strided, sparse_coo, *COMPRESSED, jagged)}
contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")


def demand_format(function: str, memory_format: Any) -> None:
    """TypeError unless it is a memory format."""
    if not isinstance(memory_format, MemoryFormat):
        given = type(memory_format).__name__
        raise TypeError(f"{function}(): argument 'memory_format' must be torch.memory_format, not {given}")


def _index(dim: Any) -> int:
    if dim is True or dim is False or not hasattr(dim, "__index__"):
        raise TypeError(f"dim must be an int, not {type(dim).__name__}")
    return dim.__index__()


_new = object.__new__
_tuple = tuple.__new__  # a Size of lengths that are known to be ints


def wrap(value: Any) -> Tensor:
    """A new base tensor that holds ``value``."""
    t = _new(Tensor)
    t._storage = t._vc = storage = Storage()  # as holding(value), without a call
    storage.value = value
    storage.version = storage.epoch = storage._address = 0
    storage.strides = None
    storage.born = NOW.value
    if CAPTURES:
        told(storage)
    t._rg = False
    t._view = t._cache = t._edge = t._grad = t._acc = t._diff = t._ex = None
    return t


def versioned(new: Tensor) -> Tensor:
    """``new``, an alias, with a version counter of its own."""
    if new._vc is not UNTRACKED:
        new._vc = Version()
    return new


def alias(t: Tensor, cls: type = Tensor) -> Tensor:
    """Another tensor over the same storage, version counter and view, without history."""
    new = _new(cls)
    if CAPTURES and state.capture is not None:
        state.capture.made(new)
    new._storage, new._vc, new._view, new._cache = t._storage, t._vc, t._view, t._cache
    new._rg = False
    new._edge = new._grad = new._acc = new._diff = new._ex = None
    return new


def stopped(new: Tensor, unseen: bool = False) -> Tensor:
    """The new tensor ``new`` over the value of another one, as a constant for jax where that traces a function."""
    if views.followed_by_jax(new._storage.form):
        new._view, new._cache = views.stopped(new._view, new._layout, unseen), None
    new._storage = _apart(new._storage)
    return new


def _apart(storage: Storage) -> Storage:
    """``storage``, or that of another tensor over the same parts of a sparse one: either may come to have others."""
    form = storage.form
    value = form.apart() if isinstance(form, SparseValue) else form
    return storage if value is form else holding(value)


def carried(t: Tensor) -> tuple[Any, ...]:
    """The class of a tensor and the attributes that go with it, where programs keep them; else ()."""
    cls = type(t)
    return () if cls is Tensor else (cls, *[(name, t.__dict__.get(name)) for name in cls._carried])


def carried_on(t: Tensor) -> tuple[Any, ...]:
    """As :func:`carried`, for a tensor of another shape: the first of the attributes holds for that too."""
    return carried(t)[:2] if type(t)._carried else ()


def carry(t: Tensor, what: tuple[Any, ...]) -> None:
    """Give a new tensor what :func:`carried` said of another."""
    if what:
        t.__class__ = what[0]
        t.__dict__.update(what[1:])


# The properties of these names, for the library itself: nobody overrides them.
dtype_of, device_of, shape_of = Tensor.dtype.fget, Tensor.device.fget, Tensor.shape.fget


def value_of(t: Tensor) -> Any:
    """The tensor's value; a view reads its storage once per write."""
    view, storage = t._view, t._storage
    if CAPTURES:
        enter(storage)
    if view is None or not view.steps:
        return storage.value
    cache, epoch = t._cache, storage.epoch
    if cache is None or cache[0] != epoch:
        cache = storage.kept(t) or storage.keep(t, epoch, views.read(storage.value, view))
    return cache[1]


def array_of(t: Any) -> jax.Array:
    """The tensor's value as an array (or tracer), computed now if it has only been recorded."""
    return settled(value_of(t))


def is_tensor(x: Any) -> bool:
    """Whether ``x`` is a tensor: the ``is_leaf`` of the library's own trees, since to jax a tensor is a node."""
    return isinstance(x, Tensor)


def fresh(value: Any) -> Tensor:
    """As ``wrap``, for what is made outside of dispatch: in inference mode an inference tensor."""
    t = wrap(value)
    if state.inference:
        t._vc = UNTRACKED
    if state.levels:
        TRANSFORMS.born(t)
    return t
