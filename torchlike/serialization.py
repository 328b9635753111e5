"""save and load: tensors and plain containers in a file that cannot run code.

A file is a zip archive, stored without compression, of

- ``torchlike.json``: ``{"version": 1, "object": ...}``, the saved object as text, and
- ``data/0``, ``data/1``...: the values of one array each, raw, little-endian, in row-major order.

In the text None, booleans, strings, ints and finite floats stand for themselves; anything else is an array
whose first element says what it is, such as ``["tuple", [...]]`` or ``["tensor", "0", "float32", [2, 3], ...]``.
Files that ``torch.save`` wrote are read too, by ``interop.checkpoints``.
"""

import base64
import io
import json
import math
import os
import pickle
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, TypeAlias

import jax
import numpy as np

from torchlike._base.device import device as Device
from torchlike._base.device import jax_device
from torchlike._base.dtypes import ALIASES
from torchlike._base.dtypes import dtype as Dtype
from torchlike._core.autograd.hooks import warn_if_has_hooks
from torchlike._core.conversion.convert import place
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor, alias, fresh, value_of
from torchlike.interop import checkpoints
from torchlike.interop.checkpoints import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from torchlike.nn.parameter import Buffer, Parameter

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

FILE: TypeAlias = str | os.PathLike | BinaryIO
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | Device | str | dict[str, str] | None

_TEXT = "torchlike.json"
_VERSION = 1
_KINDS = (
    "tensors, Parameters, numpy arrays, numbers, str, bytes, None, dtype, device, torch.Size, and dict, OrderedDict, "
    "Counter, list, tuple, set, frozenset, slice and range of these"
)
_SEQUENCES: dict[str, Callable] = {"tuple": tuple, "set": set, "frozenset": frozenset, "Size": Size}


# -- saving --------------------------------------------------------------------------------------------
def save(
    obj: Any,
    f: FILE,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write tensors and plain containers of them to a file.

    Args:
        obj: for example a module's ``state_dict()``. What it may hold: see Raises.
        f: a path, or a file object open for writing bytes.
        pickle_module, pickle_protocol: accepted as torch's; nothing is pickled.

    Values are those at the time of the call. Objects that occur twice, and tensors that share the
    whole of a storage, do so again after loading; a view is saved by its values, as a tensor of its own.

    Raises:
        pickle.PicklingError: ``obj`` holds something other than tensors, Parameters, numpy arrays,
            numbers, str, bytes, None, dtype, device, torch.Size, and dict, OrderedDict, Counter, list, tuple,
            set, frozenset, slice and range of these. Nothing is written then.

    >>> import io
    >>> import torchlike as torch
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2), "epoch": 3}, file)
    >>> torch.load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    if pickle_module is not pickle:
        raise NotImplementedError("save() pickles nothing: leave pickle_module away")
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    writer = _Writer()
    text = json.dumps({"version": _VERSION, "object": writer.encode(obj)})
    folder = os.path.dirname(os.path.abspath(f)) if isinstance(f, (str, os.PathLike)) else None
    if folder is not None and not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_TEXT, text)
        for key, value in enumerate(writer.values):
            with archive.open(f"data/{key}", "w", force_zip64=True) as entry:
                entry.write(_little_endian(np.asarray(value)))


def _little_endian(array: np.ndarray) -> bytes:
    array = np.ascontiguousarray(array)
    return (array.byteswap() if sys.byteorder == "big" else array).tobytes()


class _Writer:
    """Turns an object into text, and collects the arrays that the text refers to."""

    def __init__(self) -> None:
        self.values: list[Any] = []  # jax and numpy arrays, in the order of their keys
        self.storages: dict[int, str] = {}
        self.seen: dict[int, int] = {}  # objects with an identity, by the order in which they come
        self.alive: list[Any] = []  # so that no id is used twice

    def encode(self, x: Any) -> Any:
        kind = type(x)
        if x is None or kind in (bool, int, str):
            return x
        if kind is float:
            return x if math.isfinite(x) else ["float", repr(x)]
        if isinstance(x, Tensor) or kind in (list, dict, OrderedDict, Counter, set):
            if id(x) in self.seen:
                return ["same", self.seen[id(x)]]
            self.seen[id(x)] = len(self.seen)
            self.alive.append(x)
        if isinstance(x, Tensor):
            return self.tensor(x)
        method = getattr(self, f"encode_{kind.__name__}", None)
        if kind in _PLAIN and method is not None:
            return method(x)
        if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufc":
            name = "array" if isinstance(x, np.ndarray) else "scalar"
            return [name, self.key(np.asarray(x)), x.dtype.name, list(x.shape)]
        raise _unsaved(x)

    def key(self, value: Any) -> str:
        self.values.append(value)
        return str(len(self.values) - 1)

    def tensor(self, t: Tensor) -> list:
        if type(t) is Tensor:
            warn_if_has_hooks(t)
        marks = {"requires_grad": True} if t.requires_grad else {}
        if isinstance(t, Buffer):
            marks["persistent"] = t.persistent
        elif type(t) is not Tensor and not isinstance(t, Parameter):
            raise _unsaved(t)
        name = "Parameter" if isinstance(t, Parameter) else "Buffer" if isinstance(t, Buffer) else "tensor"
        key = None if t.is_meta else self.storage(t)
        return [name, key, t.dtype.name, list(t.shape), str(t.device), marks]

    def storage(self, t: Tensor) -> str:
        value = value_of(t)
        if isinstance(value, jax.core.Tracer):
            raise pickle.PicklingError("save() cannot save a tensor while jax traces it: its value is not known")
        if t._view is not None:
            return self.key(value)
        if id(t._storage) not in self.storages:
            self.storages[id(t._storage)] = self.key(value)
        return self.storages[id(t._storage)]

    def sequence(self, x: Any) -> list:
        return [type(x).__name__, [self.encode(item) for item in x]]

    def mapping(self, x: Mapping) -> list:
        return [type(x).__name__, [[self.encode(k), self.encode(v)] for k, v in x.items()]]

    encode_list = encode_tuple = encode_set = encode_frozenset = encode_Size = sequence
    encode_dict = encode_Counter = mapping

    def encode_OrderedDict(self, x: OrderedDict) -> list:
        return [*self.mapping(x), self.encode(dict(x.__dict__))]  # a state_dict has its _metadata there

    def encode_bytes(self, x: bytes | bytearray) -> list:
        return [type(x).__name__, base64.b64encode(x).decode()]

    encode_bytearray = encode_bytes

    def encode_complex(self, x: complex) -> list:
        return ["complex", repr(x.real), repr(x.imag)]

    def encode_slice(self, x: slice | range) -> list:
        return [type(x).__name__, *(self.encode(part) for part in (x.start, x.stop, x.step))]

    encode_range = encode_slice

    def encode_dtype(self, x: Dtype) -> list:
        return ["dtype", x.name]

    def encode_device(self, x: Device) -> list:
        return ["device", str(x)]


_PLAIN = {list, tuple, set, frozenset, Size, dict, OrderedDict, Counter, bytes, bytearray, complex, slice, range}
_PLAIN |= {Dtype, Device}


def _unsaved(x: Any) -> pickle.PicklingError:
    cls = type(x)
    hint = ": save its state_dict()" if hasattr(x, "state_dict") else ""
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        hint = ": convert it to a tuple or a dict"
    return pickle.PicklingError(f"save() cannot save {cls.__module__}.{cls.__qualname__}{hint}. It saves {_KINDS}")


# -- loading -------------------------------------------------------------------------------------------
def load(
    f: FILE,
    map_location: MAP_LOCATION = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what :func:`save` wrote, or what ``torch.save`` wrote if it holds tensors and plain containers.

    No code from the file runs, whatever the arguments.

    Args:
        f: a path, or a file object open for reading bytes.
        map_location: the device to put tensors on; or a dict from saved to wanted devices; or a
            function of (storage, location) that returns None, or what has a ``device``. By default
            the device a tensor was saved from.
        weights_only: accepted; False allows no more than True. For classes of one's own in files of
            ``torch.save``: ``torch.serialization.add_safe_globals``.
        mmap: accepted, without effect.

    Raises:
        pickle.UnpicklingError: not such a file, or it holds something else.
        RuntimeError: a device is not there, and ``map_location`` is not given.
    """
    if pickle_module is not None:
        raise NotImplementedError("load() unpickles nothing but what it knows: leave pickle_module away")
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _load(file, map_location)
    if not hasattr(f, "read"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'read' attribute")
    return _load(f if hasattr(f, "seek") else io.BytesIO(f.read()), map_location)


def _load(file: BinaryIO, map_location: MAP_LOCATION) -> Any:
    placement = _Placement(map_location)
    if not zipfile.is_zipfile(file):
        raise checkpoints.not_an_archive(file)
    with zipfile.ZipFile(file) as archive:
        if _TEXT not in archive.namelist():
            return checkpoints.read(archive, placement.tensor)
        text = json.loads(archive.read(_TEXT))
        if text["version"] > _VERSION:
            raise pickle.UnpicklingError(
                f"the file has version {text['version']}; this torchlike reads up to {_VERSION}"
            )
        return _Reader(archive, placement).decode(text["object"])


class _Saved:
    """What a function given as ``map_location`` gets: it stands for values, and can be sent to a device."""

    def __init__(self, device: Device):
        self.device = device

    def cpu(self) -> "_Saved":
        return _Saved(Device("cpu"))

    def cuda(self, index: int | None = None) -> "_Saved":
        return _Saved(Device("cuda", index or 0))


class _Placement:
    """Puts values where ``map_location`` says."""

    def __init__(self, map_location: MAP_LOCATION):
        known = map_location is None or isinstance(map_location, (str, Device, Mapping)) or callable(map_location)
        if not known:
            raise TypeError(
                f"map_location must be a device, a str, a dict or a function, not {type(map_location).__name__}"
            )
        self.where = Device(map_location) if isinstance(map_location, (str, Device)) else map_location

    def device(self, location: str) -> Device:
        """The device for what was saved on ``location``."""
        where = self.where
        if isinstance(where, Device):
            return where
        if isinstance(where, Mapping):
            return Device(where.get(location, location))
        if where is not None:
            result = where(_Saved(Device("cpu")), location)
            if result is not None:
                return Device(getattr(result, "device", result))
        try:
            saved = Device(location)
            if saved.type != "meta":
                jax_device(saved)
        except RuntimeError as error:
            raise RuntimeError(f"a tensor was saved on {location}: {error}; load it with map_location='cpu'") from None
        return saved

    def tensor(self, array: np.ndarray, location: str) -> Tensor:
        """A tensor of a host array that was saved on ``location``."""
        return fresh(place(array, self.device(location)))


class _Reader:
    """Turns text back into the object, with arrays from the archive."""

    def __init__(self, archive: zipfile.ZipFile, placement: _Placement):
        self.archive, self.placement = archive, placement
        self.seen: list[Any] = []
        self.bases: dict[tuple, Tensor] = {}

    def decode(self, node: Any) -> Any:
        if not isinstance(node, list):
            return node
        kind, *parts = node
        method = getattr(self, f"decode_{kind}", None)
        if method is None:
            raise pickle.UnpicklingError(f"the file holds {kind!r}, which this torchlike does not know")
        return method(*parts)

    def remember(self, x: Any) -> Any:
        self.seen.append(x)
        return x

    def decode_same(self, number: int) -> Any:
        return self.seen[number]

    def decode_float(self, text: str) -> float:
        return float(text)

    def decode_complex(self, real: str, imag: str) -> complex:
        return complex(float(real), float(imag))

    def decode_bytes(self, text: str) -> bytes:
        return base64.b64decode(text)

    def decode_bytearray(self, text: str) -> bytearray:
        return bytearray(base64.b64decode(text))

    def decode_dtype(self, name: str) -> Dtype:
        return ALIASES[name]

    def decode_device(self, name: str) -> Device:
        return Device(name)

    def decode_slice(self, *parts: Any) -> slice:
        return slice(*(self.decode(part) for part in parts))

    def decode_range(self, *parts: Any) -> range:
        return range(*(self.decode(part) for part in parts))

    def decode_list(self, items: list) -> list:
        new = self.remember([])
        new.extend(self.decode(item) for item in items)
        return new

    def decode_set(self, items: list) -> set:
        new = self.remember(set())
        new.update(self.decode(item) for item in items)
        return new

    def decode_tuple(self, items: list) -> tuple:
        return tuple(self.decode(item) for item in items)

    def decode_frozenset(self, items: list) -> frozenset:
        return frozenset(self.decode(item) for item in items)

    def decode_Size(self, items: list) -> Size:
        return Size(items)

    def fill(self, new: dict, pairs: list) -> Any:
        self.remember(new)
        for key, value in pairs:
            new[self.decode(key)] = self.decode(value)
        return new

    def decode_dict(self, pairs: list) -> dict:
        return self.fill({}, pairs)

    def decode_Counter(self, pairs: list) -> Counter:
        return self.fill(Counter(), pairs)

    def decode_OrderedDict(self, pairs: list, attributes: Any) -> OrderedDict:
        new = self.fill(OrderedDict(), pairs)
        new.__dict__.update(self.decode(attributes))
        return new

    def host(self, key: str, dtype: np.dtype, shape: list[int]) -> np.ndarray:
        """The array of an entry."""
        raw = np.frombuffer(self.archive.read(f"data/{key}"), dtype)
        if raw.size != math.prod(shape):
            raise pickle.UnpicklingError(
                f"data/{key} has {raw.size} elements, and its shape is {shape}: the file is damaged"
            )
        return (raw.byteswap() if sys.byteorder == "big" else raw).reshape(shape)

    def decode_array(self, key: str, name: str, shape: list[int]) -> np.ndarray:
        return self.host(key, np.dtype(name), shape).copy()

    def decode_scalar(self, key: str, name: str, shape: list[int]) -> Any:
        return self.host(key, np.dtype(name), shape)[()]

    def decode_tensor(self, key: str | None, name: str, shape: list[int], device: str, marks: dict) -> Tensor:
        new = self.plain(key, name, shape, device).requires_grad_("requires_grad" in marks)
        return self.remember(new)

    def decode_Parameter(self, key: str | None, name: str, shape: list[int], device: str, marks: dict) -> Tensor:
        return self.remember(Parameter(self.plain(key, name, shape, device), "requires_grad" in marks))

    def decode_Buffer(self, key: str | None, name: str, shape: list[int], device: str, marks: dict) -> Tensor:
        new = Buffer(self.plain(key, name, shape, device), persistent=marks["persistent"])
        return self.remember(new.requires_grad_("requires_grad" in marks))

    def plain(self, key: str | None, name: str, shape: list[int], device: str) -> Tensor:
        """A tensor of an entry, which shares storage with what was read from the same entry before."""
        dtype = ALIASES[name].np
        if key is None:
            return self.placement.tensor(np.broadcast_to(np.zeros((), dtype), shape), "meta")
        if (key, name, *shape) not in self.bases:
            self.bases[key, name, *shape] = self.placement.tensor(self.host(key, dtype, shape), device)
        return alias(self.bases[key, name, *shape])
