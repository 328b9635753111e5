"""The element types: one object per type, and what is known about each."""

import builtins
import math
from functools import cache
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from .bits import NARROW, X64

_set = object.__setattr__


class dtype:
    """An element type, such as `torch.float32`.

    There is one object per type: types compare and hash by identity, and copying or
    unpickling gives back the same object. Types are not created by users.

    Besides PyTorch's attributes there are `name` ("float32"), `scalar_name` (the name
    that error messages and `Tensor.type()` use, "Float") and `np`, the numpy type that
    stores it. A type that jax lacks, such as `torch.qint8`, has a name and a size, but
    asking for its `np` raises NotImplementedError.

    >>> import torchlike as torch
    >>> torch.float is torch.float32, torch.float16.itemsize, torch.complex64.to_real()
    (True, 2, torch.float32)
    """

    __slots__ = (
        "name", "scalar_name", "abbr", "itemsize", "np",
        "is_floating_point", "is_complex", "is_signed", "_real", "_complex",
    )  # fmt: skip

    name: str
    scalar_name: str
    abbr: str
    itemsize: builtins.int
    np: np.dtype
    is_floating_point: builtins.bool
    is_complex: builtins.bool
    is_signed: builtins.bool
    _real: "dtype"
    _complex: "dtype | None"

    def __new__(cls, *args: Any, **kwargs: Any) -> "dtype":
        raise TypeError("cannot create 'torch.dtype' instances; use one that exists, such as torch.float32")

    def __init_subclass__(cls) -> None:
        raise TypeError("type 'torch.dtype' is not an acceptable base type")

    def __getattr__(self, attribute: str) -> NoReturn:
        # Reached only for what a slot does not hold, so what a type lacks costs others nothing.
        if attribute == "np":
            instead = _SUBSTITUTE.get(self.name, "torch.int8")
            raise NotImplementedError(f"torch.{self.name} is not supported: jax lacks it; use {instead}")
        if attribute == "is_signed":
            raise RuntimeError(
                f"torch.{self.name} is neither signed nor unsigned: is_signed is not supported for quantized dtypes"
            )
        raise AttributeError(f"'torch.dtype' object has no attribute '{attribute}'")

    def __setattr__(self, attribute: str, value: Any) -> NoReturn:
        if attribute in dtype.__slots__:
            raise AttributeError(f"attribute '{attribute}' of 'torch.dtype' objects is not writable")
        raise AttributeError(f"'torch.dtype' object has no attribute '{attribute}'")

    __delattr__ = lambda self, attribute: self.__setattr__(attribute, None)  # noqa: E731

    @property
    def __numpy_dtype__(self) -> Any:
        """What numpy, from 2.4 on, and functions of jax take it for."""
        return self.np

    def to_real(self) -> "dtype":
        """The type of the real part of this type; itself if it is not complex."""
        return self._real

    def to_complex(self) -> "dtype":
        """The complex type whose parts hold this floating type; RuntimeError if there is none."""
        if self._complex is None:
            raise RuntimeError(f"torch.{self.name} has no complex type; convert it to a floating type first")
        return self._complex

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self):
        return self.name  # of the module that the class shows, torch where this package stands in for it

    def __copy__(self) -> "dtype":
        return self

    def __deepcopy__(self, memo: dict) -> "dtype":
        return self


ALIASES: dict[str, dtype] = {}
"""Every public name, canonical or alias ("float32", "float"), and its type."""

FROM_NP: dict[np.dtype, dtype] = {}
"""The type that each numpy (or ml_dtypes) type is stored as."""

_SUBSTITUTE = {
    "uint1": "torch.bool",
    "complex32": "torch.complex64",
    "float4_e2m1fn_x2": "torch.float8_e4m3fn",
}


def _by_name(name: str) -> dtype:
    """What pickles of old call."""
    return ALIASES[name]


def _new(
    name: str,
    abbr: str | None,
    scalar_name: str,
    storage: Any,
    kind: str = "",
    signed: builtins.bool | None = True,
    size: builtins.int = 1,
) -> dtype:
    """Make a type; kind is "f" (floating), "c" (complex) or "" (the rest)."""
    new = object.__new__(dtype)
    _set(new, "name", name)
    _set(new, "abbr", abbr or name)
    _set(new, "scalar_name", scalar_name)
    _set(new, "itemsize", size)
    if storage is not None:
        _set(new, "np", np.dtype(storage))
        _set(new, "itemsize", new.np.itemsize)
        FROM_NP[new.np] = new
    _set(new, "is_floating_point", kind == "f")
    _set(new, "is_complex", kind == "c")
    if signed is not None:
        _set(new, "is_signed", signed)
    _set(new, "_real", new)
    _set(new, "_complex", None)
    ALIASES[name] = new
    return new


bool = _new("bool", "b8", "Bool", np.bool_, signed=False)
uint8 = _new("uint8", "u8", "Byte", np.uint8, signed=False)
uint16 = _new("uint16", "u16", "UInt16", np.uint16, signed=False)
uint32 = _new("uint32", "u32", "UInt32", np.uint32, signed=False)
uint64 = _new("uint64", "u64", "UInt64", np.uint64, signed=False)
int8 = _new("int8", "i8", "Char", np.int8)
int16 = _new("int16", "i16", "Short", np.int16)
int32 = _new("int32", "i32", "Int", np.int32)
int64 = _new("int64", "i64", "Long", np.int64)

float16 = _new("float16", "f16", "Half", np.float16, "f")
bfloat16 = _new("bfloat16", "bf16", "BFloat16", ml_dtypes.bfloat16, "f")
float32 = _new("float32", "f32", "Float", np.float32, "f")
float64 = _new("float64", "f64", "Double", np.float64, "f")
complex32 = _new("complex32", "c32", "ComplexHalf", None, "c", size=4)
complex64 = _new("complex64", "c64", "ComplexFloat", np.complex64, "c")
complex128 = _new("complex128", "c128", "ComplexDouble", np.complex128, "c")

float8_e4m3fn = _new("float8_e4m3fn", "f8e4m3fn", "Float8_e4m3fn", ml_dtypes.float8_e4m3fn, "f")
float8_e4m3fnuz = _new("float8_e4m3fnuz", "f8e4m3fnuz", "Float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, "f")
float8_e5m2 = _new("float8_e5m2", "f8e5m2", "Float8_e5m2", ml_dtypes.float8_e5m2, "f")
float8_e5m2fnuz = _new("float8_e5m2fnuz", "f8e5m2fnuz", "Float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, "f")
float8_e8m0fnu = _new("float8_e8m0fnu", "f8e8m0fnu", "Float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, "f", signed=False)
float4_e2m1fn_x2 = _new("float4_e2m1fn_x2", "f4e2m1fnx2", "Float4_e2m1fn_x2", None, "f")

# jax names 1-bit integers too, but XLA does not compile them.
uint1 = _new("uint1", None, "UInt1", None, signed=False)
uint2 = _new("uint2", None, "UInt2", ml_dtypes.uint2, signed=False)
uint3 = _new("uint3", None, "UInt3", None, signed=False)
uint4 = _new("uint4", None, "UInt4", ml_dtypes.uint4, signed=False)
uint5 = _new("uint5", None, "UInt5", None, signed=False)
uint6 = _new("uint6", None, "UInt6", None, signed=False)
uint7 = _new("uint7", None, "UInt7", None, signed=False)
int1 = _new("int1", None, "Int1", None)
int2 = _new("int2", None, "Int2", ml_dtypes.int2)
int3 = _new("int3", None, "Int3", None)
int4 = _new("int4", None, "Int4", ml_dtypes.int4)
int5 = _new("int5", None, "Int5", None)
int6 = _new("int6", None, "Int6", None)
int7 = _new("int7", None, "Int7", None)

qint8 = _new("qint8", None, "QInt8", None, signed=None)
qint32 = _new("qint32", None, "QInt32", None, signed=None, size=4)
quint8 = _new("quint8", None, "QUInt8", None, signed=None)
quint4x2 = _new("quint4x2", None, "QUInt4x2", None, signed=None)
quint2x4 = _new("quint2x4", None, "QUInt2x4", None, signed=None)
bits8 = _new("bits8", "b8x1", "Bits8", None, signed=None)
bits16 = _new("bits16", "b16x1", "Bits16", None, signed=None, size=2)
bits1x8 = _new("bits1x8", "b1x8", "Bits1x8", None, signed=None)
bits2x4 = _new("bits2x4", "b2x4", "Bits2x4", None, signed=None)
bits4x2 = _new("bits4x2", "b4x2", "Bits4x2", None, signed=None)

QUANTIZED = (quint8, qint8, qint32)
"""The quantized types that tensors have here; such values know their type, there is no numpy type for it."""

FROM_NP.update({kind: kind for kind in QUANTIZED})  # type: ignore[misc]

for _part, _whole in ((float16, complex32), (float32, complex64), (float64, complex128)):
    _set(_whole, "_real", _part)
    _set(_part, "_complex", _whole)
    _set(_whole, "_complex", _whole)
_set(bfloat16, "_complex", complex64)

STORED = {name: ALIASES[name] for name in NARROW}
"""The types of 64 bits as they lie in files, whatever they are read as."""

if not X64:  # one object for both names: every table and test of a type holds for what stands for it
    uint64, int64, float64, complex128 = uint32, int32, float32, complex64
    for _wide, _narrow in NARROW.items():
        FROM_NP[np.dtype(_wide)] = ALIASES[_wide] = ALIASES[_narrow]

half, float, double = float16, float32, float64
chalf, cfloat, cdouble = complex32, complex64, complex128
short, int, long = int16, int32, int64
bit = uint1
ALIASES.update(
    half=half, float=float, double=double, chalf=chalf, cfloat=cfloat, cdouble=cdouble,
    short=short, int=int, long=long, bit=bit,
)  # fmt: skip

WIDE_NAMES = () if X64 else ("uint64", "int64", "long", "float64", "double", "complex128", "cdouble")
"""The names whose use is told of, since they stand for other types in 32-bit mode."""

TENSOR_TYPES: dict[str, dtype] = {
    f"{t.scalar_name}Tensor": t for t in (bfloat16, bool, uint8, int8, float64, float32, float16, int32, int64, int16)
} | {"DoubleTensor": float64, "LongTensor": int64}
"""The legacy tensor types ("FloatTensor") and the dtype of each."""

PYTHON_TYPES = {
    builtins.float: float64,
    builtins.int: int64,
    builtins.bool: bool,
    builtins.complex: complex128,
}


def from_np(np_dtype: Any) -> dtype:
    """The type of a numpy array's elements.

    The types of ml_dtypes are accepted too. TypeError for a type that no tensor has
    (strings, objects, dates, records, extended precision), ValueError for a foreign byte order.
    """
    found = FROM_NP.get(np_dtype)
    if found is not None:
        return found
    np_dtype = np.dtype(np_dtype)
    if not np_dtype.isnative and np_dtype.newbyteorder("=") in FROM_NP:
        raise ValueError(
            f"given numpy array has byte order different from the native byte order ({np_dtype.str}); "
            "convert it with array.astype(array.dtype.newbyteorder('='))"
        )
    found = FROM_NP.get(np_dtype)
    if found is None:
        kind = f"{np_dtype.type.__module__}.{np_dtype.type.__name__}"
        supported = ", ".join(t.name for t in FROM_NP.values() if t not in QUANTIZED)
        raise TypeError(f"can't convert np.ndarray of type {kind}. The only supported types are: {supported}")
    return found


def as_dtype(value: Any, function: str = "", argument: str = "dtype") -> dtype:
    """The type that an argument stands for: a dtype, or one of Python's float, int, bool and complex.

    Anything else is a TypeError that names the function and the argument.
    """
    if value.__class__ is dtype:
        return value
    if value.__class__ is type and value in PYTHON_TYPES:
        return PYTHON_TYPES[value]
    prefix = f"{function}(): " if function else ""
    raise TypeError(f"{prefix}argument '{argument}' must be torch.dtype, not {type(value).__name__}")


_default = float32


def get_default_dtype() -> dtype:
    """The floating type of tensors made from Python floats.

    >>> import torchlike as torch
    >>> torch.get_default_dtype()
    torch.float32
    """
    return _default


def set_default_dtype(d: dtype) -> None:
    """Set the floating type of tensors made from Python floats, for the whole process.

    It can be float16, bfloat16, float32 or float64; anything else is a TypeError.

    >>> import torchlike as torch
    >>> torch.set_default_dtype(torch.float64)
    >>> torch.tensor(1.5).dtype
    torch.float64
    >>> torch.set_default_dtype(torch.float32)
    """
    global _default
    if d.__class__ is not dtype or not d.is_floating_point:
        raise TypeError(f"invalid dtype object: only floating-point types are supported as the default type, got {d!r}")
    if d not in (float16, bfloat16, float32, float64):
        raise TypeError(f"{d!r} cannot be the default type; use float16, bfloat16, float32 or float64")
    _default = d


class _Info:
    """What finfo and iinfo share: read-only values, equal when their types are."""

    __slots__ = ("bits", "min", "max", "dtype")
    dtype: str
    _shown: tuple[str, ...]
    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, attribute: str, value: Any) -> NoReturn:
        raise AttributeError(f"'torch.{type(self).__name__}' object is read-only, cannot set '{attribute}'")

    def __eq__(self, other: object) -> builtins.bool:
        return type(other) is type(self) and self.dtype == other.dtype

    def __reduce__(self):
        return type(self), (ALIASES[self.dtype],)

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name):g}" for name in self._shown)
        return f"{type(self).__name__}({', '.join(shown)}, dtype={self.dtype})"


_MISSING: Any = object()


class finfo(_Info):
    """The numerical limits of a floating type, or of the parts of a complex one.

    Without a type, those of the default dtype. Attributes: bits, eps, max, min, tiny,
    smallest_normal, resolution, dtype (the name of the type). TypeError for other types.

    >>> import torchlike as torch
    >>> torch.finfo(torch.float16).max
    65504.0
    """

    __slots__ = ("eps", "tiny", "smallest_normal", "resolution")
    _shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __init__(self, type: dtype = _MISSING):
        of = _default if type is _MISSING else as_dtype(type, "finfo", "type")
        real = of.to_real()
        if not real.is_floating_point or real is float4_e2m1fn_x2:
            raise TypeError(f"torch.finfo() requires a floating point type, got {of!r}; see torch.iinfo")
        for attribute, value in _float_limits(real).items():
            _set(self, attribute, value)


@cache
def _float_limits(real: dtype) -> dict[str, Any]:
    info = ml_dtypes.finfo(real.np)
    # PyTorch reports half the true spacing at 1 for this type.
    eps = 0.125 if real is float8_e5m2fnuz else info.eps
    tiny = info.smallest_normal
    # Decimal digits that any value of the type keeps; the resolution is one unit of the last.
    digits = math.floor(info.nmant * math.log10(2))
    limits = {"eps": eps, "tiny": tiny, "smallest_normal": tiny, "min": info.min, "max": info.max}
    limits = {name: builtins.float(value) for name, value in limits.items()}
    return limits | {"bits": info.bits, "dtype": real.name, "resolution": builtins.float(f"1e-{digits}")}


class iinfo(_Info):
    """The limits of an integer type: bits, min, max, dtype (the name of the type).

    TypeError for a type that is not an integer of 8 to 64 bits.

    >>> import torchlike as torch
    >>> torch.iinfo(torch.int32).max
    2147483647
    """

    __slots__ = ()
    _shown = ("min", "max")

    def __init__(self, type: dtype):
        of = as_dtype(type, "iinfo", "type")
        if of.scalar_name.startswith("Q"):
            raise NotImplementedError(f"torch.iinfo() is not implemented for the quantized type {of!r}")
        if of not in INTEGERS:
            raise TypeError(f"torch.iinfo() requires an integer type, got {of!r}; see torch.finfo")
        info = np.iinfo(of.np)
        _set(self, "bits", info.bits)
        _set(self, "min", builtins.int(info.min))
        _set(self, "max", builtins.int(info.max))
        _set(self, "dtype", of.name)


INTEGERS = frozenset((uint8, uint16, uint32, uint64, int8, int16, int32, int64))
