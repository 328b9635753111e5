"""XNNPACK, which torchlike does not call."""

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

enabled = False
