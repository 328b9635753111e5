"""Every operator that autocast has a class for on CPUs gives the dtypes that PyTorch's gives, whatever it is given."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from autocast_kit import kinds, overload
from sample_kit import sample

import torchlike
from torchlike._aten import packets
from torchlike._core.dispatch.dispatch import call
from torchlike._decl.op import REGISTRY, Op

packets.complete()
GIVEN = ["float32", "bfloat16", "float16", "float64", "float32 bfloat16", "bfloat16 float32", "float32 float64"]
INNER = frozenset(["convolution", "_adaptive_avg_pool3d"])  # PyTorch casts in the public functions that call these
CLASSED = sorted(name for name, op in REGISTRY.items() if isinstance(op, Op) and op.autocast.get("cpu"))


def ours(op, values, static, dtypes, low):
    """The dtypes of floating results of the operator, or None where it refuses."""
    order = iter([getattr(torchlike, d) for d in dtypes] * len(values))

    def tensor(v):
        if not isinstance(v, np.ndarray):
            return v
        t = torchlike.from_numpy(v.copy())
        return t.to(next(order)) if t.is_floating_point() else t

    inputs = tuple(tensor(v) for v in values)
    try:
        with torchlike.autocast("cpu", dtype=getattr(torchlike, low)):
            out = call(op, inputs, static)
    except (RuntimeError, IndexError):
        return None
    outs = out if isinstance(out, tuple | list) else (out,)
    return [str(o.dtype) for o in outs if o.is_floating_point() or o.is_complex()]


@pytest.mark.parametrize("name", CLASSED)
def test_dtypes(name):
    op = REGISTRY[name]
    if name in INNER or overload(op) is None or sample(op) is None:
        return  # composite in PyTorch: test_functions.py calls those by their public names
    values, static = sample(op)
    for given in GIVEN:
        for low in ("bfloat16", "float16"):
            dtypes = given.split()
            theirs = kinds(op, values, static, tuple(getattr(torch, d) for d in dtypes), True, getattr(torch, low))
            if theirs is not None:
                assert ours(op, values, static, dtypes, low) == [str(d) for d in theirs], (given, low)


def test_most_are_compared():
    compared = [n for n in CLASSED if overload(REGISTRY[n]) is not None and sample(REGISTRY[n]) is not None]
    assert len(compared) > 40
