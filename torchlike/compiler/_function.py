"""Compiled functions under the user's rules: limits, stances, what is logged and counted, which errors are raised."""

import collections
import copy
import functools
import inspect
import logging
import time
import traceback
from collections.abc import Callable
from typing import Any

import jax

from torchlike._base.dtypes import get_default_dtype
from torchlike._base.frames import user_frames, warn
from torchlike._base.logs import COMPILE, GRAPH_BREAKS, GUARDS, RECOMPILES
from torchlike._base.state import is_grad_enabled, state
from torchlike._core.autocast.settings import current
from torchlike._core.tensor.tensor import Tensor, dtype_of, shape_of
from torchlike._transforms.capture.compiled_function import _EAGER, CompiledFunction, Unfit, compiled_functions
from torchlike._transforms.capture.recording import Unsupported as NotRepeatable
from torchlike.compiler._contents import modes, overlapping
from torchlike.compiler._failures import FailOnRecompileLimitHit, RecompileError, Unsupported
from torchlike.compiler._report import Made, Notice, report
from torchlike.compiler._settings import DYNAMO
from torchlike.compiler._stance import Stance
from torchlike.nn.modules.module import Module

counters: collections.defaultdict[str, collections.Counter] = collections.defaultdict(collections.Counter)
_STRICT = "fail_on_recompile"


class Compiled(CompiledFunction):
    """A function that runs as one program for each kind of arguments; see ``torch.compile``.

    Attributes:
        own_limit: how many programs it may have, or None for ``torch._dynamo.config.recompile_limit``.
        last: what the arguments of the last program were. met: whether it was called under "eager_then_compile".
        made: the programs, for people. notice: what tells of the one that is being made.
    """

    def __init__(self, function: Callable, fullgraph: bool = False, limit: int | None = None) -> None:
        self.own_limit = limit
        super().__init__(function, fullgraph, limit)
        self._torchdynamo_orig_callable = function

    def __deepcopy__(self, memo: dict) -> "Compiled":
        made = type(self)(copy.deepcopy(self.function, memo), self.fullgraph, self.own_limit)
        made.dynamic = self.dynamic
        return made

    def reset(self) -> None:
        """Forget every program."""
        super().reset()
        self.last: Situation | None = None
        self.met, self.operations = False, 0
        self.made: list[Made] = []

    # -- a call for which there is no program --------------------------------------------------------
    def _new(self, key: Any, leaves: list, tree: Any, failed: str | None, given: tuple) -> tuple[Any, Any]:
        now = Situation(leaves, tree)
        if failed is None and self.last is not None:
            failed = now.difference(self.last)
        if self._declines(failed):
            return None, _EAGER
        if self.count:
            RECOMPILES.debug("recompiling %s: %s has changed", self._name(), failed)
        self.limit = DYNAMO["recompile_limit"] if self.own_limit is None else self.own_limit
        start, before = time.perf_counter(), self.count
        try:
            with Notice(self._described()) as self.notice:
                result = super()._new(key, leaves, tree, failed, given)
        except NotRepeatable as error:
            return None, error
        counters["frames"]["total"] += 1
        if self.count > before:
            self.last = now
            counters["frames"]["ok"] += 1
            counters["stats"]["unique_graphs"] += 1
            seconds = time.perf_counter() - start
            self.made.append(Made(seconds, failed, self.operations))
            COMPILE.debug("program %d of %s: made and run in %.2f s", self.count, self._name(), seconds)
        return result

    def _program(self, trace: Any, interpreter: Any) -> Any:
        self.operations = len(trace.jaxpr.eqns)
        self.notice.phase = f"XLA compiles {self.operations} operations"
        return super()._program(trace, interpreter)

    def described(self) -> str:
        """Its name, and where it is defined."""
        return self._described()

    def _declines(self, failed: str | None) -> bool:
        """Whether the user wants eager code instead of a new program."""
        if Stance.name == _STRICT:
            raise RuntimeError(
                f"Detected recompile when torch.compile stance is '{_STRICT}'. {self._described()}"
                + (f"; the guard that failed: {failed} has changed" if failed else "")
            )
        if DYNAMO["error_on_recompile"] and self.count:
            raise RecompileError(f"Recompiling {self._described()}; the guard that failed: {failed} has changed")
        if Stance.name.endswith("then_compile") and not self.met:
            self.met = True
            return True
        return Stance.name == "eager_on_recompile"

    _overlapping = staticmethod(overlapping)

    def _guards(self, trace: Any, reads: Any, leaves: list) -> Any:
        reason = self._overlapping(trace)
        if reason is not None:
            trace.record.rewind()
            raise NotRepeatable(reason)
        trace.record.checks.append((modes, modes()))
        guards = super()._guards(trace, reads, leaves)
        if GUARDS.isEnabledFor(logging.DEBUG):
            now = Situation(leaves, None)
            lines = [f"  {text}" for text in (*now.texts, *now.modes, *guards.names())]
            GUARDS.debug("program %d of %s takes for granted:\n%s", self.count + 1, self._name(), "\n".join(lines))
        return guards

    # -- giving up -----------------------------------------------------------------------------------
    def _break(self, error: Exception, args: tuple, kwargs: dict) -> Any:
        try:
            result = super()._break(error, args, kwargs)
        except Unfit as unfit:
            raise Unsupported(*unfit.args) from error
        if not self.eager:  # postponed: the next call is traced
            return result
        counters["graph_break"][self.eager] += 1
        if GRAPH_BREAKS.isEnabledFor(logging.DEBUG):
            GRAPH_BREAKS.debug("graph break in %s: %s\n%s", self._described(), self.eager, _stack(error))
        return result

    def _give_up(self, reason: str) -> None:
        if self.count >= self.limit and (self.fullgraph or DYNAMO["fail_on_recompile_limit_hit"]):
            why = "fullgraph=True" if self.fullgraph else "fail_on_recompile_limit_hit"
            raise FailOnRecompileLimitHit(f"Hard failure due to {why}: {self._described()}: {reason}")
        self.eager = reason
        warn(f"torch.compile: {self._name()} runs in eager from now on: {reason}")

    def _name(self) -> str:
        module = called_module(self.function)
        return super()._name() if module is None else type(module).__name__

    def _described(self) -> str:
        module = called_module(self.function)
        function = self.function if module is None else module.forward
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        return f"{self._name()} ({code.co_filename}:{code.co_firstlineno})" if code else self._name()


def awaited(compiled: Compiled) -> Callable:
    """The compiled form of an ``async`` function: the program gives what it returns; in pieces it is awaited."""

    @functools.wraps(compiled.function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        result = compiled(*args, **kwargs)
        return await result if inspect.iscoroutine(result) else result

    run._torchdynamo_orig_callable = compiled.function  # type: ignore[attr-defined]
    return run


def called_module(function: Callable) -> Module | None:
    """The module whose call ``function`` is, if it is that."""
    owner = getattr(function, "__self__", None)
    calls = ("__call__", "_call_impl", "_wrapped_call_impl")
    return owner if isinstance(owner, Module) and function.__name__ in calls else None


class Situation:
    """What of a call selects a program, in words.

    Attributes:
        texts: an argument each. modes: grad mode and the like.
    """

    def __init__(self, leaves: list, tree: Any) -> None:
        self.tree, self.texts = tree, [_text(x) for x in leaves]
        grad, dtype = is_grad_enabled(), get_default_dtype()
        self.modes = [f"grad mode {grad}", f"inference mode {state.inference}", f"dtype {dtype}"]
        self.modes.append(f"autocast {current()}")

    def difference(self, before: "Situation") -> str:
        """What is not as it was ``before``."""
        if self.tree != before.tree:
            return "the structure of the arguments"
        for i, (now, then) in enumerate(zip(self.texts, before.texts, strict=True)):
            if now != then:
                return f"{self._argument(i)} ({then} before, {now} now)"
        for now, then in zip(self.modes, before.modes, strict=True):
            if now != then:
                return f"the {now.partition(' ')[0]} mode" if " mode " in now else f"the {now.partition(' ')[0]}"
        return "which arguments share memory, or another property of an argument,"

    def _argument(self, i: int) -> str:
        numbered = jax.tree.unflatten(self.tree, range(self.tree.num_leaves))
        paths = jax.tree_util.tree_flatten_with_path(numbered)[0]
        for path, number in paths:
            if type(number) is int and number == i:
                return f"argument {jax.tree_util.keystr(path[1:], simple=True, separator='.')}"
        return "an argument"


def _text(x: Any) -> str:
    if not isinstance(x, Tensor):
        shown = repr(x)
        return shown if len(shown) < 60 else f"{shown[:57]}..."
    parts = [f"{str(dtype_of(x)).rpartition('.')[2]}{list(shape_of(x))}"]
    parts += [word for word, holds in (
        ("requires_grad", x._rg), ("with grad_fn", x._edge is not None), ("with .grad", x._grad is not None),
        ("a view", x._view is not None), (type(x).__name__, type(x) is not Tensor),
    ) if holds]  # fmt: skip
    return ", ".join(parts)


def _stack(error: BaseException) -> str:
    """The user's lines that lead to where a trace ended."""
    return "".join(traceback.format_list(user_frames(error))).rstrip()


def explain(*functions: Any) -> None:
    """Print what ``torch.compile`` made: each function, its programs, and why there is more than one.

    Args:
        functions: what ``torch.compile`` returned; all of this process if there are none.

    Raises:
        TypeError: one of them is no compiled function.

    >>> import torchlike as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> for n in (2, 2, 3):
    ...     _ = double(torch.ones(n))
    >>> torch.explain(double)  # doctest: +ELLIPSIS
    <lambda> (...): 2 programs, ... s
        1. 1 operations, ... s: first call
        2. 1 operations, ... s: argument 0 (float32[2] before, float32[3] now) had changed...
    """
    for f in functions:
        if not isinstance(f, Compiled):
            raise TypeError(f"explain(): expected what torch.compile(function) returned, got {type(f).__name__}")
    report(lambda: [f for f in functions or compiled_functions() if isinstance(f, Compiled)])
