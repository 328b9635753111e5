"""Rare names of ``torch._C`` that programs ask."""

from itertools import product
from typing import Any

import torchlike.accelerator as accelerator
import torchlike.backends.cudnn as cudnn
from torchlike._aten.python_dispatch import has_dispatch
from torchlike._base.device import device
from torchlike._base.dims import broadcast_shapes
from torchlike._base.state import state
from torchlike._base.volatile import volatile
from torchlike._classes import ScriptObject as ScriptObject
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor, strided
from torchlike.interop.refusing import refused_class
from torchlike.utils._pytree import tree_leaves

_TensorMeta = type(Tensor)
# The parts of TorchScript's programs, which nothing here is an instance of.
Block = refused_class("torch._C", "Block", "graphs have none here; torch.fx and torch.export have theirs")


@volatile
def _are_functorch_transforms_active() -> bool:
    """Whether this thread is in a function that torch.func transforms.

    >>> import torchlike as torch
    >>> torch._C._are_functorch_transforms_active()
    False
    """
    return bool(getattr(state, "levels", ()))


def _is_alias_of(input: Any, other: Any, /) -> bool:
    """Whether two tensors have one memory; False of anything else.

    >>> import torchlike as torch
    >>> x = torch.zeros(3)
    >>> torch._C._is_alias_of(x, x[1:]), torch._C._is_alias_of(x, x.clone())
    (True, False)
    """
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        return False
    if input.layout is not other.layout or input.layout is not strided:
        return False
    return input._storage is other._storage


def _overlaps(input: Any, other: Any, /) -> bool:
    """Whether a tensor of one tree of containers and one of the other have one memory.

    >>> import torchlike as torch
    >>> x = torch.zeros(3)
    >>> torch._C._overlaps([x, 1], {"a": x[:1]}), torch._C._overlaps(x, [])
    (True, False)
    """
    return any([_is_alias_of(a, b) for a, b in product(tree_leaves(input), tree_leaves(other))])


class _DisableFuncTorch:
    """A context in which the transforms of torch.func see no call; where none runs, nothing changes.

    NotImplementedError in a function that one transforms.
    """

    def __enter__(self) -> None:
        if _are_functorch_transforms_active():
            raise NotImplementedError("_DisableFuncTorch: calls of a transformed function cannot pass its levels by")

    def __exit__(self, *exc: Any) -> None:
        pass


class _PythonDispatcher:
    """A context that says whether kernels are looked up in Python, as all are here: it changes nothing."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: Any) -> None:
        pass


class _EnablePythonDispatcher(_PythonDispatcher):
    """That of PyTorch which turns the look-up on."""


class _DisablePythonDispatcher(_PythonDispatcher):
    """That of PyTorch which turns the look-up off."""


def _dispatch_isTensorSubclassLike(t: Tensor, /) -> bool:
    """Whether calls on ``t`` may do other than compute numbers: a ``__torch_dispatch__`` or a transform sees them.

    So it is of sparse and of meta tensors.

    >>> import torchlike as torch
    >>> torch._C._dispatch_isTensorSubclassLike(torch.ones(2))
    False
    """
    if not isinstance(t, Tensor):
        raise TypeError(f"_dispatch_isTensorSubclassLike(): expected a Tensor, but got {type(t).__name__}")
    seen = bool(state.dispatch_modes or state.levels) or has_dispatch(type(t))
    return seen or t.is_meta or t.layout is not strided


def _infer_size(a: Size, b: Size, /) -> Size:
    """The shape that two shapes broadcast to; RuntimeError where there is none.

    >>> import torchlike as torch
    >>> torch._C._infer_size(torch.Size([2, 1]), torch.Size([3]))
    torch.Size([2, 3])
    """
    for position, size in enumerate((a, b), 1):
        if not isinstance(size, Size):
            raise RuntimeError(f"expected a torch.Size as argument {position}")
    return Size(broadcast_shapes(a, b))


def _get_accelerator(check: bool = False, /) -> device:
    """The device type of the accelerator; the CPU without one, or RuntimeError with ``check``."""
    found = accelerator.current_accelerator()
    if found is None and check:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return device("cpu") if found is None else found


def _get_cudnn_enabled() -> bool:
    """``torch.backends.cudnn.enabled``."""
    return cudnn.enabled


def _get_privateuse1_backend_name() -> str:
    """The name of the device that extensions bring: here none does, and its name stays."""
    return "privateuseone"


class _Fallback:
    """Whether programs have asked to hear of operators that vmap computes one example after the other."""

    warns = False


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    """Set whether to warn of operators that vmap has no rule for: every operator is mapped, so there are none."""
    if not isinstance(enabled, bool):
        raise RuntimeError(f"enabled must be a bool, but got {type(enabled).__name__}")
    _Fallback.warns = enabled


@volatile
def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    """What :func:`_debug_only_display_vmap_fallback_warnings` has set.

    >>> import torchlike as torch
    >>> torch._C._debug_only_are_vmap_fallback_warnings_enabled()
    False
    """
    return _Fallback.warns


def _cuda_clearCublasWorkspaces() -> None:  # noqa: N802
    """Nothing to do: XLA manages device memory."""
