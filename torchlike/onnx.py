"""torch.onnx: ONNX files are not written; programs that ask whether one is being written get an answer."""

from typing import Any, NoReturn

from torchlike.interop.alias import missing_names

__all__ = ["export", "is_in_onnx_export"]

__getattr__ = missing_names(__name__)


def is_in_onnx_export() -> bool:
    """Whether a model is being written as ONNX: never."""
    return False


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: ``torch.export`` writes StableHLO instead."""
    raise NotImplementedError(
        "torch.onnx.export: ONNX files are not written; torch.export.save(torch.export.export(...), file) writes a "
        "program in StableHLO"
    )
