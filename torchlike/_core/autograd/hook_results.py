"""What hooks may return in place of gradients: checked here, for the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlike._base.state import followed
from torchlike._core.tensor.tensor import Tensor


def _name(hook: Callable[..., Any]) -> str:
    return getattr(hook, "__name__", "<unknown>")


def replacement(hook: Callable[..., Any], before: Tensor | None, after: Tensor) -> Tensor:
    """The gradient ``after`` that a hook returned instead of ``before`` (a tensor or None)."""
    if before is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if after.dtype is not before.dtype:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value (was {before.type()} got {after.type()})"
        )
    if after.device != before.device:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the device of value (was {before.device}, got {after.device})"
        )
    if after.shape != before.shape:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the size of value (was {list(before.shape)}, the hook returned "
            f"{list(after.shape)})"
        )
    return after


def of_tensor_hook(hook: Callable[..., Any], before: Tensor | None) -> Tensor | None:
    """What ``hook(before)`` puts in the place of a gradient: a tensor or None."""
    after = followed(hook)(before)
    if after is None:
        return before
    if not isinstance(after, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(after).__name__}'")
    return replacement(hook, before, after)


def of_node_hook(hook: Callable[..., Any], before: tuple[Any, ...], after: Any) -> tuple[Any, ...]:
    """The gradients after a node's hook, which was given ``before`` (a tuple) and returned ``after``."""
    if after is None:
        return before
    if not isinstance(after, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(after).__name__}'")
    if len(after) != len(before):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(after)}, but expected "
            f"{len(before)})"
        )
    for old, new in zip(before, after, strict=True):
        if new is not None:
            if not isinstance(new, Tensor):
                raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
            replacement(hook, old, new)
    return after


def of_leaf_hook(after: object, leaf: Tensor) -> None:
    """Refuse a result of a hook that runs after a leaf's gradient was accumulated, but the leaf, as ``add_`` gives."""
    if after is leaf:
        return
    if isinstance(after, Tensor):
        raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    if after is not None:
        raise TypeError(f"expected Variable, but hook returned '{type(after).__name__}': this hook should return None")
