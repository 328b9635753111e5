"""What a dispatch mode sees of a script, in both libraries: the operators and their normalised arguments."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch

import torchlike

SIZES = {"x": (3, 4), "y": (3, 4), "w": (5, 4), "m": (4, 5), "b": (5,), "B": (2, 3, 4), "C": (2, 4, 5),
         "img": (2, 3, 8, 8), "k": (4, 3, 3, 3)}  # fmt: skip


def dispatch(t: Any) -> Any:
    """The module torch.utils._python_dispatch of a library."""
    return import_module(t.__name__ + ".utils._python_dispatch")


def pytree(t: Any) -> Any:
    return import_module(t.__name__ + ".utils._pytree")


def shown(x: Any) -> str:
    """An argument as text: a tensor by shape, dtype and whether it requires grad."""
    for t in (torch, torchlike):
        if isinstance(x, t.Tensor):
            kind = "" if x.dtype is t.float32 else str(x.dtype).removeprefix("torch.")
            return f"T{list(x.shape)}{kind}{'g' * x.requires_grad}"
    if isinstance(x, list | tuple):
        return f"[{', '.join(map(shown, x))}]"
    return str(x) if hasattr(x, "type") and hasattr(x, "index") else repr(x)


def log_mode(t: Any, arguments: bool = True) -> Any:
    """A mode that collects what it sees in ``lines``, and lets it pass."""

    class Log(dispatch(t).TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.lines = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            text = ", ".join([*map(shown, args), *[f"{k}={shown(v)}" for k, v in (kwargs or {}).items()]])
            if not str(func).startswith("profiler."):
                self.lines.append(f"{func} {text}" if arguments else str(func))
            return func(*args, **(kwargs or {}))

    return Log()


def world(t: Any, prelude: str = "") -> dict[str, Any]:
    """The names of a script: tensors of several shapes (``xg`` is ``x`` requiring grad), then the prelude's."""
    names = {"torch": t, "F": t.nn.functional, "nn": t.nn, "saving": saving}
    for i, (name, size) in enumerate(SIZES.items()):
        n = 1
        for s in size:
            n *= s
        values = ((t.arange(n, dtype=t.float32) * 7 + i) % 11 - 5.3) / 4
        names[name] = values.reshape(size).clone()
        names[name + "g"] = names[name].clone().requires_grad_(True)
    names["idx"], names["tgt"] = t.tensor([0, 2]), t.tensor([0, 1, 3])
    for line in prelude.split(";"):
        if line.strip():
            exec(line.strip(), names)
    return names


def saving(t: Any) -> type:
    """A custom function that saves its result."""

    class Saving(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[1]

    return Saving


def calls(t: Any, script: str, arguments: bool = True) -> list[str]:
    """The operators of ``script``; what follows ``#`` runs before the mode is on."""
    source, _, prelude = script.partition(" # ")
    names = world(t, prelude)
    with log_mode(t, arguments) as log:
        exec(source, names)
    return log.lines


def same_calls(script: str, arguments: bool = True, order: bool = True) -> None:
    """A mode sees the same in both libraries."""
    ours, theirs = calls(torchlike, script, arguments), calls(torch, script, arguments)
    if not order:
        ours, theirs = sorted(ours), sorted(theirs)
    assert ours == theirs, "\n".join(["", *ours, "--- PyTorch:", *theirs])


def wrapper_class(t: Any, log: list | None = None) -> type:
    """A wrapper subclass around ``inner`` whose operators run on what it wraps; their names go to ``log``."""

    class Wrapper(t.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return t.Tensor._make_wrapper_subclass(
                cls, inner.shape, dtype=inner.dtype, device=inner.device, strides=inner.stride(),
                requires_grad=inner.requires_grad,
            )  # fmt: skip

        def __init__(self, inner):
            self.inner = inner

        def __repr__(self):
            return f"Wrapper({self.inner.tolist()})"

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if log is not None:
                log.append(str(func))
            tree = pytree(t)

            def unwrap(x):
                return tree.tree_map_only(cls, lambda w: w.inner, x)

            out = tree.tree_map_only(t.Tensor, cls, func(*unwrap(args), **unwrap(kwargs or {})))
            return dispatch(t).return_and_correct_aliasing(func, args, kwargs or {}, out)

    return Wrapper


def unwrapped(x: Any) -> Any:
    """A wrapper as (its class's name, what it wraps); others as they are."""
    return ("Wrapper", x.inner) if type(x).__name__ == "Wrapper" else x


@contextlib.contextmanager
def recursion(limit: int) -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


Script = Callable[[Any], Any]
