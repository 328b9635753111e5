"""From a list of samples to a batch."""

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import jax
import numpy as np

from torchlike._base.dtypes import float64
from torchlike._core.conversion.factories import as_tensor, tensor
from torchlike._core.tensor.tensor import Tensor, value_of
from torchlike._functions.rearrange import stack

_TEXT_KINDS = "SaUO"  # numpy arrays of these are no tensors
_SUPPORTED = "batch must contain tensors, numpy arrays, numbers, dicts or lists"


def _is_namedtuple(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(x, "_fields")


def _like(container: Any, entries: Any) -> Any:
    """``entries`` in a container such as ``container``; plain where its class cannot be made from them."""
    try:
        clone: Any = copy.copy(container)
        if isinstance(container, MutableMapping):
            clone.update(entries)
            return clone
        if isinstance(container, MutableSequence):
            for i, entry in enumerate(entries):
                clone[i] = entry
            return clone
        return type(container)(entries)
    except TypeError:
        return entries


def default_convert(data: Any) -> Any:
    """``data`` with every numpy array and numpy number in it made a tensor; the rest stays as it is.

    >>> import torchlike as torch
    >>> import numpy as np
    >>> torch.utils.data.default_convert({"x": np.array([1, 2]), "y": "text"})
    {'x': tensor([1, 2]), 'y': 'text'}
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in _TEXT_KINDS else as_tensor(data)
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if _is_namedtuple(data):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like(data, [default_convert(d) for d in data])
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of samples: tensors, arrays and numbers stacked, containers collated element by element.

    Python floats become float64. Strings and bytes stay a list. Tuples become a list, other
    containers keep their class.

    Raises:
        TypeError: samples of another type. RuntimeError: sequences or tensors of unequal size.

    >>> import torchlike as torch
    >>> torch.utils.data.default_collate([(torch.ones(2), 0), (torch.zeros(2), 1)])
    [tensor([[1., 1.],
            [0., 0.]]), tensor([0, 1])]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: Mapping[Any, Callable] | None = None) -> Any:
    """As :func:`default_collate`, with a function of one's own per type of sample.

    Args:
        collate_fn_map: from a type, or a tuple of types, to ``function(batch, *, collate_fn_map)``.
    """
    first = batch[0]
    kind = type(first)
    for types, function in (collate_fn_map or {}).items():
        if kind is types or isinstance(first, types):
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        collated = {key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map) for key in first}
        return _like(first, collated)
    if _is_namedtuple(first):
        return kind(*(collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch, strict=False)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _like(first, columns)
    raise TypeError(f"default_collate: {_SUPPORTED}; found {kind}")


def _collate_tensors(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Tensor:
    if all(is_host_data(t) and t.shape == batch[0].shape for t in batch):
        # On the host one copy does it; a stack of n operands is a program per n and shape.
        return as_tensor(np.stack([t._host() for t in batch]))
    return stack(list(batch))


def is_host_data(t: Any) -> bool:
    """Whether numpy can read the tensor where it is, and nothing is to be recorded."""
    if type(t) is not Tensor or t.requires_grad or t.device.type != "cpu":
        return False
    return not isinstance(value_of(t), jax.core.Tracer)


def _collate_arrays(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Tensor:
    if batch[0].dtype.kind in _TEXT_KINDS:
        raise TypeError(f"default_collate: {_SUPPORTED}; found {batch[0].dtype}")
    if all(type(a) is np.ndarray and a.dtype == batch[0].dtype and a.shape == batch[0].shape for a in batch):
        return as_tensor(np.stack(batch))
    return _collate_tensors([as_tensor(array) for array in batch])


def _collate_numpy_numbers(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Tensor:
    return as_tensor(batch)


def _collate_floats(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Tensor:
    return tensor(batch, dtype=float64)


def _collate_ints(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Tensor:
    return tensor(batch)


def _collate_text(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Sequence[Any]:
    return batch


default_collate_fn_map: dict[Any, Callable] = {
    Tensor: _collate_tensors,
    np.ndarray: _collate_arrays,
    (np.bool_, np.number, np.object_): _collate_numpy_numbers,
    float: _collate_floats,
    int: _collate_ints,
    str: _collate_text,
    bytes: _collate_text,
}

# The names under which programs call them, each with the batch and ``collate_fn_map``.
collate_tensor_fn, collate_numpy_array_fn, collate_numpy_scalar_fn = (
    _collate_tensors,
    _collate_arrays,
    _collate_numpy_numbers,
)
collate_float_fn, collate_int_fn, collate_str_fn = _collate_floats, _collate_ints, _collate_text
np_str_obj_array_pattern = re.compile(r"[SaUO]")
