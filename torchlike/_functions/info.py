"""Questions about tensors, types and the library."""

import os

import torchlike._base.device as devices
from torchlike._base import promotion
from torchlike._base.deterministic import determinism
from torchlike._base.dtypes import int64
from torchlike._core.conversion.factories import tensor
from torchlike._core.overrides import torch_function as core
from torchlike._core.tensor.arguments import as_number
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
    return promotion.number_dtype(as_number("result_type", "other", x)), 2


_PAIRS = (("tensor", "other"), ("scalar", "tensor"), ("scalar1", "scalar2"))


@function()
def result_type(tensor1=None, tensor2=None, **named):
    """The dtype that arithmetic on two operands (tensors or numbers) gives.

    By name they are ``tensor`` and ``other``, ``scalar`` and ``tensor``, or ``scalar1`` and ``scalar2``.

    >>> import torchlike as torch
    >>> torch.result_type(torch.tensor([1, 2]), 1.0)
    torch.float32
    """
    if named:
        pair = next((p for p in _PAIRS if set(p) == set(named)), None)
        if tensor1 is None and pair is not None:
            tensor1, tensor2 = (named[name] for name in pair)
        elif tensor2 is None and len(named) == 1 and not {second for _, second in _PAIRS}.isdisjoint(named):
            (tensor2,) = named.values()
        else:
            raise TypeError(f"result_type(): received an invalid combination of arguments: {', '.join(named)}")
    if tensor1 is None or tensor2 is None:
        raise TypeError("result_type(): expected two operands, tensors or numbers")
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
Tensor._fix_weakref = lambda self: None  # here what a weak reference gives is the tensor itself
Tensor.__reversed__ = lambda self: self.flip(0) if self.ndim else self  # type: ignore[return-value]


@function()
def use_deterministic_algorithms(mode, *, warn_only=False):
    """Whether each kernel is to be the same code from its first call on, and what memory holds that was not written to.

    XLA's CPU kernels are deterministic, but one that is called often is compiled anew, which may change last bits: a
    run that goes on from a checkpoint in a new process would differ there. So they are compiled well at once, and first
    steps take longer. On a GPU set ``--xla_gpu_deterministic_ops`` in XLA_FLAGS.
    """
    name = "_set_deterministic_algorithms(): argument"
    if not isinstance(mode, bool):
        raise TypeError(f"{name} 'mode' (position 1) must be bool, not {type(mode).__name__}")
    if not isinstance(warn_only, bool):
        raise TypeError(f"{name} 'warn_only' must be bool, not {type(warn_only).__name__}")
    determinism.enabled, determinism.warn_only = mode, warn_only


@function()
def are_deterministic_algorithms_enabled():
    """What ``use_deterministic_algorithms`` was last given."""
    return determinism.enabled


_DEBUG_MODES = ("default", "warn", "error")


@function()
def is_deterministic_algorithms_warn_only_enabled():
    """The ``warn_only`` that ``use_deterministic_algorithms`` was last given."""
    return determinism.warn_only


@function()
def get_deterministic_debug_mode():
    """0, 1 ("warn") or 2 ("error"): what the two settings of ``use_deterministic_algorithms`` amount to."""
    return 0 if not determinism.enabled else 1 if determinism.warn_only else 2


@function()
def set_deterministic_debug_mode(debug_mode):
    """``use_deterministic_algorithms`` by one number or word: 0 "default", 1 "warn", 2 "error".

    >>> import torchlike as torch
    >>> torch.set_deterministic_debug_mode("warn")
    >>> torch.get_deterministic_debug_mode()
    1
    >>> torch.set_deterministic_debug_mode(0)
    """
    if not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str) and debug_mode not in _DEBUG_MODES:
        said = "expected one of `default`, `warn`, `error`"
        raise RuntimeError(f"invalid value of debug_mode, {said}, but got {debug_mode}")
    level = _DEBUG_MODES.index(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if level not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {level}")
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


@function()
def get_num_interop_threads():
    """As ``get_num_threads``: XLA has one pool."""
    return os.cpu_count() or 1


@function()
def set_num_interop_threads(n):
    """Accepted and ignored: XLA decides how many threads to use. RuntimeError unless ``n`` is positive."""
    if isinstance(n, bool) or not isinstance(n, int) or n <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


@function()
def compiled_with_cxx11_abi():
    """True: the only way in which jaxlib is built."""
    return True


@function()
def _shape_as_tensor(self):
    """The lengths of the dimensions as a tensor of int64."""
    return tensor(self.shape, dtype=int64)


_threads = [os.cpu_count() or 1]


@function()
def get_num_threads():
    """What :func:`set_num_threads` was last given: 1 in a worker of a DataLoader, at first the number of CPU cores.

    XLA decides by itself how many threads to use.
    """
    return _threads[-1]


@function()
def set_num_threads(n):
    """Remembered for :func:`get_num_threads`, otherwise ignored: XLA decides how many threads to use.

    RuntimeError unless ``n`` is a positive int.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n <= 0:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {n!r}")
    _threads[-1] = n
