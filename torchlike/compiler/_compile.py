"""``torch.compile``: functions and modules that run as one XLA program for each kind of arguments."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from torchlike._base.state import state
from torchlike._transforms.compile import CompiledFunction, Switch, reset_all
from torchlike.nn.modules.module import Module

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


class OptimizedModule(Module):
    """A module whose calls are compiled; everything else is the module's own.

    Attributes:
        _orig_mod: the module.
    """

    def __init__(self, module: Module, fullgraph: bool = False) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["forward"] = CompiledFunction(module.__call__, fullgraph)
        self.training = module.training

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"][name]
        return getattr(self._orig_mod, name)

    def train(self, mode: bool = True) -> "OptimizedModule":
        """Set the mode of the module."""
        self._orig_mod.train(mode)
        self.training = mode
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "forward"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__["forward"] = CompiledFunction(self._orig_mod.__call__)


def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
) -> Any:
    """``model``, a function or a module, compiled to one XLA program for each kind of arguments.

    The first call traces the function: tensors that it reads and did not make become inputs of the
    program, those that it writes become outputs; the update of parameters, ``.grad``, buffers, optimizer
    state and random numbers happen in every call as in eager code. Later calls check that what the trace
    took for granted still holds (shapes, dtypes, ``training``, Python values that the function reads)
    and run the program; otherwise the function is traced anew, up to ``recompile_limit`` times (8).

    A function that needs the value of a tensor (``item()``, ``if tensor:``) or that cannot be traced for
    another reason runs in eager code; the reason is logged under "torchlike.compile". Python side effects
    other than on tensors (printing, appending to lists of numbers) happen while tracing only.

    Args:
        fullgraph: raise RuntimeError where the function cannot be one program.
        dynamic, backend, mode, options, name: accepted; XLA is the compiler, for static shapes.
        disable: give back ``model`` itself.

    >>> import torchlike as torch
    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = torch.optim.SGD([w], lr=0.1)
    >>> @torch.compile
    ... def step(x):
    ...     optimizer.zero_grad()
    ...     loss = (w * x).sum()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> step(torch.ones(2)).item(), step(torch.ones(2)).item()
    (2.0, 1.7999999523162842)
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, name=name,
            disable=disable, recompile_limit=recompile_limit,
        )  # fmt: skip
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if disable:
        return model
    if isinstance(model, Module):
        return OptimizedModule(model, fullgraph)
    return CompiledFunction(model, fullgraph, recompile_limit)


def is_compiling() -> bool:
    """Whether the code that asks is being traced by ``torch.compile``."""
    return state.capture is not None


def reset() -> None:
    """Forget every compiled program; the next calls compile anew."""
    reset_all()


def disable(fn: Callable | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that calls of compiled functions do not compile into: they then run in eager code."""
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if state.capture is not None:
            state.capture.refuse(f"calls {fn.__qualname__}, which torch.compiler.disable keeps in eager code")
        with set_stance("force_eager"):
            return fn(*args, **kwargs)

    return wrapper


@contextlib.contextmanager
def _stance(before: bool) -> Iterator[None]:
    try:
        yield
    finally:
        Switch.on = before


def set_stance(stance: str = "default") -> contextlib.AbstractContextManager:
    """ "force_eager" lets compiled functions run in eager code, "default" undoes that; also as a context."""
    if stance not in ("default", "force_eager"):
        raise RuntimeError(f"invalid torch.compile stance '{stance}'; torchlike has 'default' and 'force_eager'")
    before, Switch.on = Switch.on, stance == "default"
    return _stance(before)


def cudagraph_mark_step_begin() -> None:
    """Accepted: XLA programs need no such mark."""
