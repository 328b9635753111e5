"""Control flow over functions of tensors, where functorch has it."""

from torchlike._transforms.control.branches import cond as cond
from torchlike._transforms.control.loops import map as map
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
