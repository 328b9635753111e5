"""Methods that call a Python function on every element, and small questions that old scripts ask."""

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from torchlike._base.frames import warn
from torchlike._core.conversion.convert import place
from torchlike._core.tensor.arguments import as_ints
from torchlike._core.tensor.mutation import write_silently
from torchlike._core.tensor.tensor import COMPRESSED, Tensor
from torchlike._functions._install import both, function, method, prop

_CASTS: dict[str, Callable] = {"f": float, "V": float, "c": complex, "b": bool, "i": int, "u": int}


def _checked(name: str, tensors: tuple[Tensor, ...]) -> None:
    """Raise where the elements of ``tensors`` cannot be gone through together."""
    if any(t.requires_grad for t in tensors):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    for other in tensors[1:]:
        if other.type() != tensors[0].type():
            raise TypeError(f"{name}: expected {tensors[0].type()} for 'other' (got {other.type()})")


def _number(result: Any) -> Any:
    if isinstance(result, str | bytes):  # which float() would read
        raise TypeError(f"must be real number, not {type(result).__name__}")
    return result


def _each(name: str, tensors: tuple[Tensor, ...], f: Callable) -> Tensor:
    """Replace the elements of the first tensor by ``f`` of those of all; the version does not count it."""
    _checked(name, tensors)
    target = tensors[0]
    others = [Tensor.expand(other, target.shape) for other in tensors[1:]]
    if target.device.type == "meta":
        return target
    columns = [Tensor.reshape(t, -1).tolist() for t in (target, *others)]
    cast = _CASTS[np.dtype(target.dtype.np).kind]
    results = [cast(_number(f(*numbers))) for numbers in zip(*columns, strict=True)]
    write_silently(target, place(np.array(results, target.dtype.np).reshape(target.shape), target.device))
    return target


@method()
def apply_(self: Tensor, callable: Callable) -> Tensor:
    """Replace every element by ``callable(element)``: slow, on the host, and not differentiable.

    >>> import torchlike as torch
    >>> torch.tensor([1.0, 2.0]).apply_(lambda v: v * 10)
    tensor([10., 20.])
    """
    return _each("apply_", (self,), callable)


@method()
def map_(self: Tensor, other: Tensor, callable: Callable) -> Tensor:
    """Replace every element by ``callable(element, element of other)``; ``other`` is broadcast. See ``apply_``."""
    return _each("map_", (self, other), callable)


@method()
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable) -> Tensor:
    """Replace every element by ``callable`` of it and those of ``x`` and ``y``. See ``apply_``."""
    return _each("map2_", (self, x, y), callable)


@method()
def sum_to_size(self: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Sum over the dimensions along which a tensor of shape ``size`` would be expanded to this one.

    Raises:
        RuntimeError: no tensor of that size can be expanded to this one.

    >>> import torchlike as torch
    >>> torch.ones(2, 3).sum_to_size(2, 1)
    tensor([[3.],
            [3.]])
    """
    if sizes and size is not None:
        raise TypeError("sum_to_size() got multiple values for argument 'size'")
    given = sizes if size is None else (size,)
    if not given:
        raise TypeError('sum_to_size() missing 1 required positional arguments: "size"')
    listed = len(given) == 1 and isinstance(given[0], list | tuple)
    shape = as_ints("sum_to_size", "size", given[0] if listed else given)
    extra = self.ndim - len(shape)
    kept = tuple(self.shape)[extra:]
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, kept, strict=True)):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(self.shape)}}}.")
    if not shape:
        return self.sum()
    dims = [*range(extra), *(extra + i for i, n in enumerate(shape) if n == 1 and kept[i] != 1)]
    summed = self.sum(dims, keepdim=True) if dims else self
    return Tensor.view(summed, shape) if extra else summed


@both()
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    for name, x in (("input", input), ("other", other)):
        if not isinstance(x, Tensor):
            raise TypeError(f"is_same_size(): argument '{name}' must be Tensor, not {type(x).__name__}")
    return input.shape == other.shape


@function()
def _has_compatible_shallow_copy_type(input: Tensor, from_: Tensor) -> bool:
    """Whether the values of two tensors are held in one way (device type, layout, quantization), so that one can be
    given those of the other.

    >>> import torchlike as torch
    >>> torch._has_compatible_shallow_copy_type(torch.ones(2), torch.ones(3).long())
    True
    """
    return _kind_of_values(input) == _kind_of_values(from_)


def _kind_of_values(x: Tensor) -> tuple:
    return x.device.type, COMPRESSED if x.layout in COMPRESSED else x.layout, x.is_quantized


@method()
def ndimension(self: Tensor) -> int:
    """The number of dimensions, as ``dim()``."""
    return self.ndim


@method()
def is_shared(self: Tensor) -> bool:
    """Whether the tensor lies in memory shared between processes: never."""
    return False


@prop()
def name(self: Tensor) -> None:
    """None: tensors have no names."""


@prop()
def volatile(self: Tensor) -> bool:
    """False, with a warning: ``torch.no_grad()`` has taken its place."""
    warn("volatile was removed (Variable.volatile is always False)")
    return False


@method()
def reinforce(self: Tensor, reward: Any) -> NoReturn:
    """RuntimeError: the method is no more."""
    raise RuntimeError("reinforce() was removed: multiply the log-probability by the reward, and call backward() on it")


@function()
def typename(obj: Any) -> str:
    """The name of the type of a tensor (``torch.FloatTensor``), or of a class or object, with its module.

    >>> import torchlike as torch
    >>> torch.typename(torch.ones(2))
    'torch.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if inspect.isclass(obj) or inspect.isfunction(obj) or inspect.isbuiltin(obj) else type(obj)
    module = getattr(named, "__module__", None)
    return named.__qualname__ if module in (None, "builtins") else f"{module}.{named.__qualname__}"
