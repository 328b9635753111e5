"""Measures docs/backward_calls.txt: what dispatch modes see of backward, beside PyTorch.

``python docs/measure_backward_calls.py [NAME...]`` runs up to five samples of each entry of PyTorch's database of
operators (``op_db``) in both libraries, for ten minutes; names leave the other lines as they are. PyTorch's module of
tests needs the package expecttest. ``make_operators.py`` shows the result.
"""

import functools
import re
import sys
import types
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

import torchlike
from torchlike.utils import _python_dispatch

FILE = Path(__file__).with_name("backward_calls.txt")
MODES = {torch: TorchDispatchMode, torchlike: _python_dispatch.TorchDispatchMode}


def lookup(library, path):
    return functools.reduce(lambda at, name: getattr(at, name, None), path.split("."), library)


def given(t, x, memo):
    """A sample's argument in the library ``t``: tensors with their values and strides."""
    if isinstance(x, torch.Tensor):
        if id(x) not in memo:
            memo[id(x)] = tensor(t, x).requires_grad_(x.requires_grad)
        return memo[id(x)]
    if isinstance(x, torch.dtype | torch.layout | torch.memory_format):
        return getattr(t, str(x).removeprefix("torch."))
    if isinstance(x, torch.nn.Module):
        raise NotImplementedError("a module is not carried from one library to the other")
    if isinstance(x, torch.device):
        return t.device(str(x))
    if isinstance(x, list | tuple):
        return type(x)(given(t, v, memo) for v in x)
    if isinstance(x, dict):
        return {k: given(t, v, memo) for k, v in x.items()}
    return aimed(t, x) if isinstance(x, types.FunctionType) else x


def tensor(t, x):
    x, kind = x.detach().resolve_conj().resolve_neg(), getattr(t, str(x.dtype).removeprefix("torch."))
    if not x.numel():
        return t.zeros(tuple(x.shape), dtype=kind)
    order = sorted(range(x.ndim), key=lambda d: (-x.stride(d), d))
    dense = x.permute(order)
    if dense.is_contiguous():
        return t.tensor(dense.numpy().copy(), dtype=kind).permute([order.index(d) for d in range(x.ndim)]).detach()
    span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    flat = t.tensor(x.as_strided((span,), (1,)).numpy().copy(), dtype=kind)
    return flat.as_strided(tuple(x.shape), x.stride()).detach()


AIMED = {}  # functions of PyTorch's tests as they call another library


def aimed(t, f):
    """A function of PyTorch's tests that calls the library ``t``."""
    if t is torch or not f.__module__.startswith("torch.testing."):
        return f if t is torch else lookup(t, f"{f.__module__}.{f.__name__}".removeprefix("torch.")) or f
    if f not in AIMED:
        scope, cells = dict(f.__globals__), f.__closure__ or ()
        AIMED[f] = types.FunctionType(
            f.__code__, scope, f.__name__, f.__defaults__, tuple([types.CellType() for _ in cells])
        )
        AIMED[f].__kwdefaults__ = f.__kwdefaults__
        scope.update({k: swapped(t, scope[k]) for k in names_in(f.__code__) if k in scope})
        for mine, its in zip(AIMED[f].__closure__ or (), cells, strict=True):
            mine.cell_contents = swapped(t, its.cell_contents)
    return AIMED[f]


def names_in(code):
    return {*code.co_names, *(n for c in code.co_consts if isinstance(c, types.CodeType) for n in names_in(c))}


def swapped(t, x):
    if isinstance(x, types.ModuleType) and x.__name__.split(".")[0] == "torch":
        return t if x is torch else lookup(t, x.__name__[6:]) or x
    return aimed(t, x) if isinstance(x, types.FunctionType) else x


def called(t, op):
    if isinstance(op.op, types.FunctionType) and op.op.__module__.startswith("torch.testing."):
        return aimed(t, op.op)
    found = [lookup(t, path) for path in (op.name, "Tensor." + op.name.split(".")[-1], "ops.aten." + op.name)]
    return next(f for f in found if callable(f))


def tensors(x, t):
    if isinstance(x, t.Tensor):
        return [x]
    x = x.values() if isinstance(x, dict) else x if isinstance(x, list | tuple) else ()
    return [found for v in x for found in tensors(v, t)]


def backward_calls(t, op, sample):
    """The calls of the backward of all results, with the shapes of what they take; None if there is no backward."""
    lines, memo = [], {}

    class Log(MODES[t]):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            shapes = [str(tuple(map(int, x.shape))) for x in tensors([args, kwargs or {}], t)]
            lines.append(" ".join([str(func), *shapes]))
            return func(*args, **(kwargs or {}))

    t.manual_seed(0)
    args, kwargs = given(t, [sample.input, *sample.args], memo), given(t, sample.kwargs, memo)
    outs = [x for x in tensors(called(t, op)(*args, **kwargs), t) if x.requires_grad]
    if not outs:
        return None
    numbers = np.random.RandomState(0)
    seeds = [t.tensor(numbers.standard_normal(tuple(x.shape))).to(x.dtype) if x.numel() else x * 0 for x in outs]
    with Log():
        t.autograd.backward(outs, [s.detach() for s in seeds])
    return lines


def measured(op):
    """(passes, those that differ, the first difference) of one entry."""
    passes, differ, first = 0, 0, ""
    samples = list(islice(op.sample_inputs("cpu", torch.float64, requires_grad=True), 64))
    for sample in samples[:: -(-len(samples) // 5)]:
        try:
            theirs = backward_calls(torch, op, sample)
        except Exception as error:
            print("PyTorch:", type(error).__name__, str(error)[:100])
            theirs = None
        if theirs is None:
            continue
        try:
            ours = backward_calls(torchlike, op, sample)
        except Exception as error:
            ours = [f"{type(error).__name__}: {str(error)[:60]}"]
        passes += 1
        if ours != theirs:
            differ += 1
            pairs = zip([*theirs, "nothing"], [*(ours or []), "nothing"], strict=False)
            first = first or next(f"{x} | {y}" for x, y in pairs if x != y)
    return passes, differ, first


def main(names):
    warnings.simplefilter("ignore")
    lines = dict(line.split(" | ", 1) for line in FILE.read_text().splitlines()) if names else {}
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}".rstrip(".")
        if (
            op.supports_autograd
            and torch.float64 in op.supported_backward_dtypes("cpu")
            and (not names or name in names)
        ):
            torch.manual_seed(0)
            passes, differ, first = measured(op)
            lines.pop(name, None)
            if passes:
                lines[name] = f"{differ} of {passes}" + (f" | {re.sub(r'[.]default', '', first)}" if first else "")
            print(name, lines.get(name), flush=True)
    FILE.write_text("".join(f"{name} | {facts}\n" for name, facts in sorted(lines.items())))


if __name__ == "__main__":
    main(sys.argv[1:])
