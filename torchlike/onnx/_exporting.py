"""What programs ask of torch.onnx: ONNX files are not written."""

import enum
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = [
    "OnnxExporterError", "OperatorExportTypes", "TensorProtoDataType", "TrainingMode", "export", "is_in_onnx_export",
    "register_custom_op_symbolic", "unregister_custom_op_symbolic",
]  # fmt: skip


class OnnxExporterError(RuntimeError):
    """What PyTorch's exporter raises."""


_KINDS = "UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64"
TensorProtoDataType = enum.IntEnum(
    "TensorProtoDataType",
    f"{_KINDS} COMPLEX128 BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ",
    start=0,
    module="torch._C._onnx",
)
OperatorExportTypes = enum.IntEnum(
    "OperatorExportTypes", "ONNX ONNX_ATEN ONNX_ATEN_FALLBACK ONNX_FALLTHROUGH", start=0, module="torch._C._onnx"
)
TrainingMode = enum.IntEnum("TrainingMode", "EVAL PRESERVE TRAINING", start=0, module="torch._C._onnx")


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable, opset_version: int) -> None:
    """Accepted: what ``symbolic_fn`` says is for files that :func:`export` does not write."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Accepted, as :func:`register_custom_op_symbolic` is."""


def is_in_onnx_export() -> bool:
    """Whether a model is being written as ONNX: never."""
    return False


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: ``torch.export`` writes StableHLO instead."""
    raise NotImplementedError(
        "torch.onnx.export: ONNX files are not written; torch.export.save(torch.export.export(...), file) writes a "
        "program in StableHLO"
    )
