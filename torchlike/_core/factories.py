"""Functions that create tensors."""

import jax.numpy as jnp

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._core import arguments
from torchlike._core.convert import as_tensor, from_dlpack, from_jax_array, from_numpy, place, tensor
from torchlike._core.tensor import Tensor, wrap
from torchlike._executor import immediate


def _size(function, size, keyword):
    """The shape from ``f(2, 3)``, ``f((2, 3))`` or ``f(size=(2, 3))``."""
    if keyword is not None:
        size = keyword
    elif len(size) == 1 and isinstance(size[0], list | tuple):
        size = size[0]
    shape = arguments.as_ints(function, "size", tuple(size))
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}")
    return shape


def finish(value, dtype, device, requires_grad, out=None):
    """A tensor of ``value`` on ``device``, or ``out`` with that value."""
    if out is not None:
        out.resize_(value.shape).copy_(wrap(value))
        return out
    t = wrap(place(value, None if device is None else devices.as_device(device)))
    if requires_grad:
        t.requires_grad = True
    return t


def _dtype(dtype):
    return dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)


def zeros(
    *args, size=None, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    """A tensor of zeros of the given size.

    >>> import torchlike as torch
    >>> torch.zeros(2)
    tensor([0., 0.])
    """
    value = immediate.zeros(_size("zeros", args, size), _dtype(dtype).np)
    return finish(value, dtype, device, requires_grad, out)


def ones(
    *args, size=None, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    """A tensor of ones of the given size."""
    value = immediate.ones(_size("ones", args, size), _dtype(dtype).np)
    return finish(value, dtype, device, requires_grad, out)


def empty(*args, size=None, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
          memory_format=None):  # fmt: skip
    """A tensor whose values are not promised (here: zeros)."""
    value = immediate.zeros(_size("empty", args, size), _dtype(dtype).np)
    return finish(value, dtype, device, requires_grad, out)


def full(
    size, fill_value, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    """A tensor filled with one number; the dtype is the number's unless given.

    >>> import torchlike as torch
    >>> torch.full((2,), 7)
    tensor([7, 7])
    """
    shape = _size("full", (size,), None)
    number = arguments.as_number("full", "fill_value", fill_value)
    kind = dtypes.as_dtype(dtype) if dtype is not None else as_tensor(number).dtype
    return finish(jnp.full(shape, number, kind.np), dtype, device, requires_grad, out)


def arange(
    start,
    end=None,
    step=1,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """Numbers from ``start`` to before ``end`` by ``step``.

    >>> import torchlike as torch
    >>> torch.arange(1, 6, 2)
    tensor([1, 3, 5])
    """
    start, end = (0, start) if end is None else (start, end)
    numbers = [
        arguments.as_number("arange", n, v) for n, v in (("start", start), ("end", end), ("step", step))
    ]
    first, last, by = numbers
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if (last - first) * by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is None:
        kind = dtypes.get_default_dtype() if any(isinstance(n, float) for n in numbers) else dtypes.int64
    else:
        kind = dtypes.as_dtype(dtype)
    count = (
        -int(-(last - first) // by)
        if not any(isinstance(n, float) for n in numbers)
        else arguments.np.ceil((last - first) / by)
    )
    wide = arguments.np.int64 if not any(isinstance(n, float) for n in numbers) else arguments.np.float64
    value = (first + arguments.np.arange(int(count), dtype=wide) * by).astype(kind.np)
    return finish(value, dtype, device, requires_grad, out)


__all__ = [
    "Tensor", "arange", "as_tensor", "empty", "finish", "from_dlpack", "from_jax_array", "from_numpy", "full", "ones",
    "tensor", "zeros",
]  # fmt: skip
