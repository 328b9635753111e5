"""The level of forward-mode derivatives: tensors carry a tangent, and each operator makes those of its results.

A tangent is kept with the tensor object, under its level, so that transforms nest without being confused. Views have
views of the tangent: a change in place reaches both through every alias.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary, WeakSet

from torchlike._base.layout import contiguous_strides, numel
from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd.operator_node import OpNode
from torchlike._core.dispatch.dispatch import call, demand_floating
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.dispatch.view_calls import call_view
from torchlike._core.overrides.torch_function import unseen
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.mutation import extras_of
from torchlike._core.tensor.tensor import Tensor, versioned, wrap
from torchlike._core.tensor.views import reader
from torchlike._decl.batch import diff_outputs, smooth, tangent
from torchlike._executor import immediate
from torchlike._ops import arithmetic
from torchlike._ops import shape as shapes
from torchlike._ops import view as views
from torchlike._transforms.levels.levels import Level, captured, leave_inference, level_below, resume_inference
from torchlike._transforms.levels.vmap import alike, levels_of

if TYPE_CHECKING:
    from torchlike._core.dispatch.layers import Call
    from torchlike._decl.derive import Kernel
    from torchlike._decl.typed import Static


class _Thread(threading.local):
    """``enabled``: whether results carry tangents."""

    enabled = True


class JvpLevel(Level):
    """One call of a function with tangents, or with ``functional`` false a dual level of forward-mode AD.

    Attributes:
        recorded: whether a level around it records what is computed of tangents, where grad mode is off, too.
    """

    thread = _Thread()

    def __init__(self, functional: bool = True, recorded: bool = False) -> None:
        super().__init__()
        self.functional = self.owns = self.counts = self.veils = functional
        self.recorded = recorded
        self.own: WeakSet[Any] = WeakSet()  # the storages that the function made or was given
        self.given: WeakSet[Any] = WeakSet()  # those that it was given, which tensors of the outside may share

    def __enter__(self) -> Self:
        self._enabled = self.thread.enabled
        if self.functional:  # what is switched off outside is so for the levels outside
            self.thread.enabled = True
            self._inference = leave_inference()
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        self.thread.enabled = self._enabled
        super().__exit__(*exc)
        if self.functional:
            resume_inference(self._inference)

    def handle(self, made: Call) -> Any:
        if not self.functional:
            return self.derived(made)
        if not made.form.writes:
            out = self.derived(made)
            if made.form.fresh or made.inputs[0]._storage in self.own:
                for t in out if isinstance(out, tuple | list) else (out,):
                    self.own.add(t._storage)
            return out
        if made.inputs[0]._storage not in self.own:
            raise captured(made.op)
        return self.derived(made)

    def adopt(self, t: Tensor) -> Tensor:
        self.own.add(t._storage)
        return t

    def holds(self, x: Any) -> bool:
        if not isinstance(x, Tensor):
            return False
        if self.of(x) is not None:
            return True
        made = self.functional and x._storage in self.own and x._storage not in self.given
        return made and not self.left(x)

    def hides(self, storage: Any) -> bool:
        return self.functional and storage in self.own

    def carries(self, t: Tensor) -> bool:
        own, base = self.kept(t)[0], base_of(t)
        if own is None and base is not None:
            own = self.kept(base)[0]
        return own is not None and own is not NONE

    def derived(self, made: Call) -> Any:
        """The results of a call, with their tangents."""
        op, form, inputs, static = made
        tangents = [self.of(x) for x in inputs]
        if all(t is None for t in tangents) or not self.thread.enabled:
            out = made.run()
            if not form.fresh and self.kept(inputs[0])[0] is NONE:  # nor has a view of a primal a tangent
                for o in _tuple(out):
                    self.put(o, NONE)
            return out
        if form.writes:
            return self.inplace(op, inputs, static, tangents)
        out = made.run()
        with self.recording():
            self.propagate(made, tangents, out)
        return out

    def recording(self) -> contextlib.AbstractContextManager[Any]:
        """In which what is computed of tangents is recorded as this level asks."""
        return _grad_on() if self.recorded and not state.grad else _ANYHOW

    def propagate(self, made: Call, tangents: Sequence[Any], out: Any) -> None:
        """Give the results of a call, that changes nothing, their tangents."""
        op, form, inputs, static = made
        if not form.fresh:
            same = self.alike(inputs[0], tangents[0])
            dots = made.run((same,))
            for o, dot in zip(_tuple(out), _tuple(dots), strict=True):
                base = base_of(o) if same is tangents[0] else None
                self.put(o, dot, None if base is None else self.kept(base)[0])
        elif smooth(op):
            self.after(op, inputs, static, tangents, _tuple(out))

    def alike(self, t: Tensor, dot: Any) -> Tensor:
        """The tangent ``dot`` of ``t``, which is to be viewed, in the memory order of ``t``."""
        if dot._layout.strides == t._layout.strides:
            return dot
        same = _zeros(t, dot)
        call_inplace(shapes.copy.inplace, (same, dot), (False,))
        self.put(t, same)
        return same

    def after(
        self, op: Kernel, inputs: tuple[Any, ...], static: Static, tangents: Sequence[Any], outs: tuple[Tensor, ...]
    ) -> None:
        """Give the results of a call their tangents."""
        diff = diff_outputs(op, [o.dtype.np for o in outs])
        if not diff:
            demand_floating(op.declaration, static)
            return
        dots = _tuple(_dots(self, op, inputs, static, tangents))
        for i in diff:
            view = outs[i]._view
            if view is not None and not view.steps and dots[i]._view is None:
                restride(dots[i], view.layout.strides)
            self.put(outs[i], dots[i])
        if outs[diff[0]]._edge is not None:
            self.save(outs[diff[0]]._edge[0], inputs, tangents, dots)

    def inplace(self, op: Kernel, inputs: tuple[Any, ...], static: Static, tangents: Sequence[Any]) -> Tensor:
        target, old = inputs[0], tangents[0]
        before, given = list(tangents), list(inputs)
        saves = state.levels or any([isinstance(x, Tensor) and x._rg for x in (*inputs, *tangents)])
        with self.recording():
            for i, x in enumerate(inputs):  # what is recorded of the tangent saves the old values
                if isinstance(x, Tensor) and x._storage is target._storage:
                    if before[i] is not None:
                        before[i] = call(shapes.clone, (before[i],), (None,))
                    if saves and state.grad:
                        given[i] = call(shapes.clone, (x,), (None,))
            if smooth(op):
                dot = _dots(self, op, tuple(given), static, before)
            else:
                dot = call(shapes.fill_number, (old, 0.0), ()) if old is not None else None
        holder = base_of(target)
        holder = target if holder is None else holder  # which has the node of a change of its view
        edge = holder._edge
        call_inplace(op, inputs, static)
        if dot is not None:
            with self.recording():
                self.replace(target, old, dot)
            if holder._edge is not None and holder._edge is not edge:  # under no_grad it is of another call
                self.save(holder._edge[0], inputs, before, (dot,))
        return target

    def replace(self, t: Tensor, old: Tensor | None, dot: Tensor) -> None:
        """Let ``dot`` be the tangent of ``t``, that was changed: in place of what it had."""
        if old is None or levels_of(dot) - levels_of(old):
            old = self.settle(t, dot)
        call_inplace(shapes.copy.inplace, (old, dot), (False,))

    def save(self, node: Any, inputs: tuple[Any, ...], tangents: Sequence[Any], dots: Sequence[Any]) -> None:
        """Give what the node of a call keeps the tangents of what it was made from."""
        node = getattr(node, "inner", node)
        if not isinstance(node, OpNode) or not node._kept:
            return
        sources = [tangents[i] for i in node.plan.inputs] + [dots[i] for i in node.plan.outputs]
        given = [inputs[i] for i in node.plan.inputs] + [None] * len(node.plan.outputs)
        for kept, source, dot in zip(node._kept, given, sources, strict=True):
            if isinstance(kept, Tensor) and kept is not source and dot is not None:
                self.put(kept, dot)

    # -- which tangent a tensor has ------------------------------------------------------------------
    def of(self, t: Any) -> Tensor | None:
        """The tangent of ``t`` at this level, or None; that of a view is a view of its base's."""
        if not isinstance(t, Tensor):
            return None
        own, whole = self.kept(t)
        if own is NONE:
            return None
        base = base_of(t)
        current = None if base is None else self.kept(base)[0]
        if current is None or current is NONE or (own is not None and whole is current):
            return own
        own = _same_view(current, base, t)
        self.put(t, own, current)
        return own

    def kept(self, t: Tensor) -> tuple[Any, Any]:
        """(the tangent that the tensor object itself carries, what it is a view of)."""
        found = None if t._ex is None else t._ex.get("tangents")
        return _NOTHING if found is None else found.get(self, _NOTHING)

    def put(self, t: Tensor, dot: Any, whole: Tensor | None = None) -> None:
        """Let ``t`` carry the tangent ``dot``, a view of ``whole``."""
        extras = extras_of(t)
        if "tangents" not in extras:
            extras["tangents"] = WeakKeyDictionary()  # tangents go with their level
        extras["tangents"][self] = dot, whole

    def settle(self, t: Tensor, like: Tensor) -> Tensor:
        """A tangent for ``t`` that can hold ``like``: the one that it has, or zeros.

        Where ``t`` is a view, its base gets one, of which it is a view.
        """
        base = base_of(t)
        if base is None or not (base.dtype.is_floating_point or base.dtype.is_complex):
            dot = self.room(t, like)
            self.put(t, dot)
            return dot
        whole = self.room(base, like)
        self.put(base, whole)
        dot = _same_view(whole, base, t)
        self.put(t, dot, whole)
        return dot

    def room(self, t: Tensor, like: Tensor) -> Tensor:
        """A new tangent for ``t``, of its old one or of zeros, with the mapped axes of ``like`` too."""
        old = self.kept(t)[0]
        if old is None or old is NONE:
            return _flagged(_window(t, like), t)
        new = _flagged(_window(t, _mapped_as(like, old)), t)
        call_inplace(shapes.copy.inplace, (new, old), (False,))
        return new

    def primal(self, t: Tensor) -> Tensor:
        """``t`` as another object, with its history but not its tangent."""
        new = call_view(views.alias, (t,), ())
        self.put(new, NONE)
        return new

    def data(self, t: Tensor) -> Tensor:
        """``t.data``: without its tangent here, with the derivatives of the levels below."""
        if not self.functional or not self.holds(t):
            return super().data(t)
        with level_below(self):
            new = self.primal(t)
        return new if nodes.requires_grad(t) else versioned(new)  # what a node keeps must not change unseen

    @unseen
    def dual(self, primal: Tensor, dot: Tensor) -> Tensor:
        """A view of ``primal``, of the level below, with the tangent ``dot``."""
        if tuple(dot.shape) != tuple(primal.shape):
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                f"not supported. Tensor is of size {list(primal.shape)} while the given forward gradient is of size "
                f"{list(dot.shape)}."
            )
        with level_below(self):
            if dot.dtype is not primal.dtype:
                dot = dot.to(primal.dtype)
            if not _in_the_same_places(primal, dot):
                same = _flagged(_window(primal, dot), primal)
                call_inplace(shapes.copy.inplace, (same, dot), (False,))
                dot = same
            t = call_view(views.alias, (primal,), ())
        self.put(t, dot)
        self.own.add(t._storage)
        self.given.add(t._storage)
        return t


@contextlib.contextmanager
def _grad_on() -> Iterator[None]:
    before, state.grad = state.grad, True
    try:
        yield
    finally:
        state.grad = before


_ANYHOW = contextlib.nullcontext()
NONE = object()  # what a tensor carries that has no tangent, though its base may have one
_NOTHING = None, None


def _dots(level: JvpLevel, op: Kernel, inputs: tuple[Any, ...], static: Static, tangents: Sequence[Any]) -> Any:
    which = tuple(i for i, t in enumerate(tangents) if t is not None)
    if state.grad:  # what is saved of an input is its primal
        inputs = [level.primal(x) if i in which and x._rg else x for i, x in enumerate(inputs)]
    return call(tangent(op, static, which), (*inputs, *[tangents[i] for i in which]), ())


def _mapped_as(a: Tensor, b: Tensor) -> Tensor:
    """A tensor with the mapped axes of both."""
    if levels_of(b) <= levels_of(a):
        return a
    if levels_of(a) <= levels_of(b):
        return b
    return call(arithmetic.add, (_number(a), _number(b), None), ())


def _number(t: Tensor) -> Tensor:
    """A tensor of no dimensions with the mapped axes of ``t``."""
    return call_view(views.as_strided, (t,), ((), (), t._layout.offset))


def _tuple(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else (out,)


def base_of(t: Tensor) -> Tensor | None:
    """The tensor that ``t`` is a view of, or None."""
    if t._diff is not None:
        return t._diff.base
    return None if t._ex is None else t._ex.get("base")


def _zeros(t: Tensor, like: Tensor) -> Tensor:
    """Zeros of the shape, dtype and memory order of ``t``, with the mapped axes that ``t`` and ``like`` have."""
    new = alike(_maker(t), _mapped_as(like, t), t.shape)
    strides = t._layout.strides
    if strides != contiguous_strides(t._layout.shape) and not (t._view is not None and t._view.steps):
        restride(new, strides)
    return new


def _maker(t: Tensor) -> Callable[[Sequence[int]], Tensor]:
    """What makes zeros of a shape, with the dtype of ``t`` and beside it."""
    dtype, near = t.dtype.np, (t._storage.form,)
    return lambda shape: wrap(immediate.zeros_beside(tuple(shape), dtype, near))


def _in_the_same_places(t: Tensor, dot: Tensor) -> bool:
    """Whether ``dot`` lies in its storage as ``t`` does: a view of ``t`` by places is one of ``dot``, too."""
    a, b = t._layout, dot._layout
    strides = all([size < 2 or m == n for size, m, n in zip(a.shape, a.strides, b.strides, strict=True)])
    if not _same_flags(t, dot) or 0 in a.shape:
        return _same_flags(t, dot)
    # A mapped tangent has as much room as it shows: a view of `t` beyond that is refused.
    return strides and a.offset == b.offset and (bool(levels_of(dot)) or _elements(t) == _elements(dot))


def _same_flags(t: Tensor, dot: Tensor) -> bool:
    return views.is_conj(t) == views.is_conj(dot) and views.is_neg(t) == views.is_neg(dot)


def _elements(t: Tensor) -> int:
    """How many elements of its dtype the storage of ``t`` has room for."""
    return numel(t._storage.form.shape) * t._storage.form.dtype.itemsize // t.dtype.itemsize


def _window(t: Tensor, like: Tensor) -> Tensor:
    """Zeros as ``_zeros`` makes; where ``t`` is a part of a storage, a part of one that is as large."""
    shape, strides, offset = t._layout
    if levels_of(t) or levels_of(like) or (strides == contiguous_strides(shape) and _elements(t) == numel(shape)):
        return _zeros(t, like)
    whole = alike(_maker(t), like, (_elements(t),))
    return call_view(views.as_strided, (whole,), (shape, strides, offset))


def _flagged(dot: Tensor, t: Tensor) -> Tensor:
    """``dot`` conjugated and negated as ``t`` is: views of ``t`` that ask for it are views of ``dot``, too."""
    if views.is_conj(t):
        dot = call_view(views.conj, (dot,), ())
    if views.is_neg(t):
        dot = call_view(views.neg_view, (dot,), ())
    return dot


def _same_view(whole: Tensor, base: Any, t: Tensor) -> Tensor:
    """The part of the tangent ``whole`` of ``base`` that belongs to its view ``t``."""
    if whole._layout == base._layout and _same_flags(whole, base):
        if t._layout == base._layout and t.dtype is whole.dtype and _same_flags(t, base):
            return whole
        plain = _of_dtype(_flagged(whole, whole), t.dtype)
        if plain is not None:  # a view of ``whole``: what is written to it is written there
            return _flagged(call_view(views.as_strided, (plain,), tuple(t._layout)), t)
    steps, ints = t._diff.path(t)
    return call(reader(steps), (whole, *ints), ())


def _of_dtype(t: Tensor, dtype: Any) -> Tensor | None:
    """The storage of ``t`` read as ``dtype``, or None: numbers as pairs and pairs as numbers are linear."""
    if t.dtype is dtype:
        return t
    if t.dtype.is_complex and dtype is t.dtype.to_real():
        return call_view(views.view_as_real, (t,), ())
    if dtype.is_complex and t.dtype is dtype.to_real() and not levels_of(t):
        pairs = call_view(views.as_strided, (t,), ((_elements(t) // 2, 2), (2, 1), 0))
        return call_view(views.view_as_complex, (pairs,), ())
    return None
