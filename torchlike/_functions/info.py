"""Questions about tensors, types and the library."""

import os

import torchlike._base.device as devices
from torchlike._base import promotion
from torchlike._core.overrides import torch_function as core
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import function


@function()
def is_tensor(obj):
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, Tensor)


def _of_tensor(name):
    def ask(input):
        return getattr(input, name)()

    ask.__name__ = name
    ask.__doc__ = f"``input.{name}()``."
    return ask


for _name in ("is_floating_point", "is_complex", "is_signed", "numel"):
    function(_name)(_of_tensor(_name))


@function()
def get_device(input):
    """The number of the device that the tensor is on; -1 for the CPU."""
    return input.get_device()


@function("detach_")
def detach_(input):
    """:meth:`Tensor.detach_` as a function."""
    return input.detach_()


@function()
def is_nonzero(input):
    """Whether a tensor with one element is not zero; RuntimeError for other sizes."""
    return bool(input)


Tensor.is_nonzero = is_nonzero


@function("_assert")
def _assert(condition, message):
    """Raise AssertionError with ``message`` unless ``condition``; what overrides functions is asked first."""
    if condition.__class__ is not Tensor and core.asked((condition,)):
        return core.hand_over(_assert, (condition,), (condition, message), {}, "torch._assert")
    if not condition:
        raise AssertionError(message)
    return None


def _operand(x):
    if isinstance(x, Tensor):
        return x.dtype, 0 if x.ndim else 1
    return promotion.number_dtype(x), 2


@function()
def result_type(tensor1, tensor2):
    """The dtype that arithmetic on two operands (tensors or numbers) gives.

    >>> import torchlike as torch
    >>> torch.result_type(torch.tensor([1, 2]), 1.0)
    torch.float32
    """
    return promotion.result_type((_operand(tensor1), _operand(tensor2)))


@function()
def get_default_device():
    """The device of new tensors."""
    return devices.default_device()


@function()
def detach(input):
    """``input.detach()``."""
    return input.detach()


Tensor.is_mps = Tensor.is_xpu = property(lambda self: False)


def _contains(self, element):
    """``element in tensor``: whether any element equals it."""
    if not isinstance(element, Tensor | int | float | complex):
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")
    return bool((self == element).any())


Tensor.__contains__ = _contains
Tensor.__reversed__ = lambda self: self.flip(0) if self.ndim else self


@function()
def use_deterministic_algorithms(mode, *, warn_only=False):
    """Accepted: XLA's CPU kernels are deterministic; on a GPU set ``--xla_gpu_deterministic_ops`` in XLA_FLAGS."""
    _deterministic[:] = [bool(mode), bool(warn_only)]


@function()
def are_deterministic_algorithms_enabled():
    """What ``use_deterministic_algorithms`` was last given."""
    return _deterministic[0]


_deterministic = [False, False]


@function()
def get_num_threads():
    """The number of CPU cores; XLA decides by itself how many to use."""
    return os.cpu_count() or 1


@function()
def set_num_threads(n):
    """Accepted and ignored: XLA decides how many threads to use."""
    if isinstance(n, bool) or not isinstance(n, int) or n <= 0:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {n!r}")
