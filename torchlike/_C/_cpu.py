"""``torch._C._cpu``."""

from torchlike.cpu._processor import _init_amx as _init_amx
