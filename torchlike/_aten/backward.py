"""Backward kernels as aten calls: those of their formula, or one of their own where aten has no word for a part."""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from jax import ShapeDtypeStruct

from torchlike._aten import (
    lower,
    mapped,
    places,  # noqa: F401  (what run knows)
)
from torchlike._aten.jaxpr import Spread, is_number, missing, run, whole, wrapped
from torchlike._aten.lower import Later, redispatch
from torchlike._aten.packets import OpOverload, ops, packet
from torchlike._aten.python_dispatch import invoke, without_dispatch
from torchlike._aten.strides import by_columns
from torchlike._base.dtypes import FROM_NP
from torchlike._base.jaxprs import Literal
from torchlike._base.state import state
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import Tensor, strided
from torchlike._decl.batch import Batch
from torchlike._decl.derive import as_tuple, results_of
from torchlike._decl.function_schema import parse_schema
from torchlike._decl.naming import named_trace
from torchlike._decl.op import ViewOp, parameters

_aten = ops.aten
_OPAQUE = object()


def recipe(plan: Any) -> Any:
    """The jaxpr of a plan's gradients with the names of words, or None if it has parts that aten has no word for."""
    if plan.recipe is None:
        function, avals = _source(plan)
        closed = _without_conjugates(named_trace(function, *avals))
        if missing(closed.jaxpr):
            plan.recipe = _OPAQUE
        else:
            plan.recipe = _without_twins(closed) if plan.explicit else _in_order(closed, plan)
    return None if plan.recipe is _OPAQUE else plan.recipe


def _source(plan: Any) -> Any:
    """All gradients as a function of the kernel's arguments, and their shapes and dtypes."""
    if plan.source is None:  # the plan came from a store, or from one for a mapped call
        made = plan.op.derivative(plan.static, plan.avals, plan.wanted)
        plan.source, plan.explicit = made.source, made.explicit
    if plan.source is None:
        avals = [plan.avals[i] for i in plan.inputs] + [plan.outs[i] for i in (*plan.outputs, *plan.diff)]
        plan.source = lambda *values: plan.routed(values, as_tuple(plan.kernel.function(*values))), avals
    return plan.source


def _without_twins(closed: Any) -> Any:
    """A jaxpr in which gradients of several inputs share a reshaped gradient."""
    same: dict[Any, Any] = {}
    eqns: list = []
    found: dict[Any, Any] = {}
    for eqn in closed.jaxpr.eqns:
        eqn = eqn.replace(invars=[v if isinstance(v, Literal) else same.get(v, v) for v in eqn.invars])
        word = eqn.params["word"].name if eqn.primitive.name == "word" else eqn.primitive.name
        if word in ("reshape", "view", "unsqueeze") and not isinstance(eqn.invars[0], Literal):
            key = eqn.invars[0], word, eqn.outvars[0].aval.shape
            if key in found:
                same[eqn.outvars[0]] = found[key]
                continue
            found[key] = eqn.outvars[0]
        eqns.append(eqn)
    outs = [v if isinstance(v, Literal) else same.get(v, v) for v in closed.jaxpr.outvars]
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns, outvars=outs))


# What commutes with conjugation if the numbers that it has beside tensors, as zeros of padding, are real.
_COMMUTES = frozenset(
    "pad reshape transpose slice squeeze expand_dims broadcast_in_dim neg concatenate reduce_sum".split()
)


def _without_conjugates(closed: Any) -> Any:
    """A jaxpr without the pairs of conjugations that jax's convention of gradients and PyTorch's differ by."""
    if not any(eqn.primitive.name == "conj" for eqn in closed.jaxpr.eqns):
        return closed
    same: dict[Any, Any] = {}
    apart: dict[Any, Any] = {}  # of variables, those that they are conjugates of
    eqns: list = []
    for eqn in closed.jaxpr.eqns:
        ins = [v if isinstance(v, Literal) else same.get(v, v) for v in eqn.invars]
        eqn, name = eqn.replace(invars=ins), eqn.primitive.name
        tensors = [v for v in ins if not isinstance(v, Literal)]
        known = bool(tensors) and all(v in apart for v in tensors)
        if name == "conj" and known:
            same[eqn.outvars[0]] = apart[ins[0]]
            continue
        to_real = name == "convert_element_type" and eqn.outvars[0].aval.dtype.kind != "c"
        if (name == "real" or to_real) and known:
            eqn = eqn.replace(invars=[apart[ins[0]]])
        elif name == "conj":
            apart[eqn.outvars[0]] = ins[0]
        elif name in _COMMUTES and known and all(not np.imag(v.val) for v in ins if isinstance(v, Literal)):
            bare = [type(v)(v.aval) for v in eqn.outvars]
            eqns.append(eqn.replace(invars=[v if isinstance(v, Literal) else apart[v] for v in ins], outvars=bare))
            apart[eqn.outvars[0]] = bare[0]
        eqns.append(eqn)
    outs = [v if isinstance(v, Literal) else same.get(v, v) for v in closed.jaxpr.outvars]
    needed = {v for v in outs if not isinstance(v, Literal)}
    kept = []
    for eqn in reversed(eqns):
        if needed.intersection(eqn.outvars) or eqn.primitive.name in ("word", "later", "unseen"):
            kept.append(eqn)
            needed.update(v for v in eqn.invars if not isinstance(v, Literal))
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=kept[::-1], outvars=outs))


def _in_order(closed: Any, plan: Any) -> Any:
    """A jaxpr that jax derived, with its equations in PyTorch's order: by the names of inputs, sums at the end."""
    jaxpr, makers = closed.jaxpr, {v: eqn for eqn in closed.jaxpr.eqns for v in eqn.outvars}
    outs = [_summand(v, makers, plan) for v in jaxpr.outvars]
    names = [_name(plan, i) for i in plan.wanted]
    eqns: dict[int, Any] = {}
    for i in sorted(range(len(outs)), key=lambda i: names[i]):
        _needed(outs[i], makers, eqns)
    return closed.replace(jaxpr=jaxpr.replace(eqns=list(eqns.values()), outvars=outs))


def _name(plan: Any, i: int) -> str:
    dynamic = plan.op.declaration.dynamic
    return dynamic[i].name if i < len(dynamic) and not dynamic[i].is_list else f"~{i:06}"


_UNDONE = frozenset(("reduce_sum", "reshape", "broadcast_in_dim", "squeeze"))


def _summand(var: Any, makers: dict, plan: Any) -> Any:
    """What is summed to undo broadcasting, if that is what the last equations do."""
    shape, at, sums = plan.outs[plan.diff[0]].shape, var, []
    while not isinstance(at, Literal) and at in makers and makers[at].primitive.name in _UNDONE:
        if makers[at].primitive.name == "reduce_sum":
            if makers[at].invars[0].aval.shape != shape:
                return var
            sums.append(makers[at].params["axes"])
        at = makers[at].invars[0]
    if isinstance(at, Literal) or at.aval.shape != shape or len(sums) != 1:
        return var
    lead = len(shape) - len(var.aval.shape)
    own = [n == 1 != shape[i + lead] for i, n in enumerate(var.aval.shape)]
    undone = tuple(range(lead)) + tuple(i + lead for i, alone in enumerate(own) if alone)
    long = [i for i in undone if shape[i] != 1]  # jax also sums over dimensions of length 1
    return at if [i for i in sums[0] if shape[i] != 1] == long else var


def _needed(var: Any, makers: dict, eqns: dict) -> None:
    """Add the equations that a variable depends on, in their order."""
    stack, found = [var], {}
    while stack:
        at = stack.pop()
        eqn = None if isinstance(at, Literal) else makers.get(at)
        if eqn is not None and id(eqn) not in found:
            found[id(eqn)] = eqn
            stack.extend(eqn.invars)
    order = {id(eqn): i for i, eqn in enumerate(makers.values())}
    for key in sorted(found, key=order.__getitem__):
        eqns.setdefault(key, found[key])


def known(plan: Any, args: tuple | None = None) -> bool:
    """Whether a plan's gradients are calls that can be shown; ``args``: what a view was made with."""
    if plan.refuses:
        return False
    by_name = named(plan) is not None and (args is not None or not isinstance(plan.op.declaration, ViewOp))
    return by_name or recipe(plan) is not None


_PRODUCTS = frozenset("mm bmm addmm baddbmm mv addmv matmul dot_general".split())


def multiplies(plan: Any) -> bool:
    """Whether a plan's formula has products of float32 matrices as calls, which autocast casts."""
    single = any(getattr(a, "dtype", None) == np.float32 for a in (*plan.avals, *plan.outs))
    by_name = named(plan) if single and not plan.refuses else callable
    if callable(by_name) or by_name and any(isinstance(text, str) for text, _ in by_name.values()):
        return False
    if (closed := recipe(plan)) is None:
        return False
    words = [e.params["word"].name if e.primitive.name == "word" else e.primitive.name for e in closed.jaxpr.eqns]
    return any(w.partition(".")[0] in _PRODUCTS for w in words)


def gradients(
    plan: Any, values: tuple, args: tuple | None = None, node: Any = None, absent: Collection[int] = ()
) -> list | None:
    """The gradients of the wanted inputs in order, as aten calls; None where they are one call of its own.

    ``node``: whose they are, if there is one. ``absent``: which results have got no gradient; zeros stand for theirs.
    """
    if not known(plan, args):
        return None
    by_name = named(plan)
    if by_name is None or args is None and isinstance(plan.op.declaration, ViewOp):
        scalar = node is not None and lower.SCALAR in (node._ex or ())
        got = run(recipe(plan), values if scalar else _marked(plan, values))
    elif isinstance(plan.op.declaration, ViewOp):
        got = _of_view(plan, values, args)
    else:
        got = _called(by_name, Case(plan, values, node, absent))
    found = {i: fitted(g, plan.avals[i], values[-1]) for g, i in zip(got, plan.fulfilled(), strict=True)}
    return [found.get(i) for i in plan.wanted]


# -- PyTorch's own backward operators --------------------------------------------------------------------------------


def named(plan: Any) -> Any:
    """What the declaration says of PyTorch's backward operators, if they give all gradients that are wanted."""
    op = plan.op.declaration
    backward = op.backward
    if backward is None or callable(backward):  # of a view
        return backward
    case = Case(plan, ())
    names = case.needs
    fitting = {wrt: b for wrt, b in backward.items() if "when" not in b[1] or case.plain(b[1]["when"])}
    covered = {n for wrt in fitting for n in (wrt or op.dynamic[0].name).split(", ")}
    return fitting if covered.issuperset(names) else None


def _of_view(plan: Any, values: tuple, args: Any) -> list:
    """The adjoint of a view in PyTorch's words, from the arguments that it was made with."""
    op, grad = plan.op.declaration, values[-1]
    named = [args[i] if i < len(args) else a.default for i, a in enumerate(op.schema.args[1:]) if not a.kwarg_only]
    shape = tuple(plan.avals[0].shape)
    closed = named_trace(lambda g: op.backward(g, shape, *named), plan.outs[0])
    return run(closed, [grad])


class Case:
    """One backward: what its call was, what was saved of it, and the gradients of its results.

    Attributes:
        static: {argument: value}. needs: the names of the inputs that get a gradient. grad: that of the first
            differentiable result. grads: those of all results, None where there is none.
    """

    def __init__(self, plan: Any, values: tuple, node: Any = None, absent: Collection[int] = ()) -> None:
        self.plan, self.op, self.node = plan, plan.op.declaration, node
        n, results = len(plan.inputs) + len(plan.outputs), results_of(self.op, len(plan.outs))
        names = *plan.names[: len(plan.inputs)], *[results[i] for i in plan.outputs]
        self.saved = dict(zip(names, values[:n], strict=False))
        self.grad = values[n] if values else None
        given = {i: g for i, g in zip(plan.diff, values[n:], strict=False) if i not in absent}
        self.grads = [given.get(i) for i in range(len(plan.outs))]
        self.static = dict(zip([a.name for a in self.op.static], plan.static, strict=False))
        self.positions = {a.name: i for i, a in enumerate(self.op.dynamic)}
        self.needs = [self.op.dynamic[i].name for i in plan.fulfilled()]

    def __getitem__(self, name: str) -> Any:
        """A saved value or an argument; zeros for a tensor of which only the shape matters."""
        if name in self.saved:
            return self.saved[name]
        if name in self.static:
            return self.static[name]
        i = self.positions.get(name)
        aval = None if i is None else self.plan.avals[i]
        if aval is None or not self.op.dynamic[i].is_tensor:
            return None if i is None or not self.op.dynamic[i].has_default else self.op.dynamic[i].default
        with without_dispatch():
            zeros = self.grad.new_zeros(tuple(aval.shape), dtype=FROM_NP[aval.dtype])
        return zeros if state.trace is None else state.trace.known(zeros)

    def plain(self, function: Callable) -> Any:
        """What a function of shapes and static arguments gives."""
        return function(**{n: self._fact(n) for n in parameters(function)})

    def _fact(self, name: str) -> Any:
        if name in ("grad", "grads", "needs"):
            return getattr(self, name)
        if name.endswith("_by_columns"):
            return by_columns(self.node, self.positions[name.removesuffix("_by_columns")])
        return self.plan.avals[self.positions[name[:-5]]] if name.endswith("_aval") else self[name]

    def run(self, function: Callable) -> list:
        """What a formula gives, as aten calls."""
        facts = {n: self._fact(n) for n in parameters(function)}
        if "grads" in facts:
            facts |= {f"grads{i}": g for i, g in enumerate(facts.pop("grads"))}
        tensors = [n for n, fact in facts.items() if isinstance(fact, Tensor)]
        avals = [ShapeDtypeStruct(tuple(facts[n].shape), facts[n].dtype.np) for n in tensors]

        def formula(*xs: Any) -> Any:
            have = facts | dict(zip(tensors, xs, strict=True))
            listed = [have.pop(f"grads{i}") for i in range(len(self.grads)) if f"grads{i}" in have]
            got = function(**have, **({"grads": listed} if listed else {}))
            there[:] = [x is not None for x in got] if isinstance(got, tuple) else [True]
            return got

        there: list[bool] = []  # which gradients there are: others are not wanted
        found = iter(run(named_trace(formula, *avals), [facts[n] for n in tensors]))
        return [whole(next(found)) if yes else None for yes in there]

    def unseen(self, function: Callable) -> Any:
        """What a function of the arguments gives; no mode sees it computed."""
        if not any(n in self.positions and self.op.dynamic[self.positions[n]].is_tensor for n in parameters(function)):
            return self.plain(function)
        with without_dispatch() if state.trace is None else state.trace.recalling():
            return self.run(function)[0]


def _called(backward: dict, c: Case) -> list:
    """The gradients by PyTorch's backward operators."""
    got: dict[str, Any] = {}
    for wrt, (text, sources) in backward.items():
        names = (wrt or c.op.dynamic[0].name).split(", ")
        if set(names) & set(c.needs):
            if callable(text):
                out = c.run(text)
            else:
                func = getattr(_aten, text.partition("(")[0]).default
                out = redispatch(func, **{a.name: _argument(a.name, sources, names, c) for a in func._schema.arguments})
            got |= zip(names, out if isinstance(out, tuple | list) else (out,), strict=True)
    return [got[n] for n in c.needs]


def _argument(name: str, sources: dict, names: list, c: Case) -> Any:
    source = sources.get(name, name)
    if callable(source):
        return c.unseen(source)
    if isinstance(source, str) and source.startswith("detached "):  # a result that PyTorch differentiates, too
        return redispatch(_aten.detach.default, c[source.removeprefix("detached ")])
    if isinstance(source, str) and source.endswith(".dtype"):
        return c[source.removesuffix(".dtype")].dtype
    if not isinstance(source, str):
        return source
    if source.startswith("grad"):
        return c.grad
    return [n in c.needs for n in names] if source == "output_mask" else c[source]


def _marked(plan: Any, values: tuple) -> list:
    """The arguments of a backward kernel, with the numbers among them that stand for tensors marked."""
    found = list(values)
    for at, i in enumerate(plan.inputs):
        if i in plan.tensors:
            found[at] = wrapped(found[at])
    return found


def fitted(grad: Any, aval: Any, like: Any) -> Any:
    """A gradient of the shape and dtype of its input: broadcast dimensions are summed."""
    if grad is None or isinstance(grad, Later):
        return grad
    if is_number(grad) or isinstance(grad, Spread) and is_number(grad.source):
        return _constant(grad, aval, like)
    grad = whole(grad)
    if grad is not None and list(grad.shape) != list(aval.shape):
        grad = summed(grad, list(aval.shape)) if grad.ndim >= len(aval.shape) else expanded(grad, list(aval.shape))
    if grad is None:  # what a handler returned
        return None
    if grad.dtype.np != aval.dtype and not aval.weak_type:
        if grad.dtype.is_complex and aval.dtype.kind != "c":
            grad = redispatch(_aten.select.int, redispatch(_aten.view_as_real.default, grad), -1, 0)
        if grad.dtype.np != aval.dtype:
            kind = FROM_NP[aval.dtype]
            grad = redispatch(_aten._to_copy.default, grad, dtype=kind, layout=strided, device=grad.device)
    return grad


def _constant(grad: Any, aval: Any, like: Any) -> Any:
    """A gradient that is the same number everywhere."""
    number = grad.source if isinstance(grad, Spread) else grad
    if not number and list(like.shape) == list(aval.shape) and like.dtype.np == aval.dtype:
        return redispatch(_aten.zeros_like.default, like)
    options = {"dtype": FROM_NP[aval.dtype], "layout": strided, "device": like.device}
    if not number:
        return redispatch(_aten.new_zeros.default, like, list(aval.shape), **options)
    return redispatch(_aten.new_full.default, like, list(aval.shape), number, **options)


def expanded(grad: Any, shape: list[int]) -> Any:
    return redispatch(_aten.expand.default, grad, shape)


def summed(grad: Any, shape: list[int]) -> Any:
    """The sum of ``grad`` over the dimensions that were broadcast from ``shape``."""
    if not shape:
        return redispatch(_aten.sum.default, grad)
    lead = grad.ndim - len(shape)
    dims = list(range(lead)) + [i + lead for i, n in enumerate(shape) if n == 1 and grad.shape[i + lead] != 1]
    if dims:
        grad = redispatch(_aten.sum.dim_IntList, grad, dims, True)
    grad = redispatch(_aten.view.default, grad, shape) if lead else grad
    return grad if list(grad.shape) == shape else expanded(grad, shape)


# -- derived kernels -------------------------------------------------------------------------------------------------


def derived(op: Any, inputs: tuple) -> Any:
    """The results of a derived kernel on tensors."""
    plan = getattr(op, "plan", None)
    if plan is not None:
        got = gradients(plan, inputs)
        if got is not None:
            got = [g.compute() if isinstance(g, Later) else g for g in got]
            route = plan.route or [-1] * len(got)
            return tuple([g for g, r in zip(got, route, strict=True) if r is not None and r < 0])
    if op.name == "add" and len(inputs) == 2 and not isinstance(op, Batch):
        return redispatch(_aten.add.Tensor, *inputs)
    found = mapped.as_aten_calls(op, inputs)
    if found is not None:
        return found
    alone: list[bool] = []
    got = invoke(opaque(op, len(inputs), alone), inputs, {})
    return got[0] if (alone[-1] if alone else plan is None and len(got) == 1) else tuple(got)


def opaque(op: Any, n: int, alone: list[bool]) -> OpOverload:
    """An overload of ``torch.ops.torchlike`` for a kernel that PyTorch has no name for.

    A call adds to ``alone`` whether the kernel gives one tensor, not a tuple; the overload gives a list in any case.
    """
    name = op.name if op.name.isidentifier() else "kernel"
    args = ", ".join(f"Tensor? x{i}" for i in range(n))
    schema = parse_schema(f"torchlike::{name}({args}) -> Tensor[]")

    def listed(*values: Any) -> Any:
        out = call(op, values, ())
        alone.append(isinstance(out, Tensor))
        return [out] if alone[-1] else list(out)

    return OpOverload(packet("torchlike", name), schema, listed)


lower.DERIVED.append(derived)
lower.GRADIENTS.append((known, gradients))
lower.NAMED.append(named)
lower.MULTIPLIES.append(multiplies)
