"""Handles of registered hooks."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor

_ids = itertools.count()


class RemovableHandle:
    """What registering a hook returns; ``remove()`` unregisters it, as does leaving its ``with``."""

    def __init__(self, hooks: Any) -> None:
        # An OrderedDict can be referred to weakly, so a handle does not keep a module's hooks alive.
        self.hooks_ref = (lambda: hooks) if type(hooks) is dict else weakref.ref(hooks)
        self.id = next(_ids)

    @property
    def hooks_dict_ref(self) -> Callable[[], Any]:
        """Gives the dict that holds the hook, or None once that is gone."""
        return self.hooks_ref

    def __getstate__(self) -> tuple[Any, int]:
        return self.hooks_ref(), self.id

    def __setstate__(self, state: tuple[Any, int]) -> None:
        hooks, self.id = state
        self.hooks_ref = lambda: hooks

    @classmethod
    def add(cls, hooks: Any, hook: Callable[..., Any]) -> RemovableHandle:
        handle = cls(hooks)
        hooks[handle.id] = hook
        return handle

    def remove(self) -> None:
        hooks = self.hooks_ref()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of each hook on the tensor that ``unserializable_hook`` has not marked: hooks are not serialized."""
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, decorate the function "
                "with @torch.utils.hooks.unserializable_hook, and this warning is not given.",
                stacklevel=2,
            )
