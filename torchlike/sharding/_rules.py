"""Modules laid out by rules on the names of their parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor, array_of, fresh
from torchlike._executor.spread import laid
from torchlike.nn.modules.module import Module
from torchlike.sharding._shard import Spec, jax_mesh, layout

Rules = Mapping[str, Spec] | Iterable[tuple[str, Spec]] | Callable[[str, Tensor], Spec]


def distribute(module: Module, mesh: Any, rules: Rules = ()) -> Module:
    """Lay the parameters and buffers of a module out over a mesh, each by the first rule that its name fits.

    Args:
        module: it is changed in place; its parameters stay the objects they are, so that an optimizer keeps them.
        mesh: a :class:`Mesh` or DeviceMesh.
        rules: ``{pattern: spec}``, or pairs, or a function of name and tensor. A pattern is a regular expression that
            is searched for in names such as ``layers.0.weight``; a spec is one of :func:`shard`. What no rule fits is
            whole on every device.

    Returns:
        The module.

    Raises:
        TypeError: ``module`` is no Module, ``mesh`` no mesh.
        ValueError: a rule fits no name, or its spec does not fit a tensor; then nothing has been changed.

    >>> import torchlike as torch
    >>> mesh = torch.sharding.make_mesh(tp=-1)
    >>> model = torch.nn.Linear(4, 8 * mesh.size)
    >>> torch.distribute(model, mesh, {"weight": ("tp", None), "bias": "tp"}) is model
    True
    """
    if not isinstance(module, Module):
        raise TypeError(f"distribute(): argument 'module' must be a Module, not {type(module).__name__}")
    mesh = jax_mesh(mesh, "distribute")
    named = [*module.named_parameters(), *module.named_buffers()]
    spec_for = rules if callable(rules) else _first_match(rules, [name for name, _ in named])
    layouts = [(t, layout(mesh, spec_for(name, t), t.shape, f"distribute(): {name}")) for name, t in named]
    with no_grad():
        for t, sharding in layouts:
            t.data = fresh(laid(array_of(t), sharding))
            if t.grad is not None:
                t.grad.data = fresh(laid(array_of(t.grad), sharding))
    return module


def _first_match(rules: Any, names: list[str]) -> Callable[[str, Tensor], Spec]:
    pairs = [*(rules.items() if isinstance(rules, Mapping) else rules)]
    for pattern, _ in pairs:
        if not any(re.search(pattern, name) for name in names):
            raise ValueError(f"distribute(): the rule {pattern!r} fits none of the names {', '.join(names)}")
    return lambda name, _: next((spec for pattern, spec in pairs if re.search(pattern, name)), None)
