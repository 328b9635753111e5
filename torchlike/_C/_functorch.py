"""torch._C._functorch: questions to tensors inside of function transforms."""

import threading

from torchlike._base.state import state
from torchlike._base.volatile import volatile
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.levels.inspection import batch_of, is_functional, level_of, tracks, unwrapped
from torchlike._transforms.levels.jvp import JvpLevel
from torchlike._transforms.levels.levels import current_depth
from torchlike._transforms.levels.nesting import _add_batch_dim as _add_batch_dim
from torchlike._transforms.levels.nesting import _assert_wrapped_functional as _assert_wrapped_functional
from torchlike._transforms.levels.nesting import _func_decrement_nesting as _func_decrement_nesting
from torchlike._transforms.levels.nesting import _func_increment_nesting as _func_increment_nesting
from torchlike._transforms.levels.nesting import _grad_decrement_nesting as _grad_decrement_nesting
from torchlike._transforms.levels.nesting import _grad_increment_nesting as _grad_increment_nesting
from torchlike._transforms.levels.nesting import _jvp_decrement_nesting as _jvp_decrement_nesting
from torchlike._transforms.levels.nesting import _jvp_increment_nesting as _jvp_increment_nesting
from torchlike._transforms.levels.nesting import (
    _propagate_functional_input_mutation as _propagate_functional_input_mutation,
)
from torchlike._transforms.levels.nesting import _remove_batch_dim as _remove_batch_dim
from torchlike._transforms.levels.nesting import _unwrap_for_grad as _unwrap_for_grad
from torchlike._transforms.levels.nesting import _unwrap_functional_tensor as _unwrap_functional_tensor
from torchlike._transforms.levels.nesting import _vmap_decrement_nesting as _vmap_decrement_nesting
from torchlike._transforms.levels.nesting import _vmap_increment_nesting as _vmap_increment_nesting
from torchlike._transforms.levels.nesting import _wrap_for_grad as _wrap_for_grad
from torchlike._transforms.levels.nesting import _wrap_functional_tensor as _wrap_functional_tensor
from torchlike._transforms.levels.nesting import reshape_dim_into as reshape_dim_into
from torchlike._transforms.levels.nesting import reshape_dim_outof as reshape_dim_outof
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def is_batchedtensor(tensor: Tensor) -> bool:
    """Whether the tensor is one example inside of vmap, at its innermost level."""
    return batch_of(tensor) is not None


def is_legacy_batchedtensor(tensor: Tensor) -> bool:
    """Whether the tensor is of the vmap that PyTorch had before functorch: never here."""
    return False


def is_gradtrackingtensor(tensor: Tensor) -> bool:
    """Whether the tensor is inside of grad, vjp or jvp, at its innermost level."""
    return tracks(tensor)


def is_functionaltensor(tensor: Tensor) -> bool:
    """Whether the tensor is inside of functionalize, at its innermost level."""
    return is_functional(tensor)


def is_functorch_wrapped_tensor(tensor: Tensor) -> bool:
    """Whether the tensor is inside of a transform."""
    return tracks(tensor) or is_functional(tensor) or batch_of(tensor) is not None


def is_dead_tensor_wrapper(tensor: Tensor) -> bool:
    """Whether the tensor has left the transform that it was made in."""
    return level_of(tensor) == -2


def get_unwrapped(tensor: Tensor) -> Tensor:
    """What the tensor stands for one level below; RuntimeError outside of transforms."""
    found = unwrapped(tensor)
    if found is None:
        raise RuntimeError("No wrappers present! The tensor is not inside of a function transform")
    return found


def unwrap_if_dead(tensor: Tensor) -> Tensor:
    """The tensor, or what it stood for in a transform that has ended."""
    return get_unwrapped(tensor) if is_dead_tensor_wrapper(tensor) else tensor


def maybe_get_level(tensor: Tensor) -> int:
    """The depth of the tensor's innermost level: -1 outside of transforms, -2 if that has ended."""
    return level_of(tensor)


def dlevel(tensor: Tensor) -> int:
    """The depth of the level of grad or jvp that the tensor is of: 0 for none, -1 if that has ended."""
    if tracks(tensor):
        return max(level_of(tensor), -1)
    level = state.levels[-1] if state.levels else None
    return level.depth if isinstance(level, JvpLevel) and tensor._storage in level.own else 0


def maybe_get_bdim(tensor: Tensor) -> int:
    """The mapped axis of what the tensor stands for, -1 where its innermost level is not one of vmap."""
    batch = batch_of(tensor)
    return -1 if batch is None else batch.dim


@volatile
def maybe_current_level() -> int | None:
    """The depth of the innermost transform that is active; None without any."""
    return current_depth() or None


def current_level() -> int:
    """As :func:`maybe_current_level`; RuntimeError without any."""
    depth = current_depth()
    if not depth:
        raise RuntimeError("current_level(): no function transform is active")
    return depth


class _Fallback(threading.local):
    """What programs have asked of the loop over examples, which PyTorch has for operators without a rule."""

    enabled = True
    warns = True


_FALLBACK = _Fallback()


def _is_vmap_fallback_enabled() -> bool:
    """What :func:`_set_vmap_fallback_enabled` was told; nothing depends on it, since every operator has a rule."""
    return _FALLBACK.enabled


def _set_vmap_fallback_enabled(enabled: bool) -> None:
    """Say whether operators without a rule may be run for one example after the other: there are none."""
    _FALLBACK.enabled = bool(enabled)


def _is_vmap_fallback_warning_enabled() -> bool:
    """What :func:`_set_vmap_fallback_warning_enabled` was told."""
    return _FALLBACK.warns


def _set_vmap_fallback_warning_enabled(enabled: bool) -> None:
    """Say whether such an operator warns."""
    _FALLBACK.warns = bool(enabled)
