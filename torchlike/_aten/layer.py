"""Dispatch as a layer: each kind of operator call shown as aten calls, and recorded around what they returned."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torchlike._aten import history, lower
from torchlike._aten import python_dispatch as layer
from torchlike._aten.history import History
from torchlike._aten.packets import ops
from torchlike._base.state import DISPATCH as DISPATCH_BIT
from torchlike._base.state import below_autograd, state
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd import operator_node
from torchlike._core.autograd.saved_tensors import packs
from torchlike._core.dispatch.dispatch import plan_for
from torchlike._core.dispatch.inplace import check_writable, rebase
from torchlike._core.dispatch.layers import DISPATCH, Call
from torchlike._core.dispatch.out import parts
from torchlike._core.tensor.arguments import KIND, plain
from torchlike._core.tensor.mutation import CHANGED, bump, set_history
from torchlike._core.tensor.storage import UNTRACKED
from torchlike._core.tensor.tensor import Tensor, alias
from torchlike._decl.op import Op


@DISPATCH.install
def _show(call: Call) -> Any:
    """Show one call to the modes and subclasses."""
    if state.dispatch_modes is history.ASKING:
        history.answer(call)
    return _SHOWN[call.form.name](call) if state.dispatch_modes or layer.handlers(call.inputs) else _unseen(call)


DISPATCH.has, DISPATCH.takes = layer.has_dispatch, layer.takes


def _unseen(call: Call) -> Any:
    """A call on tensors whose ``__torch_dispatch__`` is switched off: plain ones stand for them."""
    stands = tuple([_stand(x) for x in call.inputs])
    out = call.run(stands)
    for x, stand in zip(call.inputs, stands, strict=True):
        if stand is x:
            continue
        for t in layer.leaves((out,)):
            if t._diff is not None and t._diff.base is stand:
                t._diff.base = x
        if out is stand:
            set_history(x, stand._edge, stand._rg)
            x._diff, out = stand._diff, x
    return out


def _plain(inputs: tuple, op: Any) -> tuple:
    """The inputs with numpy numbers as Python ones; errors as without a mode."""
    return tuple([x if isinstance(x, Tensor) else plain(op, i, x) for i, x in enumerate(inputs)])


def _new(call: Call) -> Any:
    op, inputs, static = call.op, _plain(call.inputs, call.op), call.static
    records = state.grad and any(isinstance(x, Tensor) and x.requires_grad for x in inputs)
    composed = records and lower.is_composed(op)
    with below_autograd(), history.of(inputs) if composed else nullcontext() as parts:
        out = lower.call(op, inputs, static)
    for t in layer.leaves((out,)):
        if all(t is not x for x in inputs):
            t._diff = None  # made by a view below autograd, which knows nothing of it
    if records:
        out = recorded(op, inputs, static, out, parts)
    if isinstance(out, tuple) and op.returns is not None:
        return op.returns(out)
    return out


# -- recording ------------------------------------------------------------------------------------------------


def recorded(op: Any, inputs: tuple, static: tuple, out: Any, parts: History | None = None) -> Any:
    """``out`` as the results of a recorded call of ``op``; ``parts``: of the calls that were made of it, if several."""
    plan = plan_for(op, [_stand(x) for x in inputs], static, [history.value(x) for x in inputs])
    if plan is None:
        return out
    outs = [
        alias(o, type(o)) if o is not None and any(o is x for x in inputs) else o
        for o in (out if isinstance(out, tuple) else (out,))
    ]
    if not all(isinstance(o, Tensor) for o in outs):
        return out
    saved = [inputs[i] for i in plan.inputs]
    made = _node(op, plan, [nodes.edge_of(inputs[i]) for i in plan.wanted], saved)
    for i in plan.diff:
        outs[i]._edge, outs[i]._rg = (made, i), True
    apart = {i: _apart_of(outs[i], parts) for i in history.in_turn(plan) if i in plan.diff}
    for i in plan.outputs:
        _keep(made, apart.get(i, outs[i]))
    if nodes.WATCHERS:
        nodes.watch(made)
    if any(layer.has_dispatch(type(x)) for x in (*inputs, *outs)):
        layer.count(made)
    return tuple(outs) if isinstance(out, tuple) else outs[0]


def _apart_of(out: Tensor, parts: History | None) -> Tensor:
    """A result as its node saves it: without its history, which would be a cycle."""
    if parts is None and not packs():
        return _apart(out)
    found = None if parts is None else parts.apart.get(id(out))
    return found[1] if found is not None else alias(out) if type(out) in KIND else _apart(out)


def _keep(made: Any, out: Tensor) -> None:
    """Save a result with the node that made it."""
    made._kept.append(out)
    made._versions.append(out._vc.version)


def _node(op: Any, plan: Any, edges: list, saved: list) -> Any:
    """A node; what a plan keeps by value is kept as it is where there is no value."""
    versions = [x._vc.version if isinstance(x, Tensor) else None for x in saved]
    apart, given = plan.apart, list(saved)
    if apart and any(layer.has_dispatch(type(x)) for x in saved):
        plan.apart = ()
    try:
        made = operator_node.make(op, plan, edges, saved, versions)
    finally:
        plan.apart = apart
    if state.trace is not None:
        for new, old in zip(saved, given, strict=True):
            if new is not old:
                state.trace.kept(new, old)
    return made


def _stand(x: Any) -> Any:
    """A plain tensor in place of a wrapper: its metadata and history, no class."""
    if not isinstance(x, Tensor) or type(x) in KIND:
        return x
    new = alias(x)
    new._rg, new._edge, new._diff = x._rg, x._edge, x._diff
    if x._rg and x._edge is None:
        new._ex = {"keeps": nodes.accumulator(x)}
        new._acc = x._acc
    return new


# -- views ------------------------------------------------------------------------------------------------------


def _view(call: Call) -> Any:
    t = call.inputs[0]
    with below_autograd():
        out = lower.view(call.op, t, call.static)
    if not isinstance(out, Tensor):
        return out
    stand = _stand(t)
    with layer.modes_set_to(()):
        like = call.run((stand,))
    return _adopted(out, like, t, stand)


def _adopted(out: Tensor, like: Tensor, t: Tensor, stand: Tensor) -> Tensor:
    """``out``, the result of a view of ``t``, with the ties and history of ``like``, the same view of ``stand``."""
    if out is t:
        out = alias(t, type(t))
        out.__dict__.update(getattr(t, "__dict__", {})) if hasattr(out, "__dict__") else None
    diff = like._diff
    if diff is not None and diff.base is stand:
        diff.base = t
    out._edge, out._rg = like._edge, like._rg
    if layer.has_dispatch(type(out)):
        if out.shape == like.shape and out.dtype is like.dtype:
            out._storage, out._view, out._cache, out._vc = like._storage, like._view, None, like._vc
        out._diff = diff
    elif out._storage is like._storage:
        out._diff = diff
    CHANGED.mark = []  # it may be a tensor that the user had before
    if layer.has_dispatch(type(t)) and like._edge is not None:
        layer.count(like._edge[0])
    return out


def _views(call: Call) -> Any:
    t, static = call.inputs[0], call.static[0]
    with below_autograd():
        if isinstance(call.op, Op):
            out = lower.call(call.op, call.inputs, static)
        else:  # over a mapped axis
            out = [lower.restrided(t, layout) for _, _, _, layout in call.static[1]]
    stand = _stand(t)
    with layer.modes_set_to(()):
        like = call.run((stand,))
    return tuple([_adopted(o, n, t, stand) for o, n in zip(out, like, strict=True)])


# -- in place -----------------------------------------------------------------------------------------------------


def _inplace(call: Call) -> Any:
    op, inputs, static = call.op, _plain(call.inputs, call.op), call.static
    with rewritten(op, inputs, static), below_autograd():
        lower.inplace(op, inputs, static)
    return inputs[0]


@contextmanager
def rewritten(op: Any, inputs: tuple, static: tuple) -> Iterator[None]:
    """Within, the first input is changed as by an in-place call, whose history it then gets."""
    target = inputs[0]
    record = _checked(op, inputs)
    plan = None
    if record:
        plan = plan_for(op, [_stand(x) for x in inputs], static, [history.value(x) for x in inputs])
    if plan is not None:
        edges = [nodes.edge_of(inputs[i]) for i in plan.wanted]
        saved = [_before(inputs[i]) if inputs[i] is target else inputs[i] for i in plan.inputs]
    before = None if target._vc is UNTRACKED else target._vc.version
    yield
    if target._vc is not UNTRACKED and target._vc.version == before:
        bump(target)
    if plan is None:
        return
    made = _node(op, plan, edges, saved)
    rebase(target, made, 0 if 0 in plan.wanted else None)
    if target._diff is not None and target._diff.base._view is None:
        target._diff.base._edge[0]._extra("layout", lambda: target._layout)
    for _ in plan.outputs:
        _keep(made, _apart_of(target, None))
    if nodes.WATCHERS:
        nodes.watch(made)
    if any(layer.has_dispatch(type(x)) for x in inputs):
        layer.count(made)


def _checked(op: Any, inputs: tuple) -> bool:
    """PyTorch's checks before an in-place call; whether it is recorded."""
    if all(not isinstance(x, Tensor) or type(x) in KIND for x in inputs):
        return check_writable(op.name, inputs[0], inputs)
    stands = [_stand(x) for x in inputs]
    return check_writable(op.name, stands[0], stands)


def _before(t: Tensor) -> Tensor:
    """The value of the target before it changes, with its history."""
    with below_autograd():
        old = layer.invoke(ops.aten.clone.default, (t,), {})
    if old is t:
        old = alias(t, type(t))
    old._edge, old._rg = t._edge, t._rg
    return old


# -- with out= ------------------------------------------------------------------------------------------------------


def _out(call: Call) -> tuple:
    """Show a call with ``out=``; where its operator has no such overload, what is called to compute the result."""
    inputs, static, outs = parts(call.inputs, call.static)
    func, kwargs = lower.out_overload(call.op, inputs, static, outs)
    if func is None:
        return call.run()
    versions = [None if o._vc is UNTRACKED else o._vc.version for o in outs]
    layer.invoke(func, *layer.normalised(func, (), kwargs))
    for o, before in zip(outs, versions, strict=True):
        if before is not None and o._vc.version == before:
            bump(o)
    return outs


_SHOWN = {"new": _new, "view": _view, "views": _views, "inplace": _inplace, "out": _out}


# -- functions ---------------------------------------------------------------------------------------------------------


def _whole(name: str, function: Callable, args: tuple, kwargs: dict) -> Any:
    """The results of a function that is shown as one call, with the history that its own calls have."""
    func = _closest(getattr(ops.aten, name), args, kwargs) if state.active == DISPATCH_BIT else None
    inputs = list(layer.leaves((*args, *kwargs.values())))
    records = state.grad and any(t.requires_grad for t in inputs)
    if func is None or records and any(type(t) not in KIND for t in inputs):
        return function(*args, **kwargs)
    found: list = []

    def compute(*given: Any, **named: Any) -> Any:
        same = [x is y for x, y in zip(layer.leaves((*given, *named.values())), inputs, strict=False)]
        if not records or len(same) != len(inputs) or not all(same):
            return function(*given, **named)
        with _recording():
            found.append(function(*args, **kwargs))
        return _without_history(found[0])

    with below_autograd():
        out = layer.invoke_with(compute, func, *layer.normalised(func, args, kwargs))
    if not records:
        return tuple(out) if isinstance(out, list) else out
    if not found:
        with layer.modes_set_to(()):
            found.append(function(*args, **kwargs))
    like = _in_storages_of(out, found[0])
    for t in layer.leaves((like,)):
        if t._edge is not None and _saves(*t._edge) and not packs():
            _apart(t)
    return like


def _saves(node: Any, number: int) -> bool:
    """Whether a node keeps its own result of this number."""
    return isinstance(node, operator_node.OpNode) and number in node.plan.outputs


def _in_storages_of(out: Any, like: Any) -> Any:
    """``like``, tensors with their history, whose values are those of ``out``."""
    for t, new in zip(layer.leaves((out,)), layer.leaves((like,)), strict=True):
        if t._storage is not new._storage:
            new._storage, new._view, new._cache, new._vc = t._storage, t._view, None, t._vc
    return like


def _as_calls(calls: Callable, function: Callable, args: tuple) -> Any:
    """The results of a function that is shown as other calls, with the history that its own calls have."""
    inputs = list(layer.leaves(args))
    records = state.grad and any(t.requires_grad for t in inputs)
    if state.active != DISPATCH_BIT or records and any(type(t) not in KIND for t in inputs):
        return function(*args)
    with below_autograd(), history.of(args) if records else nullcontext():
        out = calls(lower.CALLS, *args)
    if not records:
        return tuple(out) if isinstance(out, list) else out
    with layer.modes_set_to(()):
        return _in_storages_of(out, function(*args))


def _closest(packet: Any, args: tuple, kwargs: dict) -> Any:
    """The overload that takes most of the tensors as such: they may stand for numbers, too."""
    tensors = lambda o: sum("Tensor" in str(a.type) for a in o._schema.arguments[: len(args)])  # noqa: E731
    return max(packet.fitting(args, kwargs), key=tensors, default=None)


@contextmanager
def _recording() -> Iterator[None]:
    """Within a kernel, a run of calls as if it were outside."""
    before = state.grad, state.dispatch_grad, layer.set_depth(0)
    state.grad, state.dispatch_grad = True, None
    try:
        yield
    finally:
        state.grad, state.dispatch_grad, _ = before
        layer.set_depth(before[-1])


def _without_history(out: Any) -> Any:
    return alias(out) if isinstance(out, Tensor) else [_without_history(t) for t in out]


DISPATCH.whole, DISPATCH.as_calls = _whole, _as_calls


# -- detach ----------------------------------------------------------------------------------------------------------


def _detached(t: Tensor) -> Tensor | None:
    return _apart(t) if state.dispatch_modes or layer.takes(type(t)) else None


def _apart(t: Tensor) -> Tensor:
    """``t.detach()`` as a ``__torch_dispatch__`` gives it: its changes in place are those of ``t``."""
    out = layer.invoke(ops.aten.detach.default, (t,), {})
    if out is t:
        return alias(t, type(t))
    if out is None:
        raise RuntimeError("detach returned invalid type NoneType, expected Tensor")
    if isinstance(out, Tensor) and UNTRACKED not in (t._vc, out._vc):
        out._vc = t._vc
    return out


DISPATCH.detach = _detached
