"""Indexing under its public names."""

from torchlike._core import indexing
from torchlike._core.tensor import Tensor

Tensor.__getitem__ = indexing.getitem
Tensor.__setitem__ = indexing.setitem
Tensor.__delitem__ = indexing.delitem
