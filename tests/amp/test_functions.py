"""Public functions under autocast on the CPU: the dtypes of their results for inputs of two dtypes are PyTorch's."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from autocast_kit import CALLS

import torchlike


def outcome(t, call, kind):
    """The dtypes of the results, or that it is refused."""

    def x(*shape):
        return t.arange(1.0, 1 + math.prod(shape)).reshape(shape) * 0.618 % 1 + 0.1

    names = {"t": t, "F": t.nn.functional, "x": x, "i": lambda *v: t.tensor(v), "c": lambda v: v.to(getattr(t, kind))}
    names["s"] = x(3, 3) @ x(3, 3).t() + 3 * t.eye(3)
    try:
        with warnings.catch_warnings(), t.autocast("cpu"):
            warnings.simplefilter("ignore")
            return dtypes(eval(call, names))
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return "refused"


def dtypes(out):
    if isinstance(out, tuple | list):
        return [d for x in out for d in dtypes(x)]
    return [str(out.dtype).partition(".")[2]]


@pytest.mark.parametrize("call", CALLS)
def test_dtypes_are_pytorch_s(call):
    for kind in ("float32", "bfloat16"):
        theirs, ours = outcome(torch, call, kind), outcome(torchlike, call, kind)
        unknown = theirs == "refused" and kind == "bfloat16"  # PyTorch has kernels of float32 only
        assert unknown or ours == theirs, (kind, ours, theirs)
