"""torch.utils: data loading and helpers."""

from torchlike.interop.alias import missing_names
from torchlike.utils import data as data

__getattr__ = missing_names(__name__)
