"""The module from which programs import ``cond``."""

from torchlike._transforms.control.branches import cond as cond
