"""``vmap`` where functorch has it."""

from torchlike.func import vmap as vmap
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
