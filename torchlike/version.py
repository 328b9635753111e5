"""Versions, under torch's names.

``__version__`` is torchlike's own; where torchlike stands in for torch it is :data:`STANDS_FOR`, as programs that ask
for PyTorch's version expect.
"""

TORCHLIKE = "0.1.0"
STANDS_FOR = f"2.13.0+torchlike{TORCHLIKE}"
"""PyTorch's version whose behaviour is reproduced, and who reproduces it."""

__version__ = TORCHLIKE
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = "unknown"
debug = False
