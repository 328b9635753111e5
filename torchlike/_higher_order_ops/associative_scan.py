"""The module from which programs import ``associative_scan``."""

from torchlike._transforms.control.loops import associative_scan as associative_scan
