"""What the storage of a quantized tensor holds: integers, and what they stand for."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base.qschemes import QScheme, per_tensor_affine
from torchlike._base.state import state
from torchlike._core.tensor.tensor import Tensor, fresh, strided
from torchlike._executor.sparse import LAYER, NotStrided, SparseShape, SparseValue

KINDS = {dtypes.quint8: dtypes.uint8, dtypes.qint8: dtypes.int8, dtypes.qint32: dtypes.int32}
OF_CODES = {codes: kind for kind, codes in KINDS.items()}


class Affine(NamedTuple):
    """One scale and zero point for all elements: ``(integer - zero_point) * scale``."""

    scale: float
    zero_point: int
    scheme: QScheme = per_tensor_affine
    axis: int | None = None


class PerChannel(NamedTuple):
    """A scale and a zero point for each place along a dimension."""

    scale: Tensor
    zero_point: Tensor
    scheme: QScheme
    axis: int


Quantizer = Affine | PerChannel


def refuse(what: str) -> NoReturn:
    """NotImplementedError: a quantized tensor has no ``what``."""
    raise NotStrided(
        f"a quantized tensor has no {what}, which this call needs: it is not supported for quantized tensors; compute "
        "with .dequantize(), and quantize the result"
    )


class QuantizedShape(SparseShape):
    """The shape of a quantized value, from which no strides can be counted: these are those of its integers."""

    __slots__ = ()

    def __reversed__(self) -> Any:
        refuse("strides of its own")


class Quantized(SparseValue):
    """``codes``, a tensor of integers, and the ``quantizer`` that says what they stand for."""

    __slots__ = ("codes", "dtype", "quantizer", "shape")
    layout = strided
    codes: Tensor
    quantizer: Quantizer

    def __new__(cls, *args: Any) -> Any:
        LAYER.used = True
        if state.capture is not None:
            state.capture.refuse("computes with quantized tensors")
        return super().__new__(cls)

    def __init__(self, codes: Tensor, quantizer: Quantizer) -> None:
        self.codes, self.quantizer = codes, quantizer
        self.dtype, self.shape = OF_CODES[codes.dtype], QuantizedShape(codes.shape)

    ndim = property(lambda self: len(self.shape))
    sharding = property(lambda self: self.codes._storage.form.sharding)

    def devices(self) -> Any:
        """The devices of the integers."""
        return self.codes._storage.form.devices()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(repr(name))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        refuse("numbers in a row")


def quantized_of(t: Any) -> Quantized | None:
    """The value of a quantized tensor, None for anything else."""
    if not isinstance(t, Tensor):
        return None
    found = t._storage.value
    if not isinstance(found, Quantized):
        return None
    if state.capture is not None:
        state.capture.refuse("reads a quantized tensor")
    return found


def tensor_of(codes: Tensor, quantizer: Quantizer) -> Tensor:
    """A new quantized tensor."""
    return fresh(Quantized(codes, quantizer))


def unsupported(name: str) -> NotImplementedError:
    """The error of an operator that has no rule for quantized tensors."""
    return NotImplementedError(
        f"{name}() is not supported for quantized tensors; compute with .dequantize(), and quantize the result"
    )


def demand_kind(function: str, kind: Any) -> dtypes.dtype:
    """The dtype of the integers of a quantized dtype."""
    if kind in KINDS:
        return KINDS[kind]
    if kind in (dtypes.quint4x2, dtypes.quint2x4):
        raise NotImplementedError(f"{function}(): {kind} is not supported by torchlike; use torch.quint8")
    raise RuntimeError(
        f"{function}(): ScalarType {kind.scalar_name} is not supported: expected torch.quint8, torch.qint8 or "
        "torch.qint32"
    )


def range_of(kind: dtypes.dtype) -> tuple[int, int]:
    """The least and the greatest integer of a quantized dtype."""
    info = np.iinfo(KINDS[kind].np)
    return int(info.min), int(info.max)


def parts_of(v: Quantized) -> tuple[Any, ...]:
    """What a pickle keeps of the quantizer."""
    q = v.quantizer
    return (q.scheme, *q[:2]) if isinstance(q, Affine) else (q.scheme, *q[:2], q.axis)
