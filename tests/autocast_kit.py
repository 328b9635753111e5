"""PyTorch's operators under autocast, by the declarations: how to call them, and the dtypes of what they give."""

from __future__ import annotations

import warnings

import numpy as np
import torch

from torchlike._decl.op import Op

LOW, HIGH = torch.bfloat16, torch.float32


def overload(op):
    """PyTorch's overload of this name, if it has one."""
    packet = getattr(torch.ops.aten, op.schema.name, None)
    which = op.schema.overload or "default"
    return getattr(packet, which) if packet is not None and which in packet.overloads() else None


def kinds(op, values, static, dtypes, enabled, low=LOW):
    """The dtypes of floating results of PyTorch's operator or function, or None where it refuses."""
    order = iter(dtypes * len(values))

    def tensor(v):
        if not isinstance(v, np.ndarray):
            return v
        t = torch.from_numpy(v.copy())
        return t.to(next(order)) if t.is_floating_point() else t

    if not isinstance(op, Op):
        return results(op, [tensor(v) for v in values], {}, enabled, low)
    rest, lens, named = [tensor(v) for v in values], iter(static[len(op.static)] if op.lists else ()), {}
    for a in op.dynamic:
        named[a.name] = [rest.pop(0) for _ in range(next(lens))] if a.is_list else rest.pop(0)
    named |= {a.name: list(s) if isinstance(s, tuple) else s for a, s in zip(op.static, static, strict=False)}
    given = {a.name: named[a.name] for a in op.schema.args if named[a.name] is not None or not a.has_default}
    return results(overload(op), [], given, enabled, low)


def results(function, args, kwargs, enabled, low=LOW):
    try:
        with warnings.catch_warnings(), torch.autocast("cpu", dtype=low, enabled=enabled):
            warnings.simplefilter("ignore")
            out = function(*args, **kwargs)
    except (RuntimeError, IndexError):
        return None
    outs = out if isinstance(out, tuple | list) else (out,)
    return [o.dtype for o in outs if isinstance(o, torch.Tensor) and (o.is_floating_point() or o.is_complex())]
