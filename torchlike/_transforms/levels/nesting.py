"""Levels of function transforms entered and left by calls, as programs do that were written for functorch's insides."""

from typing import Any

from torchlike._base.dims import wrap_dim
from torchlike._base.state import state
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.levels.functional import FunctionalLevel
from torchlike._transforms.levels.grad import GradLevel
from torchlike._transforms.levels.inspection import is_functional, unwrapped
from torchlike._transforms.levels.jvp import JvpLevel
from torchlike._transforms.levels.levels import Level, level_below
from torchlike._transforms.levels.vmap import VmapLevel, lift, lowered_view


def _entered(level: Level) -> int:
    level.__enter__()
    return level.depth


def _left(kind: type[Level]) -> int:
    """Leave the innermost level, which is of this kind; its depth."""
    level = state.levels[-1] if state.levels else None
    if not isinstance(level, kind):
        raise RuntimeError(f"the innermost function transform is {type(level).__name__}, expected {kind.__name__}")
    level.__exit__(None, None, None)
    if isinstance(level, GradLevel):
        level.end()
    return level.depth


def _at(depth: int, kind: type[Level]) -> Level:
    found = next((level for level in state.levels if level.counts and level.depth == depth), None)
    if not isinstance(found, kind):
        raise RuntimeError(f"no {kind.__name__} is active at depth {depth}: got {found}")
    return found


def _vmap_increment_nesting(batch_size: int, randomness: str) -> int:
    """Enter a level of vmap; its depth. RuntimeError for another randomness than error, same and different."""
    if randomness not in ("error", "same", "different"):
        raise RuntimeError("randomness argument must be error, same, or different.")
    return _entered(VmapLevel(batch_size, randomness))


def _vmap_decrement_nesting() -> int:
    """Leave the innermost level, which is one of vmap."""
    return _left(VmapLevel)


def _grad_increment_nesting() -> int:
    """Enter a level of grad; its depth."""
    return _entered(GradLevel())


def _grad_decrement_nesting() -> int:
    """Leave the innermost level, which is one of grad."""
    return _left(GradLevel)


def _jvp_increment_nesting() -> int:
    """Enter a level of jvp; its depth."""
    return _entered(JvpLevel())


def _jvp_decrement_nesting() -> int:
    """Leave the innermost level, which is one of jvp."""
    return _left(JvpLevel)


def _func_increment_nesting(reapply_views: bool) -> int:
    """Enter a level of functionalize; its depth. Views are views here, whatever ``reapply_views`` says."""
    return _entered(FunctionalLevel())


def _func_decrement_nesting() -> int:
    """Leave the innermost level, which is one of functionalize."""
    return _left(FunctionalLevel)


def _add_batch_dim(tensor: Tensor, batch_dim: int, level: int) -> Tensor:
    """One example of ``tensor``, at a level of vmap that is active."""
    found = _at(level, VmapLevel)
    assert isinstance(found, VmapLevel)
    return lift(tensor, wrap_dim(batch_dim, tensor.dim()), found)


def _remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """All examples that ``tensor`` stands for, at ``out_dim``; repeated where they share it."""
    found = _at(level, VmapLevel)
    assert isinstance(found, VmapLevel)
    batch = found.of(tensor)
    with level_below(found):
        if batch is not None:
            return lowered_view(batch, out_dim)
        shape = list(tensor.shape)
        shape.insert(wrap_dim(out_dim, tensor.dim() + 1), batch_size)
        return tensor.unsqueeze(out_dim).expand(shape)


def _wrap_for_grad(tensor: Tensor, level: int) -> Tensor:
    """The tensor of a level of grad that stands for ``tensor``."""
    found = _at(level, GradLevel)
    assert isinstance(found, GradLevel)
    return found.lift(tensor)


def _unwrap_for_grad(tensor: Tensor, level: int) -> Tensor:
    """What a tensor of a level of grad stands for; any other as it is."""
    found = _at(level, GradLevel)
    assert isinstance(found, GradLevel)
    with level_below(found):
        return found.lower(tensor)


def _wrap_functional_tensor(tensor: Tensor, level: int) -> Tensor:
    """The tensor of a level of functionalize that stands for ``tensor``: what changes it changes that, at once."""
    found = _at(level, FunctionalLevel)
    with level_below(found):
        return found.adopt(tensor.view_as(tensor))


def _unwrap_functional_tensor(tensor: Tensor, reapply_views: bool) -> Tensor:
    """What a tensor of a level of functionalize stands for; RuntimeError for any other."""
    _demand_functional(tensor)
    found: Any = unwrapped(tensor)
    return found


def _assert_wrapped_functional(unwrapped: Tensor, wrapped: Tensor) -> None:
    """RuntimeError unless the second is a tensor of a level of functionalize."""
    _demand_functional(wrapped)


def _propagate_functional_input_mutation(unwrapped: Tensor, wrapped: Tensor) -> None:
    """What changed ``wrapped`` has changed ``unwrapped`` before; RuntimeError unless it is of functionalize."""
    _demand_functional(wrapped)


def _demand_functional(t: Tensor) -> None:
    if not is_functional(t):
        raise RuntimeError("expected a tensor inside of functionalize, got one that is not")


def reshape_dim_into(src: int, dst: int, x: Tensor) -> Tensor:
    """``x`` with its axis ``src`` moved before ``dst``, counted without it, and the two made one.

    >>> import torchlike as torch
    >>> torch._C._functorch.reshape_dim_into(0, 1, torch.ones(2, 3, 4)).shape
    torch.Size([3, 8])
    """
    src, dst = wrap_dim(src, x.dim()), wrap_dim(dst, x.dim() - 1)
    moved = x.movedim(src, dst)
    shape = moved.shape
    return moved.reshape((*shape[:dst], shape[dst] * shape[dst + 1], *shape[dst + 2 :]))


def reshape_dim_outof(src: int, size1: int, x: Tensor) -> Tensor:
    """``x`` with its axis ``src`` split in two, the first of length ``size1``; RuntimeError if that does not divide it.

    >>> import torchlike as torch
    >>> torch._C._functorch.reshape_dim_outof(1, 2, torch.ones(3, 8)).shape
    torch.Size([3, 2, 4])
    """
    src = wrap_dim(src, x.dim())
    length = x.shape[src]
    if not size1 and not length:
        raise RuntimeError("reshape_dim_outof(): an axis of length 0 cannot be split into 0 parts")
    if not size1 or length % size1:
        raise RuntimeError(f"reshape_dim_outof(): shape[src] % size1 == 0 expected, got {length} and {size1}")
    return x.reshape((*x.shape[:src], size1, length // size1, *x.shape[src + 1 :]))
