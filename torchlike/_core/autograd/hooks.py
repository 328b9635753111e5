"""Handles of registered hooks."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchlike._base.frames import warn
from torchlike._base.state import state
from torchlike._base.tracing import differentiated

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor

_ids = itertools.count()


class RemovableHandle:
    """What registering a hook returns; ``remove()`` unregisters it, as does leaving its ``with``.

    Args:
        hooks_dict: the dict that holds the hook.
        extra_dict: a dict, or several, with marks of the hook, which go with it.
    """

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        extra = () if extra_dict is None else (extra_dict,) if isinstance(extra_dict, dict) else tuple(extra_dict)
        self._refer(hooks_dict, extra)
        self.id = next(_ids)

    def _refer(self, hooks: Any, extra: tuple[Any, ...]) -> None:
        self.hooks_ref = _reference(hooks)
        self.extra_dict_ref = tuple([_reference(marks) for marks in extra])

    @property
    def hooks_dict_ref(self) -> Callable[[], Any]:
        """Gives the dict that holds the hook, or None once that is gone."""
        return self.hooks_ref

    def __getstate__(self) -> tuple[Any, ...]:
        extra = tuple([marks() for marks in self.extra_dict_ref])
        return (self.hooks_ref(), self.id, extra) if extra else (self.hooks_ref(), self.id)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id, *extra = state
        self._refer(OrderedDict() if hooks is None else hooks, tuple(extra[0]) if extra else ())

    @classmethod
    def add(cls, hooks: Any, hook: Callable[..., Any]) -> RemovableHandle:
        handle = cls(hooks)
        hooks[handle.id] = hook
        return handle

    def remove(self) -> None:
        hooks = self.hooks_ref()
        if hooks is not None:
            hooks.pop(self.id, None)
        for extra in self.extra_dict_ref:
            if (marks := extra()) is not None:
                marks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def _reference(hooks: Any) -> Callable[[], Any]:
    """Gives a dict for as long as something else holds it; a plain dict, which has no weak references, for ever."""
    return (lambda: hooks) if type(hooks) is dict else weakref.ref(hooks)


def warn_where_unseen(name: str) -> None:
    """Tell that ``jax.grad``, which traces the function, will not run the hook that is registered."""
    if state.capture is None and differentiated():
        warn(
            f"{name}(): jax differentiates this function by its own rules and runs no hooks; only backward() inside of "
            "the function does. An autograd.Function whose backward() does the hook's work is followed by both"
        )


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of each hook on the tensor that ``unserializable_hook`` has not marked: hooks are not serialized."""
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, decorate the function "
                "with @torch.utils.hooks.unserializable_hook, and this warning is not given.",
                stacklevel=2,
            )
