"""The module from which programs import ``while_loop``."""

from torchlike._transforms.control.branches import while_loop as while_loop
