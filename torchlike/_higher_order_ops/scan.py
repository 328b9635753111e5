"""The module from which programs import ``scan``."""

from torchlike._transforms.control.loops import scan as scan
