"""``torch.jit.freeze`` and what builds on it: copies whose values nobody changes."""

import copy
from collections.abc import Collection
from typing import Any

from torchlike.jit._trace import Kept, traced_module
from torchlike.jit._types import ScriptModule


def freeze(mod: ScriptModule, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> ScriptModule:
    """A copy of a script module in eval mode that does not see later changes of the module.

    That of a traced module has no parameters, submodules and attributes, but copies of those that
    ``preserved_attrs`` names.

    Raises:
        RuntimeError: ``mod`` is no ScriptModule, or in training mode, or has no attribute of a name that is given.
        NotImplementedError: ``mod`` was read from a file.

    >>> import torchlike as torch
    >>> module = torch.jit.script(torch.nn.Linear(2, 2).eval())
    >>> torch.jit.freeze(module)(torch.ones(2)).requires_grad
    False
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your "
            "'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
            "before freezing."
        )
    for name in preserved_attrs or ():
        if not hasattr(mod, name):
            raise RuntimeError(f"Unknown name: {name}")
    kept: Any = mod.__dict__.get("_kept")
    if kept is None:
        return copy.deepcopy(mod).requires_grad_(False)
    if not isinstance(kept, Kept):
        raise NotImplementedError("torch.jit.freeze: a module that torch.jit.load has read; use it as it is")
    return _frozen_trace(kept, {"forward", *(preserved_attrs or ())})


def _frozen_trace(kept: Kept, names: Collection[str]) -> ScriptModule:
    """What was traced over values of its own, as a module that has no more than ``names``."""
    module = copy.deepcopy(kept.module).requires_grad_(False)
    made = traced_module(module, {name: call for name, call in kept.examples.items() if name in names})
    for values in ("_parameters", "_buffers", "_modules"):  # of its own: what is called has them too
        made.__dict__[values] = {name: copy.deepcopy(v) for name, v in getattr(made, values).items() if name in names}
    for name in [name for name in made.__dict__ if name not in {*names, "training"} and not name.startswith("_")]:
        del made.__dict__[name]
    return made


def optimize_for_inference(mod: ScriptModule, other_methods: list[str] | None = None) -> ScriptModule:
    """A frozen copy of a script module, with the methods ``other_methods`` of a traced one besides ``forward``.

    Raises:
        RuntimeError: as :func:`freeze`.
    """
    return freeze(mod, other_methods)


def run_frozen_optimizations(
    mod: ScriptModule, optimize_numerics: bool = True, preserved_methods: list[str] | None = None
) -> None:
    """Nothing to do: XLA optimises what it compiles."""
