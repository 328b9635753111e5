"""``torch.jit.freeze`` and what builds on it: copies whose values nobody changes."""

import copy
from typing import Any

from torchlike.jit._types import ScriptModule


def freeze(mod: ScriptModule, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> ScriptModule:
    """A copy of a script module in eval mode that does not see later changes of the module.

    Raises:
        RuntimeError: ``mod`` is no ScriptModule, or in training mode.

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
    kept: Any = mod.__dict__.get("_kept")
    if kept is not None:
        raise NotImplementedError(
            "torch.jit.freeze: a traced module; freeze torch.jit.script(module) or use it as it is"
        )
    return copy.deepcopy(mod).requires_grad_(False)


def optimize_for_inference(mod: ScriptModule, other_methods: list[str] | None = None) -> ScriptModule:
    """A frozen copy of a script module; of a traced one, the module itself, whose calls are compiled.

    Raises:
        RuntimeError: as :func:`freeze`.
    """
    if isinstance(mod, ScriptModule) and "_kept" in mod.__dict__ and not mod.training:
        return mod
    return freeze(mod)


def run_frozen_optimizations(
    mod: ScriptModule, optimize_numerics: bool = True, preserved_methods: list[str] | None = None
) -> None:
    """Nothing to do: XLA optimises what it compiles."""
