"""torch.distributed.fsdp.wrap: which modules bring their parameters together by themselves."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torchlike.interop.refusing import refusing
from torchlike.nn.modules.container import ModuleDict, ModuleList
from torchlike.nn.modules.module import Module

__getattr__ = refusing(__name__, "torchlike has no such policy; give auto_wrap_policy a function of a module")


class ModuleWrapPolicy:
    """Modules of some classes."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Whether to wrap the module; with ``recurse`` whether to look into it."""
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({self._module_classes})"


class CustomPolicy:
    """Modules of which a function says True, or a dict of options of the wrapper, which count more than the others."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool | dict[str, Any]:
        """Whether to wrap the module, or with which options; with ``recurse`` whether to look into it.

        Raises:
            ValueError: the function gives something else than a bool or a dict.
        """
        found = recurse or self._lambda_fn(module)
        if not isinstance(found, bool | dict):
            raise ValueError(
                "The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but it returned "
                f"{found}"
            )
        return found


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Modules of the classes of a transformer's layers."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Modules of which a function says True."""
    return recurse or lambda_fn(module)


def size_based_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8),
    force_leaf_modules: Any = None, exclude_wrap_modules: Any = None,
) -> bool:  # fmt: skip
    """Modules with so many numbers in parameters that no module in them brings together."""
    if recurse:
        return nonwrapped_numel >= min_num_params
    return nonwrapped_numel >= min_num_params and not isinstance(module, ModuleList | ModuleDict)


_wrapping = threading.local()


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """A context in which :func:`wrap` wraps modules in ``wrapper_cls``, with these options."""
    before = getattr(_wrapping, "by", None)
    _wrapping.by = wrapper_cls, wrapper_kwargs
    try:
        yield
    finally:
        _wrapping.by = before


def wrap(module: Module, **wrap_overrides: Any) -> Any:
    """The module, wrapped if that is enabled; options given here count more than those of the context.

    >>> import torchlike as torch
    >>> from torchlike.distributed.fsdp.wrap import enable_wrap, wrap
    >>> with enable_wrap(wrapper_cls=torch.nn.DataParallel):
    ...     inside = wrap(torch.nn.ReLU())
    >>> type(inside).__name__, type(wrap(torch.nn.ReLU())).__name__
    ('DataParallel', 'ReLU')
    """
    if getattr(_wrapping, "by", None) is None:
        return module
    wrapper, options = _wrapping.by
    return wrapper(module, **{**options, **wrap_overrides})


def chosen(root: Module, policy: Any) -> dict[Module, dict[str, Any]]:
    """{module: options of its wrapper} of those inside of ``root`` that a policy chooses, inner ones first."""
    found: dict[Module, dict[str, Any]] = {}
    _collect(root, policy, found, set())
    return found


def _collect(module: Module, policy: Any, found: dict[Module, dict[str, Any]], seen: set[int]) -> int:
    """How many numbers in a module's parameters have been given to modules inside of it."""
    taken = 0
    for child in module.children():
        if id(child) in seen:
            continue
        seen.add(id(child))
        size = sum(p.numel() for p in child.parameters())
        if policy(module=child, recurse=True, nonwrapped_numel=size):
            inner = _collect(child, policy, found, seen)
            wanted = policy(module=child, recurse=False, nonwrapped_numel=size - inner)
            if wanted or isinstance(wanted, dict):
                found[child] = wanted if isinstance(wanted, dict) else {}
                inner = size
            taken += inner
    return taken
