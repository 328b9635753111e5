"""torch.ao.quantization.fake_quantize: importable, and refused when used."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike has no quantized types; keep float32 or bfloat16")
