"""Functions that are composed of operators, as one kernel where nobody looks at what they are composed of.

A call of tensors of kinds that were met before is one kernel and records one node, whose derivative is that of the
operators. Who follows calls (modes, subclasses, transforms, captures, hooks of saved tensors) sees the operators.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax

from torchlike._base.state import UNUSUAL, enable_grad, state
from torchlike._core.autograd import anomaly
from torchlike._core.autograd.backward import gradients
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import Tensor, array_of, is_tensor, wrap
from torchlike._decl import settings
from torchlike._decl.derive import Kernel, default_plan
from torchlike._executor.pending import Array

if TYPE_CHECKING:
    from torchlike._decl.derive import Plan
    from torchlike._decl.typed import Avals, Forward, Identity, Indices, Static, Value, Values

APART = 16  # calls of tensors of the same kinds that run operator by operator, by kernels that are there, often
_KINDS = 1024  # that are counted
_get = KIND.get


class Composed(Kernel):
    """A function of tensors alone, which gives one, draws no random numbers and checks no values, as a kernel."""

    __slots__ = ("function", "met")

    def __init__(self, function: Callable[..., Any], node: str, name: str | None = None) -> None:
        super().__init__(name or function.__name__.strip("_"), node)
        self.function = function
        self.met: dict[tuple[Any, ...], int] = {}
        settings.COMPOSED.append(self)

    def identity(self) -> Identity:
        return "composed", self.function

    def forward(self, static: Static) -> Forward:
        def run(*values: Value) -> Any:
            return array_of(self.function(*map(wrap, values)))

        return run

    def derivative(self, static: Static, avals: Avals, wanted: Indices) -> Plan | None:
        reached, saved = self._nodes(avals, wanted)
        plan = default_plan(self, static, avals, reached) if reached else None
        if plan is not None:
            plan.apart = tuple([p for p, i in enumerate(plan.inputs) if i not in saved])
        return plan

    def pulled_back(self, static: Static, inputs: Values, wanted: Indices, diff: Indices, grads: Values) -> Values:
        tensors, result = self._recorded(inputs, wanted)
        seeds = [wrap(g) for g in grads]
        found = gradients([result], [tensors[i] for i in wanted], seeds)
        return tuple(map(array_of, found))

    def _recorded(self, inputs: Values, wanted: Indices) -> tuple[list[Tensor], Tensor]:
        """The arguments and the result of a call that records the nodes of the operators."""
        tensors = [wrap(v) for v in inputs]
        for i in wanted:
            tensors[i]._rg = True
        with enable_grad():
            return tensors, self.function(*tensors)

    def _nodes(self, avals: Avals, wanted: Indices) -> tuple[Indices, set[int]]:
        """Which of the arguments ``wanted`` get gradients, and which ones nodes save: to change these is an error."""
        reached: list[int] = []
        saved: set[int] = set()

        def look(*inputs: Value) -> None:
            tensors, result = self._recorded(inputs, wanted)
            nodes = list(_ancestors(result))
            leaves = {id(getattr(node, "variable", None)) for node in nodes}
            kept = {id(t._storage) for node in nodes for t in getattr(node, "_kept", ()) if is_tensor(t)}
            reached.extend([i for i in wanted if id(tensors[i]) in leaves])
            saved.update([i for i, t in enumerate(tensors) if id(t._storage) in kept])

        jax.eval_shape(look, *avals)
        return tuple(reached), saved

    def often(self, tensors: tuple[Any, ...]) -> bool:
        """Whether these are plain tensors, of kinds that were met often, and nobody follows the calls."""
        if state.pack is not None or anomaly.current.enabled:
            return False
        kinds = []
        for t in tensors:
            if not unseen(t):
                return False
            view = t._view
            kinds.append(t._storage.form.aval if view is None else view.shape)
        key = tuple(kinds)
        met = self.met.get(key, 0)
        if met < APART:
            if len(self.met) >= _KINDS:
                self.met.clear()
            self.met[key] = met + 1
        return met == APART


def unseen(t: Any) -> bool:
    """Whether calls of ``t`` run at once and nobody follows them, so that fewer may do."""
    return not UNUSUAL and not CAPTURES and _get(t.__class__) == 1 and t._storage.form.__class__ is Array


def _ancestors(t: Tensor) -> Iterator[Any]:
    """The nodes that made ``t``."""
    left, met = [t.grad_fn], set()
    while left:
        node = left.pop()
        if node is not None and node not in met:
            met.add(node)
            left += [below for below, _ in node.next_functions]
            yield node


def composed(node: str, name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let calls of a function of tensors be one kernel, and record one node, with the name of PyTorch's last one."""

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        kernel = Composed(function, node, name)

        @functools.wraps(function)
        def run(*tensors: Any) -> Any:
            if kernel.often(tensors):
                try:
                    return call(kernel, tensors, ())
                except Exception:  # what an operator takes that one kernel does not, or its error
                    return function(*tensors)
            return function(*tensors)

        run.kernel = kernel  # type: ignore[attr-defined]
        return run

    return made
