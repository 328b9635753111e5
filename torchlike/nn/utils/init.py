"""Modules whose parameters are not drawn."""

import inspect

from torchlike.nn.modules.module import Module


def skip_init(module_cls: type[Module], *args, **kwargs) -> Module:
    """A module whose parameters are left as they were allocated.

    Args:
        module_cls: a Module class with a ``device`` argument. args, kwargs: what it is made with.

    Raises:
        RuntimeError: ``module_cls`` is no Module, or has no ``device`` argument.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
