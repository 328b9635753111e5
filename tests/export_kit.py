"""Modules made alike on both libraries, and what is seen of an exported program's calls."""

import types
from typing import Any


def module(t: types.ModuleType, forward: Any, **members: Any) -> Any:
    """A module with this ``forward``; members are set as attributes, tensors as buffers."""
    m = type("M", (t.nn.Module,), {"forward": forward})()
    for name, value in members.items():
        if isinstance(value, t.Tensor) and not isinstance(value, t.nn.Parameter):
            m.register_buffer(name, value)
        else:
            setattr(m, name, value)
    return filled(t, m)


def filled(t: types.ModuleType, m: Any) -> Any:
    """The module with parameters that are the same on both libraries."""
    with t.no_grad():
        for i, p in enumerate(m.parameters()):
            p.copy_((t.arange(p.numel(), dtype=t.float64).sin() * 0.5 + 0.1 * i).reshape(p.shape))
    return m


def numbers(t: types.ModuleType, *shape: int, start: float = 0.0) -> Any:
    """A tensor of ``shape`` with distinct numbers of both signs."""
    count = 1
    for n in shape:
        count *= n
    return ((t.arange(count, dtype=t.float64) + start) * 0.7).cos().float().reshape(shape)


def _floats(t: types.ModuleType, x: Any) -> bool:
    return isinstance(x, t.Tensor) and x.is_floating_point()


def _rounded(t: types.ModuleType, grad: Any) -> Any:
    """A gradient without the dust where it is zero."""
    return None if grad is None or grad.is_complex() else t.round(grad, decimals=8)


def seen(t: types.ModuleType, m: Any, args: tuple, kwargs: dict | None = None, calls: int = 2) -> list:
    """Results, state and gradients of several exported calls, the first with arguments that need no gradient."""
    m.double()
    args = t.utils._pytree.tree_map(lambda x: x.double() if _floats(t, x) else x, args)
    ep = t.export.export(m, args, kwargs)
    g = ep.module()
    trail: list = []
    for i in range(calls):
        given = [x.clone().requires_grad_() if i and _floats(t, x) else x for x in args]
        out = g(*given, **(kwargs or {}))
        trail.append(out)
        leaves = [x for x in t.utils._pytree.tree_leaves(out) if isinstance(x, t.Tensor) and x.requires_grad]
        total = sum((x * x).sum() for x in leaves)
        if isinstance(total, t.Tensor):
            total.backward()
        trail.append([_rounded(t, x.grad) for x in given if isinstance(x, t.Tensor)])
    grads = [_rounded(t, p.grad) for p in g.parameters()]
    return [*trail, dict(g.state_dict()), dict(ep.state_dict), grads, sorted(ep.constants)]
