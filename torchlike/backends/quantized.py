"""Engines of quantized operators, of which torchlike has none."""

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

engine = "none"
supported_engines: list[str] = []
