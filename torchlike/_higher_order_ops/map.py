"""The module from which programs import ``map``."""

from torchlike._transforms.control.loops import map as map
