"""The cost of one eager call that an override sees, over the same call without it, and next to torch's where installed.

    python benchmarks/overrides.py [--only NAME ...] [--quick]

Immediate execution, on 4x4 float32. Each override does nothing but call the operator: a TorchFunctionMode, a
TorchDispatchMode, a Tensor subclass that inherits ``__torch_function__``, one with a ``__torch_function__`` of its own,
and one that wraps another tensor and has a ``__torch_dispatch__``.
"""

import importlib

from _cases import DEVICE, Case, torch
from _jobs import JOBS
from _rows import Row, command
from _timing import best_times

import torchlike

LIBRARIES = {"ours": torchlike} | ({"torch": torch} if torch is not None else {})


def operands(lib, cls=None):
    a = lib.full((4, 4), 0.5)
    a = a.to(DEVICE) if DEVICE else a
    return (a, a) if cls is None else (a.as_subclass(cls), a)


def plain(lib):
    a, b = operands(lib)
    return lambda: a + b


def function_mode(lib):
    """(the call, a context to time it in) under a mode that passes each function on."""

    class Pass(importlib.import_module(f"{lib.__name__}.overrides").TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    return under(Pass(), plain(lib))


def dispatch_mode(lib):
    """As :func:`function_mode`, for a mode that passes each aten operator on."""

    class Pass(importlib.import_module(f"{lib.__name__}.utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    return under(Pass(), plain(lib))


CALLS = 100


def under(mode, f):
    """``CALLS`` calls of ``f`` with the mode entered once, so that entering it hardly counts."""

    def run():
        with mode:
            for _ in range(CALLS):
                f()

    return run


def often(f):
    """``CALLS`` calls of ``f``."""

    def run():
        for _ in range(CALLS):
            f()

    return run


def subclass(lib):
    a, b = operands(lib, type("Plain", (lib.Tensor,), {}))
    return often(lambda: a + b)


def own_function(lib):
    class Own(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    a, b = operands(lib, Own)
    return often(lambda: a + b)


def wrapper(lib):
    class Wrapper(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return lib.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

        def __init__(self, inner):
            self.inner = inner

        __torch_function__ = lib._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            inner = [x.inner if isinstance(x, Wrapper) else x for x in args]
            return Wrapper(func(*inner, **(kwargs or {})))

    a, b = operands(lib)
    a = Wrapper(a)
    return often(lambda: a + b)


KINDS = {
    "function_mode": ("under one TorchFunctionMode", function_mode),
    "dispatch_mode": ("under one TorchDispatchMode", dispatch_mode),
    "subclass": ("of a subclass, inherited __torch_function__", subclass),
    "own_function": ("of a subclass, its own __torch_function__", own_function),
    "wrapper": ("of a wrapper with __torch_dispatch__", wrapper),
}


def measure(name, quick=False):
    """The rows of one kind of override: over the call without it, and over PyTorch's call with it."""
    title, make = KINDS[name]
    Case(None, (), "immediate").enter()
    cases = {}
    for label, lib in LIBRARIES.items():
        cases[f"{label} plain"], cases[label] = often(plain(lib)), make(lib)
    t = {case: seconds / CALLS * 1e6 for case, seconds in best_times(cases, quick=quick).items()}
    ratio, base = t["ours"] / t["ours plain"], t["ours plain"]
    if "torch" not in t:
        return [Row("one call, add, 4x4", title, "the call without it", base, "us", ratio, note="no torch here")]
    note = f"torch {t['torch'] / t['torch plain']:.2f}"
    return [
        Row("one call, add, 4x4", title, "the call without it", base, "us", ratio, note=note),
        Row("one call, add, 4x4", title, "torch's with it", t["torch"], "us", t["ours"] / t["torch"]),
    ]


if __name__ == "__main__":
    command(__doc__, JOBS["overrides"], measure)
