"""The history that the calls of a composed operator would have: which of their results PyTorch's nodes save.

PyTorch saves a result without its history, which modes see as ``detach``. Here the operator is one node; of each call
that it is made of, the declaration of what computes it says which results its derivative saves.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torchlike._aten import python_dispatch as layer
from torchlike._aten.packets import OpOverload, ops
from torchlike._aten.tags import Tag
from torchlike._base.state import state
from torchlike._core.autograd.saved_tensors import packs
from torchlike._core.dispatch.dispatch import plan_for
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.tensor import Tensor, alias, value_of
from torchlike._decl.derive import results_of
from torchlike._executor.immediate import Abstract

_UNKNOWN = object()


class _Answer(BaseException):
    """Ends a call that was made to learn which call of a declared operator computes an overload."""

    def __init__(self, call: Any) -> None:
        self.call = call


class _Asking:
    """Stands in the place of modes meanwhile."""

    def __torch_dispatch__(self, *call: Any) -> Any:
        raise _Answer(_UNKNOWN)


ASKING = (_Asking(),)


def answer(call: Any) -> None:
    """Tell who asks that this is the call."""
    raise _Answer(call if call.form.name in ("new", "inplace") else _UNKNOWN)


class History:
    """What requires grad among the tensors of a composition, and the detached results that its nodes would save."""

    __slots__ = ("apart", "tracked")

    def __init__(self, inputs: Iterable) -> None:
        self.tracked = {id(t): t for t in layer.leaves(inputs) if t.requires_grad}
        self.apart: dict[int, tuple[Tensor, Tensor]] = {}  # {id: (result, detached)}, which holds what has the id

    def call(self, func: OpOverload, args: tuple, kwargs: dict) -> Any:
        """Make one call of the composition."""
        given = (*args, *kwargs.values())
        if state.grad is False or all(id(t) not in self.tracked for t in layer.leaves(given)):
            return layer.invoke(func, args, kwargs)
        asked = _UNKNOWN if func._saves else _asked(func, args, kwargs)
        plan = self._plan(asked)
        if plan not in (None, _UNKNOWN) and asked.form.name == "inplace" and 0 in plan.inputs:
            layer.invoke(ops.aten.clone.default, (asked.inputs[0],), {})  # the value that a node saves
        out = layer.invoke(func, args, kwargs)
        outs = list(out) if isinstance(out, list | tuple) else [out]
        if plan is _UNKNOWN:
            self._track([t for t in layer.leaves(outs) if t.is_floating_point() or t.is_complex()])
            self._save([outs[i] for i in func._saves])
        elif plan is not None:
            self._track([outs[i] for i in plan.diff if i < len(outs)])
            self._save([outs[i] for i in in_turn(plan) if i in plan.diff and i < len(outs)])
        return out

    def _save(self, results: list) -> None:
        for t in () if packs() else results:  # what hooks take is not detached
            t._rg, before = True, t._rg  # as modes see it
            try:
                self.apart[id(t)] = t, layer.invoke(ops.aten.detach.default, (t,), {})
            finally:
                t._rg = before

    def _track(self, tensors: list) -> None:
        self.tracked |= {id(t): t for t in tensors}

    def _plan(self, call: Any) -> Any:
        """How this call is differentiated; None if it is not, _UNKNOWN where nobody knows."""
        if call is None or call is _UNKNOWN:
            return call
        stands = [self._standing(x) for x in call.inputs]
        return plan_for(call.op, stands, call.static, [value(x) for x in call.inputs])

    def _standing(self, x: Any) -> Any:
        """The input as one that requires grad, where it does."""
        if id(x) not in self.tracked:
            return x if not isinstance(x, Tensor) or type(x) in KIND else alias(x)
        new = alias(x)
        new._rg = True
        return new


def _asked(func: OpOverload, args: tuple, kwargs: dict) -> Any:
    """The call of a declared operator that computes an overload; None where there is none."""
    if Tag.nondeterministic_seeded in func.tags or func._schema.is_mutable and _added(func):
        return _UNKNOWN  # asking would draw numbers, or change tensors
    off, state.overrides_off = state.overrides_off, 2
    try:
        with layer.modes_set_to(ASKING):
            func._op(*args, **kwargs)
    except _Answer as answer:
        return answer.call
    finally:
        state.overrides_off = off
    return None  # it was made without, as new tensors are


def _added(func: OpOverload) -> bool:
    """Whether an overload is a function beside the declarations."""
    return func._overloadname in func._overloadpacket._source.added.get(func._opname, ())


def value(x: Any) -> Any:
    """What a plan reads of an input: shapes and dtypes."""
    if not isinstance(x, Tensor):
        return x
    if layer.has_dispatch(type(x)):
        return Abstract(tuple(x.shape), x.dtype.np)
    return value_of(x)


def in_turn(plan: Any) -> list[int]:
    """The results that a plan saves in PyTorch's order, that of their names."""
    if len(plan.outputs) < 2:
        return list(plan.outputs)
    names = results_of(plan.op.declaration, len(plan.outs))
    return sorted(plan.outputs, key=lambda i: names[i])


class _Current(threading.local):
    history: History | None = None  # of the composition that makes its calls now in this thread


_current = _Current()


@contextmanager
def of(inputs: tuple) -> Iterator[History]:
    """Within, calls of a composition have a history."""
    before, _current.history = _current.history, History(inputs)
    try:
        yield _current.history
    finally:
        _current.history = before


def made(func: OpOverload, args: tuple, kwargs: dict) -> Any:
    """One call, of a composition or not."""
    history = _current.history
    if history is None:
        return layer.invoke(func, args, kwargs)
    _current.history = None  # of no concern to what its handlers call
    try:
        return history.call(func, args, kwargs)
    finally:
        _current.history = history
