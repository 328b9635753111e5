"""torch.onnx.symbolic_opset11: a module to import; ONNX is not written, and its functions are not here."""

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
