"""``torch.Tensor(...)``, ``torch.LongTensor(...)``: the constructors that take a size or data."""

import numpy as np

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._aten.subclass import of_class
from torchlike._core.conversion import convert, factories
from torchlike._core.conversion.convert import as_tensor, tensor
from torchlike._core.dispatch.view_calls import call_view
from torchlike._core.tensor import arguments
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor, alias, strided
from torchlike._ops import view as views


def _is_tensor(args):
    return len(args) == 1 and isinstance(args[0], Tensor)


def is_length(x):
    """Whether ``x``, alone, is a size and not data."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def demand_own_device(place, device):
    """RuntimeError if a constructor of tensors on ``place`` is asked for another kind of device."""
    if device is not None and (asked := devices.device(device).type) != place:
        raise RuntimeError(f"legacy constructor expects device type: {place} but device type: {asked} was passed")


def _construct(name, args, dtype, device, place):
    """The tensor of a legacy constructor call; ``dtype`` None means the default one."""
    kind = dtype or dtypes.get_default_dtype()
    if _is_tensor(args) and device is not None:
        raise RuntimeError(
            f"Legacy tensor constructor of the form torch.{name}(tensor, device=device) is not supported. "
            "Use torch.tensor(...) or torch.as_tensor(...) instead."
        )
    demand_own_device(place, device)
    if _is_tensor(args):
        if dtype is not None and args[0].dtype is not dtype:
            raise TypeError(f"{name}: expected a tensor of {dtype} (got {args[0].dtype}); convert it with .to({dtype})")
        return call_view(views.alias, (args[0],), ()) if args[0].layout is strided else alias(args[0])
    if len(args) == 1 and isinstance(args[0], Size):
        args = tuple(args[0])
    elif len(args) == 1 and not is_length(args[0]):
        make = as_tensor if isinstance(args[0], np.ndarray) else tensor  # an array's memory is shared
        return make(_sequence(args[0]), dtype=kind, device=device)
    shape = factories.checked_size("new", arguments.as_ints("new", "size", args)) if args else (0,)
    where = devices.as_device(device) if device is not None else None
    return convert.fresh(convert.place(factories.constant(shape, kind, device, None), where))


def _sequence(data):
    if isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    if not isinstance(data, np.ndarray) and not hasattr(data, "__len__"):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
    return data


def _new(cls, *args, device=None, **kwargs):
    made = _construct("Tensor", args, None, device, "cpu")
    if cls is not Tensor and _is_tensor(args) and args[0].layout is strided:
        return of_class(args[0], cls)
    return made if cls is Tensor else alias(made, cls)


Tensor.__new__ = _new


class _TypedMeta(type):
    """``isinstance(x, torch.FloatTensor)`` asks for the dtype and the device of a tensor."""

    dtype: dtypes.dtype
    place: str

    @property
    def tensor_type(cls):
        """The name by which :meth:`Tensor.type` takes it."""
        return f"{cls.__module__}.{cls.__name__}"

    is_cuda = property(lambda cls: cls.place == "cuda")
    is_xpu = property(lambda cls: cls.place == "xpu")
    is_sparse = property(lambda cls: False)
    layout = property(lambda cls: strided)

    def __getattr__(cls, name):
        """A method or property of Tensor, as if the types derived from it; not what makes objects count as tensors."""
        if name.startswith("__") or not hasattr(Tensor, name):
            raise AttributeError(f"type object '{cls.tensor_type}' has no attribute '{name}'")
        return getattr(Tensor, name)

    def __setattr__(cls, name, value):
        raise TypeError(f"cannot set '{name}' attribute of immutable type '{cls.tensor_type}'")

    def __new__(mcs, name, bases, body):
        if bases:
            raise TypeError(f"type '{bases[0].tensor_type}' is not an acceptable base type; derive from torch.Tensor")
        return super().__new__(mcs, name, bases, body)

    def __instancecheck__(cls, x):
        there = isinstance(x, Tensor) and x.dtype is cls.dtype and x.device.type == cls.place
        return there and x.layout is strided

    def __call__(cls, *args, device=None):
        if cls.place != "cpu":
            _demand_there(cls)
            device = cls.place if device is None and not _is_tensor(args) else device
        return _construct(cls.__name__, args, cls.dtype, device, cls.place)


def _demand_there(cls):
    """TypeError for a tensor type that is not the CPU's where jax has no such device."""
    try:
        devices.jax_device(devices.device(cls.place))
    except RuntimeError:
        raise TypeError(
            f"type {cls.tensor_type} not available. Torch not compiled with {cls.place.upper()} enabled: jax has none "
            "in this process"
        ) from None


def tensor_types(module, place):
    """The legacy tensor types of a device, by name; ``module`` is where they are found."""
    return {
        name: _TypedMeta(
            name,
            (),
            {"dtype": kind, "place": place, "__module__": module, "__doc__": f"Makes tensors of {kind} on {place}."},
        )
        for name, kind in dtypes.TENSOR_TYPES.items()
    }


TYPED = tensor_types("torch", "cpu")
