"""torch.onnx: ONNX files are not written; programs that ask whether one is being written get an answer."""

from torchlike.interop.alias import missing_names
from torchlike.interop.refusing import refused_class
from torchlike.onnx import symbolic_helper as symbolic_helper
from torchlike.onnx import symbolic_opset9 as symbolic_opset9
from torchlike.onnx import symbolic_opset11 as symbolic_opset11
from torchlike.onnx._exporting import OnnxExporterError as OnnxExporterError
from torchlike.onnx._exporting import OperatorExportTypes as OperatorExportTypes
from torchlike.onnx._exporting import TensorProtoDataType as TensorProtoDataType
from torchlike.onnx._exporting import TrainingMode as TrainingMode
from torchlike.onnx._exporting import export as export
from torchlike.onnx._exporting import is_in_onnx_export as is_in_onnx_export
from torchlike.onnx._exporting import register_custom_op_symbolic as register_custom_op_symbolic
from torchlike.onnx._exporting import unregister_custom_op_symbolic as unregister_custom_op_symbolic
from torchlike.version import STANDS_FOR

ONNXProgram = refused_class("torch.onnx", "ONNXProgram", "no ONNX files are written; torchlike.export writes StableHLO")
producer_name, producer_version = "pytorch", STANDS_FOR.partition("+")[0]
__getattr__ = missing_names(__name__)

__all__ = [
    "ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TensorProtoDataType", "TrainingMode", "export",
    "is_in_onnx_export", "producer_name", "producer_version", "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]  # fmt: skip
