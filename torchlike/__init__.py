"""torchlike: PyTorch's API and semantics, computed by JAX.

>>> import torchlike as torch
>>> x = torch.ones(3, requires_grad=True)
>>> (x * 2).sum().backward()
>>> x.grad
tensor([2., 2., 2.])
"""

from torchlike import _setup as _setup  # settings of jax; first
from torchlike._api import *  # noqa: F403
