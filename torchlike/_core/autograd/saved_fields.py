"""What a node shows of the call it remembers: the values behind ``_saved_<name>``.

The names are PyTorch's. A declaration lists them (``saved=``) where they are not simply what the
derivative reads: the tensors and results it saves, and the arguments that are not tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from torchlike._core.tensor.tensor import Tensor, wrap
from torchlike._decl import rules
from torchlike._decl.op import REGISTRY, parameters

if TYPE_CHECKING:
    from torchlike._core.autograd.operator_node import OpNode
    from torchlike._decl.derive import Plan
    from torchlike._decl.op import Op
    from torchlike._decl.schema import Arg

_NUMBERS = {bool: jnp.bool_, int: jnp.int64, float: jnp.float64, complex: jnp.complex128}


def names(node: OpNode) -> list[str]:
    """The attributes that show what ``node`` saves."""
    plan, found = node.plan, []
    for name, source in sources(plan).items():
        if _is_given(node, source):
            found.append(f"_saved_{name}")
            if _slots(plan, _tensor_of(plan, source)) is not _NO_TENSOR:
                found.append(f"_raw_saved_{name}")
    return found


def value(node: OpNode, name: str) -> Any:
    """The value of ``node._saved_<name>``: a tensor with its history, a tuple of them, or an argument.

    Raises KeyError for a name it does not have, RuntimeError for a tensor that has been freed.
    """
    source = sources(node.plan)[name]
    if not _is_given(node, source):
        raise KeyError(name)
    if callable(source):
        return source(**{p: _value(node, p) for p in parameters(source)})
    got = _value(node, source)
    kinds = {a.name: a.kind for a in _operator(node.plan).schema.args}
    return got if kinds.get(source) == "Scalar" else _unsigned(got)


def _value(node: OpNode, source: Any) -> Any:
    found = _slots(node.plan, source)
    if found is _NO_TENSOR:
        return _fact(node, source)
    return tuple([_tensor(node, i) for i in found]) if found.__class__ is list else _tensor(node, found)


def slots(node: OpNode, name: str) -> Any:
    """The position in ``node._kept`` that ``node._raw_saved_<name>`` is of, or a list of them; None: not saved.

    Raises KeyError for a name that is not of a tensor.
    """
    found = _slots(node.plan, _tensor_of(node.plan, sources(node.plan)[name]))
    if found is _NO_TENSOR:
        raise KeyError(name)
    return found


def _tensor_of(plan: Plan, source: Any) -> Any:
    """The tensor that a source is, or that a function makes it of; otherwise an empty name."""
    if not callable(source):
        return source
    return next((p for p in parameters(source) if _slots(plan, p) is not _NO_TENSOR), "")


def sources(plan: Plan) -> dict[str, Any]:
    """{name: where its value comes from} of what the nodes of ``plan`` show.

    A source is the name of an argument or result, ``<argument>_sym_sizes`` and its like, or a
    function of such (and of ``<argument>_aval``).
    """
    found = plan.saved_fields
    if found is None:
        op = _operator(plan)
        found = plan.saved_fields = _declared(op, plan) if op.schema is not None else {}
    return found


def _operator(plan: Plan) -> Any:
    """The declaration; that of ``as_strided`` for whatever reads a view from its base."""
    op = plan.op.declaration
    return REGISTRY["as_strided"] if op.name == "as_strided" else op


def _declared(op: Op, plan: Plan) -> dict[str, Any]:
    saved = op.saved
    if callable(saved):
        saved = op.chosen(saved, plan.avals, plan.static)
    if saved is None:
        saved = " ".join(_default(op, plan))
    return {name: name for name in saved.split()} if isinstance(saved, str) else saved


def _default(op: Op, plan: Plan) -> list[str]:
    """What the formulas ask for; without formulas what the derivative reads, and every other argument."""
    if op.formulas is not None:
        asked = {p for f in op.formulas.values() for p in parameters(f)}
        known = {a.name for a in op.schema.args if a.kind != "dtype"}
        return sorted(n for n in asked if n in known or _result(op, n) is not None)
    tensors = [(i, a) for i, (arg, a) in enumerate(zip(op.dynamic, plan.avals, strict=False)) if arg.is_tensor]
    wanted = tuple([i for i, a in tensors if a is not None and rules.differentiable(a.dtype)])
    everything = op.derivative(plan.static, plan.avals, wanted)
    others = [a.name for a in op.schema.args if not a.is_tensor and a.kind != "dtype"]
    return sorted({*(n for n in everything.names if n.isidentifier()), *others})


_INDICES = frozenset({"index", "indices", "mask", "condition", "words"})  # these have no gradient by definition


def edges(plan: Plan) -> Sequence[int]:
    """The indices of the inputs that ``next_functions`` tells of, in order."""
    op = _operator(plan)
    if plan.refuses:
        return [i for i in plan.tensors if not plan.avals[i].weak_type]
    if op.edges_of is not None:
        return op.chosen(op.edges_of, plan.avals, plan.static)
    if op.schema is None or not _INDICES & {a.name for a in op.dynamic}:
        return plan.tensors
    hidden = {i for start, count, arg in _spans(op, plan) if arg.name in _INDICES for i in range(start, start + count)}
    return [i for i in plan.tensors if i not in hidden]


def _spans(op: Op, plan: Plan) -> Iterator[tuple[int, int, Arg]]:
    """(first index, how many, argument) of the runtime inputs of each argument."""
    i, lens = 0, iter(plan.static[len(op.static)] if op.lists else ())
    for arg in op.dynamic:
        count = max(next(lens), 0) if arg.is_list else 1
        yield i, count, arg
        i += count


# -- tensors ---------------------------------------------------------------------------------------------


_NO_TENSOR = object()


def _slots(plan: Plan, source: Any) -> Any:
    """The position in ``node._kept`` of a tensor (None: not saved), a list for a list of tensors, or _NO_TENSOR."""
    op = _operator(plan)
    output = _result(op, source)
    if output is not None:
        return len(plan.inputs) + plan.outputs.index(output) if output in plan.outputs else None
    for i, count, arg in _spans(op, plan):
        if arg.name == source and arg.is_tensor:
            return [_saved_at(plan, i + k) for k in range(count)] if arg.is_list else _saved_at(plan, i)
    return _NO_TENSOR


def _result(op: Op, name: str) -> int | None:
    """The number of the result called ``name``, or None."""
    names = op.result_names or ()
    if name in names:
        return names.index(name)
    if name.startswith("result") and (name == "result" or name[6:].isdigit()):
        return int(name[6:] or 0)
    return None


def _saved_at(plan: Plan, i: int) -> int | None:
    return plan.inputs.index(i) if i in plan.inputs else None


def _tensor(node: OpNode, position: int | None) -> Tensor | None:
    """The saved tensor; a number that stands for one as a tensor without dimensions."""
    if position is None:
        return None
    t = node._kept_tensor(position)
    return t if t is None or isinstance(t, Tensor) else wrap(jnp.asarray(t, _NUMBERS[type(t)]))


# -- other arguments ---------------------------------------------------------------------------------------


def _size(i: int) -> Callable[[Any], int]:
    return lambda aval: aval.shape[i]


_OF_AVAL = {
    "_aval": lambda aval: aval,
    "_sym_sizes": lambda aval: tuple(aval.shape),
    "_sym_sizes_opt": lambda aval: (0,) if aval is None else tuple(aval.shape),  # so PyTorch shows None
    "_sym_numel": lambda aval: math.prod(aval.shape),
    "_dim": lambda aval: len(aval.shape),
    **{f"_sym_argsize_{i}": _size(i) for i in range(3)},
    **{f"_sym_argsize_minus_{i}": _size(-i) for i in range(1, 3)},
}


def _fact(node: OpNode, name: str) -> Any:
    """An argument of the call that is no tensor, or what the shape of a tensor argument tells."""
    op, plan = _operator(node.plan), node.plan
    args = {a.name: a for a in op.schema.args}
    arg = args.get(name)
    if arg is None:
        tensor, ending = next((n, name[len(n) :]) for n in args if name[len(n) :] in _OF_AVAL and name.startswith(n))
        return _OF_AVAL[ending](plan.avals[op.dynamic.index(args[tensor])])
    if hasattr(op, "prepare"):
        return node.given[op.schema.args.index(arg) - 1]
    if arg in op.static:
        got = plan.static[op.static.index(arg)]
    else:
        got = _number(node, op.dynamic.index(arg), arg.default)
    if arg.kind == "float" and isinstance(got, int):
        return float(got)
    return got * arg.length if arg.length and isinstance(got, tuple) and len(got) == 1 else got


def _is_given(node: OpNode, source: Any) -> bool:
    """Whether the arguments behind a source are known; those of a view remade after its base changed are not."""
    op = _operator(node.plan)
    asked = parameters(source) if callable(source) else (source,)
    return not hasattr(op, "prepare") or hasattr(node, "given") or not {a.name for a in op.schema.args} & set(asked)


def _number(node: OpNode, i: int, default: Any) -> Any:
    position = _saved_at(node.plan, i)
    if position is None:
        return default
    return node._kept[position] if node._kept is not None else node._extra("numbers", dict)[position]


def _unsigned(x: Any) -> Any:
    """Negative integers as PyTorch shows them, modulo 2**64."""
    if isinstance(x, tuple | list):
        return tuple([_unsigned(v) for v in x])
    return x % (1 << 64) if isinstance(x, int) and x < 0 else x
