"""torch.fx.passes.infra.pass_manager."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from graphlib import CycleError, TopologicalSorter
from typing import Any

from torchlike.fx.graph_module import GraphModule
from torchlike.fx.passes.infra.pass_base import PassResult
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

__getattr__ = missing_names(__name__)


def pass_result_wrapper(fn: Callable) -> Callable:
    """A function that changes a module in place, as one that returns a PassResult."""
    if fn is None:
        return None

    @wraps(fn)
    def run(gm: GraphModule) -> PassResult:
        result = fn(gm)
        return PassResult(gm, True) if result is None else result if isinstance(result, PassResult) else PassResult(
            result, True
        )  # fmt: skip

    if not hasattr(fn, "__name__"):
        run.__name__ = type(fn).__name__
    return run


def this_before_that_pass_constraint(this: Callable, that: Callable) -> Callable[[Callable, Callable], bool]:
    """The constraint that one pass runs before another."""
    return lambda a, b: not (a is that and b is this)


def _validate_pass_schedule_constraint(
    constraint: Callable[[Callable, Callable], bool], passes: list[Callable]
) -> None:
    """Raise RuntimeError if the order of the passes breaks the constraint."""
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1 :], i + 1):
            if not constraint(a, b):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {a} before {b} but found {a} at index {i} and {b} at "
                    f"index {j} in pass list."
                )


def _topological_sort_passes(passes: list[Callable], constraints: list[Callable]) -> list[Callable]:
    """The passes in an order that fits the constraints: those first that are free first. RuntimeError if none does."""
    places = range(len(passes))
    order: TopologicalSorter[int] = TopologicalSorter({i: () for i in places})
    for i in places:
        order.add(i, *[j for j in places if i != j and not all(c(passes[i], passes[j]) for c in constraints)])
    with suppress(CycleError):  # what is in no cycle is ordered all the same
        order.prepare()
    found: list[int] = []
    while free := order.get_ready():
        found += free
        order.done(*free)
    if len(found) < len(passes):
        stuck = [passes[i] for i in places if i not in found]
        raise RuntimeError(f"Circular dependency detected within the following passes: {stuck}")
    return [passes[i] for i in found]


class PassManager:
    """Runs passes one after the other.

    Args:
        passes: functions that return PassResults. constraints: functions of two passes, whether the first may run
            before the second. steps: how often all are run, unless nothing changes.
        run_checks_after_each_pass: lint after each pass. suppress_check_failures: do not raise if the constraints fail.
    """

    def __init__(
        self,
        passes: list[Callable] | None = None,
        constraints: list[Callable] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes, self.constraints, self.steps = list(passes or []), list(constraints or []), steps or 1
        self._validated = False
        self.run_checks_after_each_pass, self.suppress_check_failures = (
            run_checks_after_each_pass, suppress_check_failures,
        )  # fmt: skip

    def add_pass(self, _pass: Callable) -> None:
        """Add a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raise RuntimeError if the order of the passes breaks a constraint."""
        if self._validated:
            return
        for constraint in self.constraints:
            _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def solve_constraints(self) -> None:
        """Order the passes by the constraints; RuntimeError if there is no such order."""
        self.passes, self._validated = _topological_sort_passes(self.passes, self.constraints), True

    def add_checks(self, check: Callable) -> None:
        """Call ``check(module)`` after each pass, if checks are run. TypeError for what takes other arguments."""
        if not callable(check):
            raise TypeError(f"{check!r} is not a callable object")
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check  # type: ignore[method-assign]

    def check(self, module: Module) -> None:
        """Called after each pass, if checks are run."""

    def __call__(self, module: Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            step = False
            for i, fn in enumerate(self.passes):
                result = self._run(fn, module, i)
                module, step = result.graph_module, step or result.modified
                if isinstance(module, GraphModule):
                    module.recompile()
                if self.run_checks_after_each_pass:
                    self.check(module)
            changed = changed or step
            if not step:
                break
        return PassResult(module, changed)  # type: ignore[arg-type]

    def _run(self, fn: Callable, module: Module, position: int) -> Any:
        name = getattr(fn, "__name__", type(fn).__name__)
        try:
            result = fn(module)
            if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
                raise TypeError(f"The result of the pass {name} should be type PassResult: use pass_result_wrapper()")
        except Exception as error:
            before = [getattr(p, "__name__", type(p).__name__) for p in self.passes[:position]]
            raise Exception(
                f"An error occurred when running the '{name}' pass after the following passes: {before}"
            ) from error
        return result
