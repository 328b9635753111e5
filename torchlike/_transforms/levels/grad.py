"""The level of reverse-mode derivatives: a tape of its own, over tensors that stand for those of the level below.

Note [Grad levels]
~~~~~~~~~~~~~~~~~~
A tensor of a grad level is an ordinary tensor, with a value and a history on the tape of this level; its storage says
of which level it is, and which tensor of the level below it stands for (``inner``). A call computes at the level
below, which records on its own tape, and then records here. Where nothing below could notice the difference (no
further level, no mode, nothing that requires grad) the inner tensor is not made before somebody asks for it, and the
call is what it is outside of all transforms. When the level ends, the tensors that are left become those that they
stood for; the tape is kept by who asks for gradients.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from torchlike._base.layout import Layout
from torchlike._base.state import AUTOCAST, CAPTURE, LEVELS, state
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd.operator_node import OpNode
from torchlike._core.autograd.saved_tensors import IGNORED
from torchlike._core.dispatch.dispatch import NEW, call, plan_for, refresh, with_results
from torchlike._core.dispatch.inplace import CopySlices, call_inplace, check_writable, finish
from torchlike._core.dispatch.layers import DISPATCH, TRANSFORMS
from torchlike._core.dispatch.view_calls import VIEW, call_view, tie
from torchlike._core.overrides.torch_function import unseen
from torchlike._core.tensor.mutation import become, bump, store
from torchlike._core.tensor.shared_memory import Shared
from torchlike._core.tensor.storage import UNTRACKED, Storage
from torchlike._core.tensor.tensor import Tensor, alias, stopped, value_of, versioned, wrap
from torchlike._core.tensor.views import View, followed_by_jax, reader
from torchlike._executor.level import LevelValue
from torchlike._ops import shape as shapes
from torchlike._ops import view as views
from torchlike._transforms.levels.jvp import JvpLevel
from torchlike._transforms.levels.levels import Level, captured, leave_inference, level_below, resume_inference
from torchlike._transforms.levels.vmap import VmapLevel

if TYPE_CHECKING:
    from torchlike._core.dispatch.layers import Call
    from torchlike._decl.derive import Kernel

_POINTER = "Cannot access data pointer of Tensor that doesn't have storage"
_QUIET = LEVELS | AUTOCAST | CAPTURE  # the layers that need not see what a tensor of a level stands for


class GradStorage(Storage):
    """The storage of a tensor of a grad level; ``inner`` is what it stands for, None while nobody has asked."""

    __slots__ = ()
    stands = True

    @property
    def address(self) -> int:
        raise RuntimeError(_POINTER)

    @property
    def handle(self) -> Any:
        raise NotImplementedError("Cannot access storage of TensorWrapper: a tensor inside of grad has none of its own")


class GradLevel(Level):
    """One call of a function whose derivative is wanted.

    Args:
        forward: the derivative of forward mode, which saves nothing that hooks of saved tensors are called for.
    """

    owns = wraps = casts = True

    def __init__(self, forward: bool = False) -> None:
        super().__init__()
        self.forward = forward
        self.dead = False
        self.before: bool | None = state.grad  # the grad mode outside, which holds below
        self.alone = not state.levels
        self.map = state.levels[-1] if state.levels and state.levels[-1].__class__ is VmapLevel else None
        self.tracks = not self.alone  # whether anything below may record or watch what is computed here
        self.made: list[weakref.ref] = []

    def __enter__(self) -> Self:
        self._pack_refused = state.pack_refused
        if state.pack is not None:
            raise RuntimeError(_NO_HOOKS)
        super().__enter__()
        self._inference = leave_inference()
        state.grad = True
        state.pack_refused = IGNORED if self.forward and state.pack_refused is None else _NO_HOOKS
        return self

    def __exit__(self, *exc: object) -> None:
        state.grad, state.pack_refused = self.before, self._pack_refused
        super().__exit__(*exc)
        resume_inference(self._inference)
        self.dead = True

    # -- tensors of this level and of the one below ---------------------------------------------------
    def holds(self, x: Any) -> bool:
        """Whether ``x`` is a tensor of this level."""
        if not isinstance(x, Tensor):
            return False
        storage = x._storage
        return storage.__class__ is GradStorage and storage.level is self

    @unseen
    def lifted(self, given: Iterable[Any]) -> list[Any]:
        """The tensors of this level that stand for those given; what is no tensor stays."""
        return [self._lift(x) if isinstance(x, Tensor) else x for x in given]

    @unseen
    def lift(self, inner: Tensor) -> Tensor:
        """The tensor of this level that stands for ``inner``."""
        return self._lift(inner)

    def _lift(self, inner: Tensor) -> Tensor:
        t = wrap(value_of(inner))
        self.adopt(t, inner)
        if inner._view is not None:
            t._view = View((), (), inner._layout)
            t._storage.strides = inner._storage.strides if not inner._view.steps else None
        self.tracks = self.tracks or inner._rg or self.watched(inner)
        return t

    def adopt(self, t: Tensor, inner: Tensor | None = None) -> Tensor:
        """Let the new tensor ``t`` be of this level."""
        storage = t._storage
        if storage.__class__ is not GradStorage:
            storage.__class__ = GradStorage  # type: ignore[assignment]
            storage.level, storage.inner = self, inner
        self.made.append(weakref.ref(t))
        return t

    def watched(self, inner: Tensor) -> bool:
        """Whether something below must see the calls on ``inner``."""
        return not self.alone or (inner._rg and bool(self.before)) or DISPATCH.has(inner.__class__)

    def tracked(self, inputs: Iterable[Any]) -> bool:
        """Whether a call of these inputs must be made at the level below too."""
        if not self.alone or state.active & ~_QUIET:
            return True
        for x in inputs:
            if isinstance(x, Tensor):
                storage = x._storage
                if storage.__class__ is GradStorage and storage.level is self:
                    if storage.inner is not None and self.watched(storage.inner):
                        return True
                elif nodes.requires_grad(x) or DISPATCH.has(x.__class__):
                    self.tracks = True
                    return True
        return False

    def lower(self, x: Any) -> Any:
        """What ``x``, an argument, is at the level below, at which this runs."""
        if not isinstance(x, Tensor):
            return x
        storage = x._storage
        if storage.__class__ is not GradStorage or storage.level is not self:
            return x
        if x._ex is None and x._view is None and storage.inner is not None:
            return storage.inner
        return self._lower(x)

    @unseen
    def _lower(self, x: Tensor) -> Tensor:
        own = None if x._ex is None else x._ex.get("inner")
        if own is not None:
            return own
        storage = x._storage
        inner = storage.inner
        if inner is None:
            inner = storage.inner = wrap(storage.value)
            if not self.dead:
                TRANSFORMS.born(inner)
            if storage.strides is not None or (x._view is not None and not x._view.steps):
                inner._storage.strides = storage.strides
                if storage.strides is not None:
                    inner._view = View((), (), Layout(storage.value.shape, storage.strides, 0))
        if x._view is None or not x._view.steps:
            return inner
        return _same_view(inner, x)

    def constant(self, x: Any) -> Any:
        """``x`` as an argument of a call that this level records: what is not of it has no history here."""
        if not isinstance(x, Tensor) or self.holds(x):
            return x
        return self.lift(x) if nodes.requires_grad(x) else x

    def run_below(self, run: Callable[..., Any], *args: Any) -> Any:
        """``run(*args)`` under the grad mode of the level below, which is active."""
        here = state.grad
        state.grad = here and self.before
        try:
            return run(*args)
        finally:
            state.grad = here

    # -- calls ---------------------------------------------------------------------------------------
    def handle(self, made: Call) -> Any:
        op, form, inputs, static = made
        if form.fresh or form.writes:
            inputs = self.without_inference(inputs, form.writes)
            made = made if inputs is made.inputs else made._replace(inputs=inputs)
        if form.writes:
            return self.inplace(made)
        if self.map is not None and form is NEW and state.active == LEVELS:
            simple = self.simply_lowered(inputs)
            if simple is not None:
                return self.recorded(op, inputs, static, self.run_below(self.map.at_once, op, simple, static))
        tracked = self.tracked(inputs)
        if not form.fresh:
            return self.view(made, tracked)
        if not tracked:
            return self.taken(made.run())
        lowered = tuple([self.lower(x) for x in inputs])
        out = self.run_below(form.run, op, lowered, static)
        return self.recorded(op, tuple([self.constant(x) for x in inputs]), static, out)

    def without_inference(self, inputs: tuple[Any, ...], first: int) -> tuple[Any, ...]:
        """The inputs from ``first`` on, inference tensors from outside as constants of this level."""
        if not any([isinstance(x, Tensor) and x._vc is UNTRACKED for x in inputs[first:]]):
            return inputs
        own = [self.lift(x) if isinstance(x, Tensor) and x._vc is UNTRACKED else x for x in inputs[first:]]
        return (*inputs[:first], *own)

    def simply_lowered(self, inputs: Iterable[Any]) -> tuple[Any, ...] | None:
        """What the inputs stand for, where that is known and none has a history but this level's; None otherwise."""
        found: list[Any] = []
        for x in inputs:
            if x.__class__ is Tensor:
                if x._view is not None or x._ex is not None:
                    return None
                storage = x._storage
                if storage.__class__ is GradStorage and storage.level is self:
                    if storage.inner is None:
                        return None
                    x = storage.inner
                elif x._rg:
                    return None
            elif isinstance(x, Tensor):
                return None
            found.append(x)
        return tuple(found)

    def recorded(self, op: Kernel, given: Any, static: Any, out: Any) -> Any:
        """Tensors of this level for the results ``out`` of a call that is recorded here."""
        if isinstance(out, Tensor):
            new = self.apart(with_results, op, given, static, value_of(out))
            if new.__class__ is Tensor:
                self.adopt(new, out)
                self.settle(new, given)
                return new
            outs = [out]
        else:
            outs = _list(out)
            new = self.apart(with_results, op, given, static, tuple([value_of(o) for o in outs]))
        news = _list(new)
        for t, inner in zip(news, outs, strict=True):
            self.adopt(t, inner)
        self.settle(news[0] if news else None, given)
        return new

    def apart(self, run: Callable[..., Any], *args: Any) -> Any:
        """``run(*args)``, which records here and shows nothing to other layers."""
        active, state.active = state.active, 0
        try:
            return run(*args)
        finally:
            state.active = active

    def taken(self, out: Any) -> Any:
        """Results of a call that nothing below needs to see, as tensors of this level."""
        if out.__class__ is Tensor:
            if out._edge is not None and isinstance(out._edge[0], OpNode) and out._edge[0].plan.apart:
                self.own_kept(out)
            return self.adopt(out)
        for t in _list(out):
            self.taken(t)
        return out

    def own_kept(self, t: Tensor) -> None:
        """Let what the node of ``t`` keeps apart from tensors be of this level too."""
        for node in _nodes(t):
            for kept in node._kept or ():
                if isinstance(kept, Tensor) and kept._storage.__class__ in (Storage, Shared) and kept._rg:
                    self.adopt(kept)

    def settle(self, out: Any, given: Sequence[Any]) -> None:
        """What the node of ``out`` keeps apart from the inputs stands for copies of what they stand for."""
        if out is None or out._edge is None:
            return
        node = out._edge[0]
        node = node.inner if isinstance(node, CopySlices) else node
        if not isinstance(node, OpNode) or not node.plan.apart or not node._kept:
            return
        for i, kept in zip(node.plan.inputs, node._kept, strict=False):
            if isinstance(kept, Tensor) and kept._storage.__class__ in (Storage, Shared) and self.holds(given[i]):
                self.adopt(kept, self.run_below(call, shapes.clone, (self.lower(given[i]),), (None,)))

    def view(self, made: Call, tracked: bool) -> Any:
        """A view, or several; one of a tensor from outside stays outside."""
        op, form, inputs, static = made
        if not self.holds(inputs[0]):
            return self.run_below(made.run)
        if form is not VIEW:
            static = (static[0], list(static[1]))
        new = self.apart(form.run, op, inputs, static)
        news = _list(new)
        if tracked:
            inner = self.lower(inputs[0])
            for t, low in zip(news, _list(self.run_below(form.run, op, (inner,), static)), strict=True):
                self.stands(t, low)
        self.made += [weakref.ref(t) for t in news]
        return new

    def stands(self, t: Tensor, inner: Tensor) -> None:
        """Let the view ``t`` stand for ``inner``, not for the same view of what its base stands for."""
        t._ex = {**(t._ex or {}), "inner": inner}
        if isinstance(t._storage.form, LevelValue):
            t._storage.keep(t, t._storage.epoch, value_of(inner))

    def inplace(self, made: Call) -> Tensor:
        op, form, inputs, static = made
        target = inputs[0]
        if not self.holds(target):
            raise captured(op)
        if target._storage.inner is None and not self.tracked(inputs):
            made.run()
            self.own_kept(target)
            return target
        given = tuple([self.constant(x) for x in inputs])
        record = check_writable(op.name, target, given)
        values = [value_of(x) if isinstance(x, Tensor) else x for x in given]
        lowered = tuple([self.lower(x) for x in inputs])
        before = list(lowered)
        plan = plan_for(op, given, static, values) if record else None
        if plan is not None and 0 in plan.inputs:
            before[0] = self.run_below(call, shapes.clone, (lowered[0],), (None,))
            values[0] = value_of(before[0])
        self.run_below(form.run, op, lowered, static)
        self.apart(finish, op, given, static, values, None, record, None, _counted)
        if plan is not None:
            self.kept_apart(target, given, before)
        self.refreshed(target)
        return target

    def refreshed(self, t: Tensor) -> None:
        """Read anew what ``t`` stands for, which may have changed."""
        inner = t._storage.inner
        if inner is not None:
            value = value_of(inner)
            if value is not t._storage.value or isinstance(value, LevelValue):
                store(t._storage, value)

    def kept_apart(self, target: Tensor, given: Sequence[Any], before: Sequence[Any]) -> None:
        """What the node of a change in place keeps of its inputs stands for what they stood for before it."""
        for node in _nodes(target):
            for i, kept in zip(node.plan.inputs, node._kept or (), strict=False):
                if isinstance(kept, Tensor) and kept._storage.__class__ in (Storage, Shared) and self.holds(given[i]):
                    self.adopt(kept, before[i])

    def wrote(self, t: Tensor, value: Any) -> None:
        """Write what was written into ``t``, by what is no operator call, into what it stands for."""
        grad, state.grad = state.grad, False
        try:
            with level_below(self):
                call_inplace(shapes.copy.inplace, (self.lower(t), wrap(value)), (False,))
        finally:
            state.grad = grad

    def detach(self, t: Tensor) -> Tensor:
        """``t`` without history, at the levels below too."""
        if not self.holds(t):
            return super().detach(t)
        new = stopped(alias(t))
        if self.tracks or followed_by_jax(t._storage.form):
            with level_below(self):
                self.stands(new, self.lower(t).detach())
        self.made.append(weakref.ref(new))
        return new

    def data(self, t: Tensor) -> Tensor:
        """``t.data``: without its history here, with that at the levels below."""
        if not self.holds(t):
            return super().data(t)
        new = versioned(alias(t))
        if self.tracks:
            with level_below(self):
                self.stands(new, self.lower(t))
        self.made.append(weakref.ref(new))
        return new

    # -- the end ------------------------------------------------------------------------------------
    @unseen
    def end(self) -> None:
        """Let the tensors that are left become what they stand for: the level is not active any more."""
        made, self.made = self.made, []
        for ref in made:
            t = ref()
            if t is not None:
                self.release(t)

    def release(self, t: Tensor) -> None:
        storage = t._storage
        if storage.__class__ is not GradStorage or storage.level is not self:
            return
        if storage.inner is None and (t._ex is None or "inner" not in t._ex):
            t._edge, t._rg, t._diff = None, False, None
            return
        inner = self.lower(t)
        if inner._diff is not None and state.grad:
            refresh(inner)
        t._edge = None  # its node is of the tape, and the geometry stays what was recorded
        become(t, inner._storage, inner._view)
        t._edge, t._rg, t._diff = inner._edge, inner._rg, None
        t._ex = {**{k: v for k, v in (t._ex or {}).items() if k != "inner"}, "escaped": True}
        if inner._ex is not None and "inner" in inner._ex:  # a detached tensor stands for one that is detached too
            t._ex["inner"] = inner._ex["inner"]
        if inner._rg and inner._edge is None:
            t._ex["sink"] = sink = nodes.accumulator(inner)  # what a leaf holds weakly
            t._acc = weakref.ref(sink)
        for level in state.levels:
            dot = level.of(inner) if isinstance(level, JvpLevel) else None
            if dot is not None:
                level.put(t, dot)


_NO_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use "
    "case, or leave the hooks outside of the function that is transformed."
)


def _counted(target: Tensor, value: Any, expected: Any) -> bool:
    """A write, of what is read anew from the level below."""
    bump(target)
    return True


def _nodes(t: Tensor) -> Iterable[OpNode]:
    """The node of the call that made ``t``, or that changed it in place: then it may be in the history of its base."""
    for x in (t,) if t._diff is None else (t, t._diff.base):
        node = None if x._edge is None else x._edge[0]
        node = node.inner if isinstance(node, CopySlices) else node
        if isinstance(node, OpNode):
            yield node


def _list(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple | list) else [out]


def _same_view(inner: Tensor, t: Tensor) -> Tensor:
    """The view of ``inner``, for which the base of ``t`` stands, that ``t`` is."""
    view: Any = t._view
    if view.dtype is None and not (views.is_conj(t) or views.is_neg(t)):
        return call_view(views.as_strided, (inner,), tuple(view.layout))
    if isinstance(inner._storage.form, LevelValue):
        return call(reader(view.steps), (inner, *view.ints), ())
    own = ((), ()) if inner._view is None else (inner._view.steps, inner._view.ints)
    new = alias(inner)
    new._view = View((*own[0], *view.steps), (*own[1], *view.ints), view.layout, view.dtype)
    new._cache = None
    tie(inner, new)
    if inner._rg:
        new._diff.version, new._rg = -1, True
        refresh(new)
    return new
