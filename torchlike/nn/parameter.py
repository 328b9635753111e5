"""Parameter and Buffer: tensors that a Module registers by itself when they are assigned to it."""

from collections import OrderedDict
from types import MethodWrapperType
from typing import Any

from torchlike._aten.subclass import detached, state_of
from torchlike._core.autograd.fields import differentiable, mark
from torchlike._core.autograd.node import requires_grad
from torchlike._core.conversion.factories import empty
from torchlike._core.overrides.torch_function import PLAIN, arm, disabled
from torchlike._core.tensor.printing import PARAMETER, prints_as_tensor
from torchlike._core.tensor.tensor import Tensor, alias, preserve_format
from torchlike._utils import _rebuild_parameter, _rebuild_parameter_with_state
from torchlike.interop.jax_tree import register

__all__ = [
    "Parameter",
    "UninitializedParameter",
    "is_lazy",
    "Buffer",
    "UninitializedBuffer",
    "UninitializedTensorMixin",
]


class _Marked(type(Tensor)):
    """A class whose instances include tensors of other classes that carry its mark."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        marked = cls.__dict__.get("_mark")
        return marked is not None and isinstance(instance, Tensor) and getattr(instance, marked, False)


class _ParameterMeta(_Marked):
    """The class of Parameter."""


class _BufferMeta(_Marked):
    """The class of Buffer."""


def _checked(owner: str, data: Any) -> Tensor:
    if data is None:
        return empty(0)
    if not isinstance(data, Tensor):
        raise AttributeError(
            f"{owner}(): data must be a Tensor, not {type(data).__name__}; make one with torch.tensor(data)"
        )
    return data


@prints_as_tensor
class Parameter(Tensor, metaclass=_ParameterMeta):
    """A leaf tensor that counts as a parameter of the module it is assigned to.

    Args:
        data: the tensor to hold; its storage is shared, its history is not. Default: an empty tensor.
        requires_grad: whether backward accumulates into ``.grad``.

    Of a tensor subclass (other than Parameter itself) it returns an instance of that subclass,
    for which ``isinstance(p, Parameter)`` holds too.

    Raises:
        RuntimeError: ``requires_grad`` is true and the dtype is neither floating point nor complex.

    >>> import torchlike as torch
    >>> torch.nn.Parameter(torch.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    _keeps_class = False

    __torch_function__ = disabled
    _mark = "_is_param"
    _is_param = True

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True):
        data = _checked("Parameter", data)
        if not isinstance(requires_grad, bool):
            raise TypeError(f"Parameter(): requires_grad must be bool, not {type(requires_grad).__name__}")
        if requires_grad and not differentiable(data):
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients: "
                f"Parameter() got {data.dtype}; pass requires_grad=False"
            )
        if type(data) is Tensor or type.__instancecheck__(Parameter, data):
            return mark(alias(data, cls), requires_grad)
        marked = mark(detached(data), requires_grad)
        if type(marked) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns "
                f"an instance of the same type, but it gave a {type(marked).__name__}; make detach() keep the class, "
                "or pass data.as_subclass(torch.Tensor)"
            )
        marked._is_param = True
        return marked

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(memory_format=preserve_format), self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        state = state_of(self)
        given = self.data, self.requires_grad, OrderedDict()
        return (_rebuild_parameter_with_state, (*given, state)) if state else (_rebuild_parameter, given)

    def __repr__(self):
        return PARAMETER + super().__repr__()


register(Parameter, Parameter)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that counts as a buffer of the module it is assigned to.

    Args:
        data: the tensor to hold; its storage is shared. Default: an empty tensor.
        persistent: whether it belongs to the module's ``state_dict``.

    The result has the class of ``data``; ``isinstance(b, Buffer)`` tells it from other tensors.

    >>> import torchlike as torch
    >>> m = torch.nn.Module()
    >>> m.steps = torch.nn.Buffer(torch.zeros(1))
    >>> list(m.state_dict())
    ['steps']
    """

    __torch_function__ = disabled
    _mark = "_is_buffer"

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True):
        data = _checked("Buffer", data)
        marked = mark(detached(data), requires_grad(data))
        marked.persistent = persistent
        marked._is_buffer = True
        return marked


PLAIN.update((Parameter, Buffer))


_USABLE = ("copy_", "cpu", "cuda", "double", "float", "half", "is_complex", "is_floating_point", "size", "to")


class UninitializedTensorMixin:
    """What parameters and buffers without a shape have in common."""

    cls_to_become: type
    data: Any
    dtype: Any
    device: Any

    def materialize(self, shape, device=None, dtype=None) -> None:
        """Become an ordinary tensor of ``shape``, whose elements are not set; the object stays the same.

        ``device`` and ``dtype`` are the tensor's own by default.
        """
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        """An error: there is none before :meth:`materialize`."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call "
            "`forward` to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self):
        """An error: there is no memory before :meth:`materialize`."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the "
            "parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol):
        return type(self), (self.requires_grad, self.data.device, self.data.dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known as yet; most uses of it are errors.

    Args:
        requires_grad, device, dtype: of the parameter that it will be.

    >>> import torchlike as torch
    >>> p = torch.nn.UninitializedParameter()
    >>> p
    <UninitializedParameter>
    >>> p.materialize((2, 3))
    >>> type(p).__name__, p.shape
    ('Parameter', torch.Size([2, 3]))
    """

    cls_to_become = Parameter
    __torch_function__ = disabled

    def __new__(cls, requires_grad: bool = True, device=None, dtype=None):
        arm()
        return super().__new__(cls, empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known as yet; most uses of it are errors.

    Args:
        requires_grad, device, dtype: of the tensor that it will be.
        persistent: whether it belongs to the module's ``state_dict``.
    """

    cls_to_become = Tensor
    __torch_function__ = disabled

    def __new__(cls, requires_grad: bool = False, device=None, dtype=None, persistent: bool = True):
        arm()
        made = mark(alias(empty(0, device=device, dtype=dtype), cls), requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


def _refuse(cls, func, types, args=(), kwargs=None):
    usable = [getattr(Tensor, name) for name in _USABLE]
    if func in usable or isinstance(func, MethodWrapperType):  # getters of metadata
        if issubclass(cls, Parameter):
            return disabled(func, types, args, kwargs)
        return Tensor.__torch_function__.__func__(cls, func, types, args, kwargs)  # whose results are of the class
    raise ValueError(
        f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a "
        f"`LazyModule` or explicitly manipulating `torch.nn.parameter.{cls.__name__}` objects. When using "
        "LazyModules Call `forward` with a dummy batch to initialize the parameters before calling torch functions"
    )


# Not in the classes' bodies: a class that overrides makes every call look for overrides, from its making on.
for _cls in (UninitializedParameter, UninitializedBuffer):
    _cls.__torch_function__ = classmethod(_refuse)  # type: ignore[assignment]


def is_lazy(param: Any) -> bool:
    """Whether ``param`` is a parameter or buffer without a shape as yet."""
    return isinstance(param, UninitializedTensorMixin)
