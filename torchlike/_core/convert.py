"""The host boundary: Python data, numpy, DLPack and jax arrays in and out of tensors."""

import jax
import jax.numpy as jnp
import numpy as np

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._core.tensor import Tensor, value_of, wrap
from torchlike._executor.immediate import Abstract


def place(value, device):
    """``value`` (a numpy or jax array) as a jax array on ``device``; abstract on meta."""
    if device is None:
        device = devices.default_device()
    if device.type == "meta":
        return Abstract(value.shape, value.dtype)
    if isinstance(value, jax.core.Tracer):
        return value
    target = devices.jax_device(device)
    if isinstance(value, jax.Array):
        return value if value.devices() == {target} else jax.device_put(value, target)
    return jax.device_put(jnp.array(value), target) if target != jax.devices()[0] else jnp.array(value)


def _scan(data, depth=0):
    """(shape, leaves) of nested sequences; ValueError where they are ragged."""
    if isinstance(data, Tensor | np.ndarray | np.generic | jax.Array):
        host = data._host() if isinstance(data, Tensor) else np.asarray(data)
        return host.shape, [host]
    if not isinstance(data, list | tuple) and not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        return (), [data]
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    shape, leaves = None, []
    for i, item in enumerate(data):
        inner, found = _scan(item, depth + 1)
        if shape is None:
            shape = inner
        elif shape != inner:
            if len(shape) and len(inner):
                raise ValueError(
                    f"expected sequence of length {shape[0]} at dim {depth + 1} (got {inner[0]})"
                )
            raise TypeError(
                f"tensor(): element {i} at dim {depth} is not a {'sequence' if shape else 'number'} like the first"
            )
        leaves += found
    return (len(data), *(shape or ())), leaves


def _host_array(data, dtype):
    """numpy array of any accepted ``data``; the dtype is inferred as PyTorch infers it."""
    if isinstance(data, np.ndarray | np.generic):
        return np.asarray(data) if dtype is None else np.asarray(data).astype(dtype.np)
    shape, leaves = _scan(data)
    if all(isinstance(x, np.ndarray) for x in leaves) and leaves:
        flat = np.stack(leaves).reshape(shape)
        return flat if dtype is None else flat.astype(dtype.np)
    leaves = [x.item() if isinstance(x, np.ndarray) else x for x in leaves]
    wanted = dtype or _infer(leaves)
    try:
        return np.array(leaves, dtype=_widest(leaves)).astype(wanted.np).reshape(shape)
    except OverflowError:
        raise RuntimeError("Overflow when unpacking long long") from None
    except (ValueError, TypeError) as error:
        bad = next((x for x in leaves if not isinstance(x, bool | int | float | complex)), None)
        if isinstance(bad, str):
            raise TypeError("new(): invalid data type 'str'") from None
        raise TypeError(f"tensor(): cannot convert {type(bad).__name__} to {wanted}: {error}") from None


def _widest(leaves):
    kinds = {type(x) for x in leaves}
    if kinds <= {bool}:
        return np.bool_
    if kinds <= {bool, int}:
        return np.int64 if all(-(2**63) <= x < 2**63 for x in leaves) else np.uint64
    return np.complex128 if complex in kinds else np.float64


def _infer(leaves):
    if any(isinstance(x, complex) for x in leaves):
        return dtypes.get_default_dtype().to_complex()
    if not leaves or any(isinstance(x, float) for x in leaves):
        return dtypes.get_default_dtype()
    return dtypes.bool if all(isinstance(x, bool) for x in leaves) else dtypes.int64


def _finished(value, device, requires_grad):
    t = wrap(place(value, devices.as_device(device) if device is not None else None))
    if requires_grad:
        t.requires_grad = True
    return t


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of ``data`` (numbers, nested sequences, numpy arrays, tensors).

    Raises:
        ValueError: sequences of unequal length. TypeError: data that are not numbers.

    >>> import torchlike as torch
    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    dtype = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(data, Tensor | jax.Array):
        value = value_of(data) if isinstance(data, Tensor) else data
        if device is None and isinstance(data, Tensor):
            device = data.device
        return _finished(value if dtype is None else value.astype(dtype.np), device, requires_grad)
    return _finished(_checked(_host_array(data, dtype)), device, requires_grad)


def _checked(array):
    dtypes.from_np(array.dtype)
    return array


def as_tensor(data, dtype=None, device=None):
    """``data`` as a tensor: itself where nothing changes, else as :func:`tensor` (numpy data are copied).

    >>> import torchlike as torch
    >>> x = torch.ones(2)
    >>> torch.as_tensor(x) is x
    True
    """
    if isinstance(data, Tensor):
        return data.to(device=device or data.device, dtype=dtype or data.dtype)
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array):
    """A tensor with a copy of a numpy array (jax arrays never change, so memory is not shared).

    >>> import numpy, torchlike as torch
    >>> torch.from_numpy(numpy.arange(3))
    tensor([0, 1, 2])
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    return wrap(place(_checked(array), None))


def from_jax_array(array):
    """A tensor over a ``jax.Array`` (or tracer), without a copy.

    >>> import jax.numpy as jnp, torchlike as torch
    >>> torch.from_jax_array(jnp.zeros(2))
    tensor([0., 0.])
    """
    if not isinstance(array, jax.Array):
        raise TypeError(
            f"expected jax.Array (got {type(array).__name__}); use torch.as_tensor for other data"
        )
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
        raise TypeError(f"jax arrays of dtype {array.dtype} have no torch dtype")
    return wrap(jax.lax.convert_element_type(array, array.dtype))


def from_dlpack(ext_tensor, **kwargs):
    """A tensor from any object with ``__dlpack__``."""
    if isinstance(ext_tensor, Tensor):
        return from_jax_array(value_of(ext_tensor))
    return from_jax_array(jnp.from_dlpack(ext_tensor, **kwargs))


def _no_numbers(t):
    raise NotImplementedError(
        f"Cannot copy out of meta tensor; no data! (a tensor of shape {list(t.shape)} on device 'meta')"
    )


def host(t):
    """The tensor's value as a read-only numpy array."""
    value = value_of(t)
    if isinstance(value, Abstract):
        _no_numbers(t)
    return np.asarray(value)


def numpy(t, *, force=False):
    """A numpy array with a writable copy of the values.

    PyTorch shares memory here; a jax array never changes, so torchlike gives a copy: writing into it
    does not change the tensor. ``force`` also detaches and moves to the CPU.
    """
    if t.requires_grad and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    if t.device.type not in ("cpu", "meta") and not force:
        raise TypeError(
            f"can't convert {t.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            f"memory first."
        )
    if t.dtype.np.kind == "V":
        raise TypeError(f"Got unsupported ScalarType {t.dtype.scalar_name}")
    return np.array(host(t))


def item(t):
    """The Python number in a tensor with one element.

    >>> import torchlike as torch
    >>> torch.tensor([2.5]).item()
    2.5
    """
    if t.numel() != 1:
        raise RuntimeError(f"a Tensor with {t.numel()} elements cannot be converted to Scalar")
    return host(t).reshape(()).item()


def tolist(t):
    """Nested lists of Python numbers (a number for a 0-dim tensor)."""
    return host(t).tolist() if t.dtype.np.kind != "V" else host(t).astype(np.float64).tolist()


def to_array(t, dtype=None, copy=None):
    """``numpy.asarray(tensor)``."""
    array = numpy(t)
    return array if dtype is None else array.astype(dtype)


def truth(t):
    if t.numel() != 1:
        what = "no values" if not t.numel() else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(item(t))


def index(t):
    if t.numel() != 1 or t.dtype.is_floating_point or t.dtype.is_complex:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(t))


def jax_array(t):
    """The value as a ``jax.Array``, without a copy (later in-place changes of the tensor do not reach it)."""
    return value_of(t)


def install():
    """Give Tensor its conversions."""
    Tensor.numpy, Tensor.item, Tensor.tolist, Tensor.jax = numpy, item, tolist, jax_array
    Tensor._host, Tensor.__array__, Tensor.__jax_array__ = host, to_array, jax_array
    Tensor.__bool__, Tensor.__index__ = truth, index
    Tensor.__float__ = lambda t: float(item(t))
    Tensor.__int__ = lambda t: int(item(t))
    Tensor.__complex__ = lambda t: complex(item(t))
    Tensor.__dlpack__ = lambda t, **kwargs: value_of(t).__dlpack__(**kwargs)
    Tensor.__dlpack_device__ = lambda t: value_of(t).__dlpack_device__()
    Tensor.__array_priority__ = 1000
