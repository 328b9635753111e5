"""Tensors made after the shape, dtype, strides and device of another."""

from torchlike._base.deterministic import unwritten
from torchlike._base.layout import contiguous_strides
from torchlike._core.conversion import convert, factories
from torchlike._core.conversion.buffers import asarray, from_file, frombuffer
from torchlike._core.conversion.factories import (
    constant,
    demand_strided,
    filled,
    finish,
    size_of,
    strided,
    without_entries,
)
from torchlike._core.conversion.numbers import fill_of, number_of
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.observers import flagged, redispatch, watched
from torchlike._core.dispatch.view_calls import call_view
from torchlike._core.sparse.value import NAMES
from torchlike._core.tensor import arguments, untyped_storage
from torchlike._core.tensor.memory_format import formatted
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import COMPRESSED, Tensor, preserve_format, sparse_coo, value_of
from torchlike._core.tensor.tensor import strided as strided_layout
from torchlike._executor.level import LevelValue
from torchlike._executor.sparse import LAYER
from torchlike._executor.spread import USED, as_before
from torchlike._functions._install import function, method
from torchlike._functions.legacy import demand_own_device, is_length
from torchlike._ops import view as views
from torchlike._transforms.levels.vmap import alike


def _asked(name, t, dtype, device):
    if not isinstance(t, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(t).__name__}")
    kind = t.dtype if dtype is None else arguments.as_dtype(name, "dtype", dtype)
    return kind, t.device if device is None else device


def _made(like, shape, make, device, requires_grad):
    """A tensor of ``make(shape)``; inside of vmap one for each example of ``like``."""
    if isinstance(like._storage.form, LevelValue):
        return alike(lambda shape: finish(make(shape), None, device, requires_grad), like, shape)
    new = finish(make(tuple(shape)), None, device, requires_grad)
    return spread_as(like, new) if USED else new


def spread_as(like, new):
    """``new``, which has just been made after ``like``, over the devices that that is spread over."""
    new._storage.value = as_before(value_of(like), new._storage.value)
    return new


def _sparse_like(name, number, t, shape, layout, dtype, device, requires_grad):
    """Zeros in another layout than ``torch.strided``; those like a hybrid tensor are hybrid, new ones are not."""
    kind, device = _asked(name, t, dtype, device)
    compressed = t.layout in COMPRESSED
    hybrid = t.dense_dim() and not number and name.endswith("_like")
    if t.layout is layout and (compressed or hybrid) and tuple(shape) == tuple(t.shape):
        new = t.detach().clone().to(device=device, dtype=kind)
        number = unwritten(kind) if number is None else number
        new = new.fill_(number) if number or name in ("empty_like", "full_like") and compressed else new.zero_()
        return new.requires_grad_(requires_grad)
    if t.layout in COMPRESSED and name == "empty_like":
        demand_same_layout(t, layout)
    if number:
        demand_strided(name, layout)
    return without_entries(name, layout, tuple(shape), kind, device, requires_grad)


def demand_same_layout(t, layout):
    """RuntimeError for a tensor of another layout than one of compressed rows or columns has."""
    if t.layout in COMPRESSED and layout is not t.layout:
        names = [NAMES.get(x, "Strided") for x in (t.layout, layout)]
        raise RuntimeError(
            f"empty_like with different sparse layout is not supported (self is {names[0]} but you requested "
            f"{names[1]})"
        )


def _like(name, number, doc):
    def like(input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
             memory_format=None):  # fmt: skip
        if (layout is not None or LAYER.used) and isinstance(input, Tensor):
            layout = input.layout if layout is None else layout
            if layout is strided_layout:
                demand_same_layout(input, layout)
            else:
                if memory_format is not None:
                    raise RuntimeError(f"{name}(): memory format option is only supported by strided tensors")
                return _sparse_like(name, number, input, input.shape, layout, dtype, device, requires_grad)
        memory_format = preserve_format if memory_format is None else memory_format
        if watched(input):
            return _seen_like(name, (input,), dtype, device, requires_grad, memory_format)
        kind, device = _asked(name, input, dtype, device)
        t = _made(input, input.shape, lambda shape: constant(shape, kind, device, number), device, requires_grad)
        return formatted(t, memory_format, None if input._view is None else input._layout)

    like.__name__ = like.__qualname__ = name
    like.__doc__ = f"""{doc} of the shape, dtype, device and memory order of ``input``."""
    return function(name)(like)


def _seen_like(name, args, dtype, device, requires_grad, memory_format=None):
    """The call as a ``__torch_dispatch__`` sees it."""
    memory_format = None if memory_format is preserve_format else memory_format
    options = {"dtype": dtype, "device": device, "pin_memory": False, "memory_format": memory_format}
    return flagged(redispatch(f"{name}.default", *args, **options), requires_grad)


zeros_like = _like("zeros_like", 0, "Zeros")
ones_like = _like("ones_like", 1, "Ones")
empty_like = _like("empty_like", None, "A tensor whose values are not promised,")


@function()
def full_like(input, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
              memory_format=preserve_format):  # fmt: skip
    """One number in the shape, dtype, device and memory order of ``input``.

    >>> import torchlike as torch
    >>> torch.full_like(torch.zeros(2), 7)
    tensor([7., 7.])
    """
    if (layout is not None or LAYER.used) and isinstance(input, Tensor):
        to = input.layout if layout is None else layout
        if to is input.layout and to in COMPRESSED:
            number = number_of("full_like", "fill_value", fill_value, 2)
            return _sparse_like("full_like", number, input, input.shape, to, dtype, device, requires_grad)
        demand_same_layout(input, to)
        demand_strided("full_like", to)
    if watched(input):
        return _seen_like("full_like", (input, fill_value), dtype, device, requires_grad, memory_format)
    kind, device = _asked("full_like", input, dtype, device)
    number = fill_of("full_like", fill_value)
    t = _made(input, input.shape, lambda shape: filled(shape, number, kind, device), device, requires_grad)
    return formatted(t, memory_format, None if input._view is None else input._layout)


def _new(name, number, doc):
    def new(self, *args, size=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
        if layout is not None or LAYER.used:
            layout = self.layout if layout is None else layout
            if layout is not strided_layout:
                shape = size_of(name, args, size)
                return _sparse_like(name, number, self, shape, layout, dtype, device, requires_grad)
        if watched(self):
            return _seen_like(name, (self, list(size_of(name, args, size))), dtype, device, requires_grad)
        kind, device = _asked(name, self, dtype, device)
        size = size_of(name, args, size)
        return _made(self, size, lambda shape: constant(shape, kind, device, number), device, requires_grad)

    new.__name__, new.__qualname__ = name, f"Tensor.{name}"
    new.__doc__ = f"""{doc} of the given size, with the dtype and device of this tensor."""
    return method(name)(new)


_new("new_zeros", 0, "Zeros")
_new("new_ones", 1, "Ones")
_new("new_empty", None, "A tensor whose values are not promised,")


@method()
def new_full(self, size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """One number in the given size, with the dtype and device of this tensor."""
    if not isinstance(size, list | tuple):
        raise TypeError(f"new_full(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    if layout is not None or LAYER.used:
        demand_strided("new_full", self.layout if layout is None else layout)
    if watched(self):
        shape = list(size_of("new_full", (size,)))
        return _seen_like("new_full", (self, shape, fill_value), dtype, device, requires_grad)
    kind, device = _asked("new_full", self, dtype, device)
    number = fill_of("new_full", fill_value)
    size = size_of("new_full", (size,))
    return _made(self, size, lambda shape: filled(shape, number, kind, device), device, requires_grad)


@method()
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """A copy of ``data`` with the dtype and device of this tensor."""
    if layout is not None:
        demand_strided("new_tensor", layout)
    kind, device = _asked("new_tensor", self, dtype, device)
    arguments.bools("new_tensor", requires_grad=requires_grad)
    convert.warn_of_copy(data, "tensor.new_tensor")
    return convert.new_tensor(data, kind, device, requires_grad)


@method()
def new_empty_strided(self, size, stride, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """A tensor of these strides whose values are not promised, with the dtype and device of this tensor."""
    if layout is not None:
        demand_strided("new_empty_strided", layout)
    if watched(self):
        args = self, list(size), list(stride)
        return _seen_like("new_empty_strided", args, dtype, device, requires_grad)
    kind, device = _asked("new_empty_strided", self, dtype, device)
    if not isinstance(self._storage.form, LevelValue):
        return strided("new_empty_strided", size, stride, kind, device, requires_grad)
    size, stride = tuple(size), tuple(stride)
    extent = 0 if 0 in size else 1 + sum([(n - 1) * s for n, s in zip(size, stride, strict=True)])

    def make(shape):
        outer = [extent * s for s in contiguous_strides(shape[: len(shape) - len(size)])]
        return strided("new_empty_strided", shape, (*outer, *stride), kind, device, requires_grad)

    return alike(make, self, size)


def _sparse_new(args, device):
    """The COO tensor of ``t.new(indices, values, size)``, in the dtype of the values."""
    if isinstance(args[0], list | tuple):
        raise TypeError(
            "new(): of a sparse tensor it takes a size as integers or torch.Size, or indices and values; use "
            "torch.sparse_coo_tensor()"
        )
    tensors = [isinstance(x, Tensor) for x in args[:2]] == [True, True]
    if not tensors or len(args) > 3 or not isinstance(args[-1], Tensor | tuple | list):
        raise TypeError(f"new() received an invalid combination of arguments: {[type(x).__name__ for x in args]}")
    return FUNCTIONS["sparse_coo_tensor"](*args, device=device)


@method()
def new(self, *args, size=None, device=None):
    """A tensor of the given size or data, with the dtype and device of this tensor; a view of a tensor or storage.

    RuntimeError for another kind of device, or for a device and a tensor.
    """
    if device is not None and len(args) == 1 and isinstance(args[0], Tensor):
        raise RuntimeError(
            "Legacy tensor new of the form tensor.new(tensor, device=device) is not supported. "
            "Use torch.as_tensor(...) instead."
        )
    demand_own_device(self.device.type, device)
    if LAYER.used and self.layout is sparse_coo and args and not (is_length(args[0]) or isinstance(args[0], Size)):
        return _sparse_new(args, device)
    if size is not None:
        if args or not isinstance(size, tuple | list):
            raise TypeError(f"new() received an invalid combination of arguments - got ({args}, size={size})")
        return self.new_empty(tuple(size), device=device)
    if len(args) == 1 and isinstance(args[0], untyped_storage.UntypedStorage | untyped_storage.TypedStorage):
        return self.new_empty((0,), device=device).set_(args[0])
    if len(args) == 1 and isinstance(args[0], Tensor):
        if args[0].dtype is not self.dtype or args[0].device != self.device:
            raise TypeError(
                f"new(): expected a tensor of {self.dtype} on {self.device} (got {args[0].dtype} on "
                f"{args[0].device}); convert it with .to()"
            )
        return call_view(views.alias, (args[0],), ())
    if len(args) == 1 and not (is_length(args[0]) or isinstance(args[0], Size)):
        return new_tensor(self, args[0], device=device)
    size = args[0] if args and isinstance(args[0], Size) else args or (0,)
    return self.new_empty(arguments.as_ints("new", "size", tuple(size)), device=device)


for _name in factories.__all__:
    if _name not in ("Tensor", "finish"):
        function(_name)(getattr(factories, _name))
function()(asarray)
function()(frombuffer)
function()(from_file)
