"""Files of safetensors: the length of a header, a header of JSON, the bytes of tensors one after the other."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from torchlike._base import dtypes

_LIMIT = 100_000_000  # bytes of a header

CODES: dict[str, Any] = {
    "F64": dtypes.float64, "F32": dtypes.float32, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "I64": dtypes.int64, "I32": dtypes.int32, "I16": dtypes.int16, "I8": dtypes.int8, "U8": dtypes.uint8,
    "U16": dtypes.uint16, "U32": dtypes.uint32, "U64": dtypes.uint64, "BOOL": dtypes.bool, "C64": dtypes.complex64,
    "F8_E4M3": dtypes.float8_e4m3fn, "F8_E5M2": dtypes.float8_e5m2,
}  # fmt: skip
_NAMES = {dtype: code for code, dtype in CODES.items()}
_NUMPY = {"BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2}


class Entry(NamedTuple):
    """A tensor of a file: its code, its shape, and where its bytes begin and end in the file."""

    code: str
    shape: tuple[int, ...]
    begin: int
    end: int


def numpy_dtype(code: str) -> np.dtype:
    """The dtype of numpy for a code. NotImplementedError for one that no tensor here has."""
    if code not in CODES:
        raise NotImplementedError(f"safetensors: tensors of {code} are not supported; there are {', '.join(CODES)}")
    return np.dtype(_NUMPY.get(code) or CODES[code].np).newbyteorder("<")


def header(path: Path) -> tuple[dict[str, str], dict[str, Entry]]:
    """The texts and the tensors that a file says it has. ValueError for another kind of file."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        size = path.stat().st_size
        if not 2 <= length <= min(_LIMIT, size - 8):
            raise ValueError(f"{path} is no file of safetensors: its header would have {length} bytes")
        found = json.loads(file.read(length))
    start, entries = 8 + length, {}
    texts = found.pop("__metadata__", {})
    for name, said in found.items():
        begin, end = said["data_offsets"]
        shape = tuple(said["shape"])
        expected = math.prod(shape) * numpy_dtype(said["dtype"]).itemsize
        if end - begin != expected or not 0 <= begin <= end <= size - start:
            raise ValueError(f"{path}: {name!r} has {end - begin} bytes at {begin}, and {expected} are expected in it")
        entries[name] = Entry(said["dtype"], shape, start + begin, start + end)
    return texts, entries


def read(path: Path, entry: Entry) -> np.ndarray:
    """The numbers of one tensor."""
    with path.open("rb") as file:
        file.seek(entry.begin)
        return np.frombuffer(file.read(entry.end - entry.begin), numpy_dtype(entry.code)).reshape(entry.shape)


def written(file: Any, tensors: Mapping[str, tuple[Any, np.ndarray]], texts: Mapping[str, str] | None) -> None:
    """Write (dtype, numbers) of each name into an open file, wide dtypes first, as alignment wants."""
    order = sorted(tensors, key=lambda name: (-tensors[name][1].itemsize, name))
    said: dict[str, Any] = {} if not texts else {"__metadata__": dict(texts)}
    at = 0
    for name in order:
        dtype, numbers = tensors[name]
        if dtype not in _NAMES:
            raise NotImplementedError(f"safetensors: {name!r} is {dtype}, which the format has no name for")
        end = at + numbers.nbytes
        said[name] = {"dtype": _NAMES[dtype], "shape": list(numbers.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(said, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        file.write(np.ascontiguousarray(tensors[name][1]).tobytes())
