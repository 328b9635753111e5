"""``FakeTensorMode``: programs run for shapes, dtypes and devices alone."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torchlike._aten.packets import OpOverload, ops
from torchlike._aten.python_dispatch import DisableTorchDispatch, kernel, leaves, modes_set_to
from torchlike._aten.size_policy import ask
from torchlike._aten.tags import Tag
from torchlike._base import device as devices
from torchlike._base import dtypes
from torchlike._base.state import below_autograd, state
from torchlike._core.autograd.fields import mark
from torchlike._core.overrides.torch_function import disabled
from torchlike._core.tensor.mutation import reshape
from torchlike._core.tensor.printing import autograd_suffix
from torchlike._core.tensor.storage import Storage, holding
from torchlike._core.tensor.tensor import Tensor, alias, strided
from torchlike._executor.immediate import Abstract
from torchlike.interop.alias import missing_names
from torchlike.utils._python_dispatch import TorchDispatchMode
from torchlike.utils._pytree import tree_leaves, tree_map

__all__ = [
    "DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FakeTensorDeviceMismatchError",
    "FakeTensorMode", "UnsupportedFakeTensorException", "is_fake", "maybe_get_fake_mode", "unset_fake_temporarily",
]  # fmt: skip

__getattr__ = missing_names(__name__)

aten, _device_of = ops.aten, ops.prim.device.default
_META = devices.device("meta")


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor that no fake one can stand for."""


class _OfCall(RuntimeError):
    def __init__(self, func: Any) -> None:
        super().__init__(func)
        self.func = func


class DataDependentOutputException(_OfCall):
    """A call whose result is a number that fake tensors do not have, in ``func``."""


class DynamicOutputShapeException(_OfCall):
    """A call, in ``func``, whose result has a shape that depends on numbers."""


class FakeTensorDeviceMismatchError(RuntimeError):
    """A call, in ``func``, of tensors on several devices."""

    def __init__(self, message: str, func: Any = None) -> None:
        super().__init__(message)
        self.func = func


class FakeTensor(Tensor):
    """A tensor with shape, strides, dtype and device, without numbers; made by a :class:`FakeTensorMode`.

    Args:
        fake_mode: the mode. elem: a tensor on the device "meta". device: where it says that it is.
    """

    __torch_function__ = disabled
    fake_mode: FakeTensorMode
    fake_device: Any
    constant: Tensor | None = None  # the number of torch.tensor(number), while nothing has written to it

    @staticmethod
    def __new__(cls, fake_mode: FakeTensorMode, elem: Tensor, device: Any = None) -> FakeTensor:
        new = alias(elem, cls)
        new.fake_mode = fake_mode
        new.fake_device = _numbered(devices.default_device() if device is None else devices.as_device(device))
        if elem.requires_grad:
            mark(new, True)
        return ask(new, None, device=True)

    @staticmethod
    def from_tensor(t: Tensor, fake_mode: FakeTensorMode) -> FakeTensor:
        """As ``fake_mode.from_tensor(t)``."""
        return fake_mode.from_tensor(t)

    @property
    def device(self) -> Any:
        """Where it says that it is."""
        return self.fake_device

    @classmethod
    def __torch_dispatch__(cls, func: OpOverload, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        fakes = [t for t in leaves((*args, *(kwargs or {}).values())) if isinstance(t, FakeTensor)]
        return fakes[0].fake_mode.dispatch(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        parts = ["FakeTensor(..."]
        if self.fake_device.type != "cpu":
            parts.append(f"device='{self.fake_device}'")
        parts.append(f"size={tuple(self.shape)}")
        if self.dtype is not dtypes.get_default_dtype():
            parts.append(f"dtype={self.dtype}")
        text = ", ".join([*parts, *autograd_suffix(self)]) + ")"
        return f"Parameter({text})" if getattr(self, "_is_param", False) else text

    def __deepcopy__(self, memo: dict) -> FakeTensor:
        if id(self) not in memo:
            new = self.detach().clone()
            if getattr(self, "_is_param", False):
                new._is_param = True
            memo[id(self)] = mark(new, self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise AttributeError("Can't pickle a FakeTensor: it has no numbers; save its shape and dtype instead")

    def tolist(self) -> Any:
        """The numbers: DataDependentOutputException, but for a known one."""
        return [x.tolist() for x in self] if self.dim() else self.item()

    def numpy(self, *, force: bool = False) -> Any:
        """RuntimeError: there are no numbers."""
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.numpy()

    def jax(self) -> Any:
        """RuntimeError: there is no array."""
        raise RuntimeError("FakeTensor.jax(): there is no array; use jax.ShapeDtypeStruct(x.shape, x.dtype.np)")


class FakeTensorMode(TorchDispatchMode):
    """A context in which new tensors are fake: calls tell shapes, strides, dtypes, devices and graphs alone.

    Args:
        allow_non_fake_inputs: let calls take tensors with numbers, of which they use the shapes.
        allow_fallback_kernels, shape_env, static_shapes, export: taken and without effect; all sizes are numbers.

    Calls on its tensors are fake outside of the context too. :meth:`from_tensor` gives a fake tensor like another one.

    Raises:
        DataDependentOutputException, DynamicOutputShapeException: a number of a tensor is asked for, by ``item`` or
            by what makes a shape of it (``nonzero``).
        AssertionError: a call is given a tensor with numbers, or one of another mode.

    >>> import torchlike as torch
    >>> from torchlike._subclasses import FakeTensorMode
    >>> with FakeTensorMode():
    ...     layer = torch.nn.Linear(100_000, 100_000)
    ...     layer(torch.randn(2, 100_000))
    FakeTensor(..., size=(2, 100000), grad_fn=<AddmmBackward0>)
    """

    draws_nothing = True

    def __init__(
        self, *, allow_fallback_kernels: bool = True, allow_non_fake_inputs: bool = False, shape_env: Any = None,
        static_shapes: bool | None = None, export: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.allow_fallback_kernels, self.allow_non_fake_inputs = allow_fallback_kernels, allow_non_fake_inputs
        self.shape_env, self.static_shapes, self.export = shape_env, static_shapes, export
        self._known: dict[int, tuple[weakref.ref, FakeTensor]] = {}  # fakes by identity of the tensor they are like
        self._storages: weakref.WeakKeyDictionary[Storage, Storage] = weakref.WeakKeyDictionary()

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return self.dispatch(func, args, kwargs or {})

    # -- fakes of tensors ---------------------------------------------------------------------------------------

    def from_tensor(
        self, tensor: Tensor, *, static_shapes: bool | None = None, source: Any = None, symbolic_context: Any = None,
        trace: bool = True,
    ) -> FakeTensor:  # fmt: skip
        """The fake tensor like ``tensor``: the same one each time, with views of one storage for views of one.

        Raises:
            UnsupportedFakeTensorException: a sparse or nested tensor, or one of a class of the user's.
        """
        if isinstance(tensor, FakeTensor):
            self._demand_own(tensor)
            return tensor
        found = self._known.get(id(tensor))
        if found is None or found[0]() is not tensor:
            key, known = id(tensor), self._known
            found = weakref.ref(tensor, lambda _: known.pop(key, None)), self._like(tensor)
            known[key] = found
        return found[1]

    def _like(self, t: Tensor) -> FakeTensor:
        is_parameter = getattr(t, "_is_param", False)
        if t.layout is not strided or (type(t) is not Tensor and not is_parameter and not hasattr(t, "_is_buffer")):
            raise UnsupportedFakeTensorException(
                f"FakeTensorMode: a {type(t).__name__} of layout {t.layout} has no fake here; take a plain dense tensor"
            )
        storage = self._storages.get(t._storage)
        if storage is None:
            form = t._storage.form
            storage = self._storages[t._storage] = holding(Abstract(tuple(form.shape), form.dtype))
            storage.strides = t._storage.strides
        with modes_set_to(()), below_autograd():
            elem = alias(t)
            elem._storage, elem._vc, elem._cache = storage, storage, None
            new: Any = FakeTensor(self, elem, t.device)
        if t.requires_grad:
            mark(new, True)
            new = new if t.is_leaf else new.view_as(new)
        if is_parameter:
            new._is_param = True
        return new

    def _demand_own(self, t: FakeTensor) -> None:
        if t.fake_mode is not self:
            raise AssertionError(f"Mixing fake modes NYI x.fake_mode={t.fake_mode} vs self={self}")

    # -- calls ----------------------------------------------------------------------------------------------------

    def dispatch(self, func: OpOverload, args: tuple, kwargs: dict) -> Any:
        """The result of a call, as shapes alone tell it."""
        if func is _device_of:
            return args[0].fake_device
        if func is aten.lift_fresh.default and not isinstance(args[0], FakeTensor):
            return self._constant(args[0])
        args, kwargs = self._converted(func, args, kwargs)
        fakes = [t for t in leaves((*args, *kwargs.values())) if isinstance(t, FakeTensor)]
        constants = self._computed(func, args, kwargs, fakes)
        if constants is not None and not isinstance(constants, Tensor):
            return constants
        if Tag.data_dependent_output in func.tags:
            raise DataDependentOutputException(func)
        if Tag.dynamic_output_shape in func.tags or (func is aten.index.Tensor and any(_is_mask(i) for i in args[1])):
            raise DynamicOutputShapeException(func)
        out = self._run(func, args, kwargs, _result_device(func, args, kwargs, fakes))
        if constants is not None:
            out.constant = constants
        return out

    def _converted(self, func: OpOverload, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """The arguments with fakes for tensors, where those are allowed."""
        strangers = []
        for t in leaves((*args, *kwargs.values())):
            if isinstance(t, FakeTensor):
                self._demand_own(t)
            elif not isinstance(t._storage.form, Abstract):  # what has no numbers is of a formula's, or random words
                strangers.append(t)
        if not strangers:
            return args, kwargs
        if not self.allow_non_fake_inputs:
            shown = ", ".join([_text_of(x) for x in (*args, *kwargs.values())])
            raise AssertionError(
                "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                f"'allow_non_fake_inputs'. Found in {func}({shown})"
            )
        if func._schema.is_mutable and any(self._written(func, args, kwargs, t) for t in strangers):
            raise AssertionError(f"FakeTensorMode: {func} would change a tensor that is not fake; pass a fake one")
        convert = lambda t: self.from_tensor(t) if isinstance(t, Tensor) else t  # noqa: E731
        return tree_map(convert, args), tree_map(convert, kwargs)

    def _written(self, func: OpOverload, args: tuple, kwargs: dict, t: Tensor) -> bool:
        named = dict(zip([a.name for a in func._schema.arguments], args, strict=False)) | kwargs
        written = [named.get(a.name) for a in func._schema.arguments if a.is_write]
        return any(x is t for x in tree_leaves(written))

    def _constant(self, t: Tensor) -> FakeTensor:
        """The fake of a new tensor of numbers, which knows its number if it is a single one."""
        new = self._fake(Tensor._make_subclass(Tensor, t.to("meta")), t.device)
        if t.numel() == 1:
            new.constant = t
        return new

    def _computed(self, func: OpOverload, args: tuple, kwargs: dict, fakes: list[FakeTensor]) -> Any:
        """What a call of known numbers gives, None for others; writing makes what it writes unknown."""
        if func._schema.is_mutable or func.is_view or Tag.nondeterministic_seeded in func.tags:
            for t in fakes:
                t.constant = None  # and, through views, of what shares its storage: see _known_number
                _WRITTEN.add(t._storage)
            return None
        if not fakes or any(t.constant is None or t._storage in _WRITTEN for t in fakes):
            return None
        real = lambda x: x.constant if isinstance(x, FakeTensor) else x  # noqa: E731
        out = kernel(func, tree_map(real, args), tree_map(real, kwargs))
        single = isinstance(out, Tensor) and out.numel() == 1
        return out if single or isinstance(out, bool | int | float | complex) else None

    def _run(self, func: OpOverload, args: tuple, kwargs: dict, device: Any) -> Any:
        """A call of tensors on "meta" in the place of the fake ones."""
        plain: dict[int, tuple[FakeTensor, Tensor]] = {}

        def stand(x: Any) -> Any:
            if isinstance(x, FakeTensor):
                return plain.setdefault(id(x), (x, alias(x)))[1]
            return x

        args, kwargs = tree_map(stand, args), tree_map(stand, kwargs)
        if kwargs.get("device") is not None:
            kwargs["device"] = _META
        args = tuple([_META if isinstance(x, devices.device) else x for x in args])
        with DisableTorchDispatch():
            out = kernel(func, args, kwargs)
        if Tag.inplace_view in func.tags or func.overloadpacket in (aten.set_, aten.resize_):
            for t, p in plain.values():
                _take_geometry(t, p)
        own = {id(p): t for t, p in plain.values()}
        return tree_map(lambda t: own[id(t)] if id(t) in own else self._fake(t, device), out)

    def _fake(self, t: Any, device: Any) -> Any:
        return FakeTensor(self, t, device) if isinstance(t, Tensor) else t


_WRITTEN: weakref.WeakSet[Storage] = weakref.WeakSet()  # storages of fakes whose numbers may have changed


def _take_geometry(t: FakeTensor, plain: Tensor) -> None:
    """Give ``t`` the storage and geometry that a call gave what stood for it."""
    if t._storage is not plain._storage:
        t._storage, t._vc = plain._storage, plain._vc
    reshape(t, plain._view)


def _is_mask(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype in (dtypes.bool, dtypes.uint8)


def _numbered(device: Any) -> Any:
    """A device with its number, if there are several of its kind."""
    return device if device.index is not None or device.type in ("cpu", "meta") else devices.device(device.type, 0)


def _text_of(x: Any) -> str:
    """An argument as errors name it, without its numbers."""
    with modes_set_to(()):
        if isinstance(x, Tensor) and not isinstance(x, FakeTensor):
            return f"{type(x).__name__.lower()}([...], size={tuple(x.shape)})"
        return repr(x)


def _result_device(func: OpOverload, args: tuple, kwargs: dict, fakes: list[FakeTensor]) -> Any:
    """Where the results are: as the call says, else where its tensors are; numbers on the CPU go anywhere."""
    given = [x for x in (*args, kwargs.get("device")) if isinstance(x, devices.device)]
    if kwargs.get("device") is not None and not given:
        given = [devices.as_device(kwargs["device"])]
    if given:
        return given[0]
    found = None
    for t in fakes:
        if found is None or (found.type == "cpu" and found is not t.fake_device and _only_numbers(fakes, found)):
            found = t.fake_device
        elif found != t.fake_device and not (t.dim() == 0 and t.fake_device.type == "cpu") and func not in _ACROSS:
            raise FakeTensorDeviceMismatchError(
                f"Expected all tensors to be on the same device, but found at least two devices, {found} and "
                f"{t.fake_device}! ({func})",
                func,
            )
    return devices.default_device() if found is None else found


def _only_numbers(fakes: list[FakeTensor], device: Any) -> bool:
    return all(t.dim() == 0 for t in fakes if t.fake_device == device)


_ACROSS = (aten.copy_.default, aten.copy.default, aten._to_copy.default)


def is_fake(x: Any) -> bool:
    """Whether something is a fake tensor.

    >>> import torchlike as torch
    >>> torch._subclasses.fake_tensor.is_fake(torch.ones(2))
    False
    """
    return isinstance(x, FakeTensor)


def maybe_get_fake_mode(t: Any) -> FakeTensorMode | None:
    """The mode of a fake tensor, None for anything else."""
    return t.fake_mode if isinstance(t, FakeTensor) else None


@contextmanager
def unset_fake_temporarily() -> Iterator[FakeTensorMode | None]:
    """A context in which tensors have numbers again; gives the innermost fake mode that is off."""
    fakes = [m for m in state.dispatch_modes if isinstance(m, FakeTensorMode)]
    with modes_set_to(tuple([m for m in state.dispatch_modes if not isinstance(m, FakeTensorMode)])):
        yield fakes[-1] if fakes else None
