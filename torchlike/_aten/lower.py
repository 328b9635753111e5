"""Which aten calls an operator call is: its own overload, or those that PyTorch makes of it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from torchlike._aten import source
from torchlike._aten.history import made
from torchlike._aten.packets import OpOverload, ops
from torchlike._aten.python_dispatch import in_handler, invoke, leaves, normalised
from torchlike._base.dims import infer_size
from torchlike._base.geometry import can_view
from torchlike._base.state import state
from torchlike._core.dispatch.view_calls import tie
from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.storage import UNTRACKED
from torchlike._core.tensor.tensor import Tensor, contiguous_format, strided
from torchlike._core.tensor.view_creation import NO_GRAD
from torchlike._core.tensor.views import REPLAYED
from torchlike._decl.op import Inplace, Op

# {full name of a declared operator: function(*arguments) -> results} where it is several calls or another one, and
# which ones depends on what only tensors have: strides, history, the cells that a call writes to.
LOWERED: dict[str, Callable] = {}
_RECORDED: set[str] = set()  # those of which each call is a node of PyTorch's
SCALAR = "scalar"  # of nodes: whether the call was the overload for a number, not that for a tensor
# What shows a derived kernel: (kernel, inputs) -> results. Installed by the backward half.
DERIVED: list[Callable] = []
# What shows a view over a mapped axis: (view, tensor, layout of the result, example, arguments) -> result or None.
MAPPED_VIEWS: list[Callable] = []
# What shows the gradients of a plan, and whether it can: (plan, values, arguments of a view), (plan, arguments).
GRADIENTS: list[tuple[Callable, Callable]] = []
# The derivative of a plan in PyTorch's words, None where the declaration has none for all that is wanted.
NAMED: list[Callable] = []
# Whether the formula of a plan multiplies matrices of float32.
MULTIPLIES: list[Callable] = []
_aten = ops.aten


class Later:
    """A gradient that is computed when its turn comes: after the nodes made later than the call, by ``rank``."""

    __slots__ = ("compute", "rank")

    def __init__(self, compute: Callable[[], Any], rank: int = 1) -> None:
        self.compute, self.rank = compute, rank


def lowers(*names: str, recorded: bool = False) -> Callable[[Callable], Callable]:
    """Register how calls of these operators are shown; ``recorded``: each of them is a node of PyTorch's, too."""

    def register(function: Callable) -> Callable:
        for name in names:
            LOWERED[name] = function
        if recorded:
            _RECORDED.update(names)
        return function

    return register


def redispatch(func: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """One aten call, with its arguments normalised."""
    out = made(func, *normalised(func, args, kwargs))
    if func.is_view and not in_handler() and func is not ops.aten.detach.default:
        _tie(args[0], out)
    if func._overloadname == "Scalar" and not state.dispatch_modes and isinstance(out, Tensor) and out._edge:
        out._edge[0]._extra(SCALAR, lambda: True)  # its derivative is one with a number, too
    return out


def _tie(base: Any, out: Any) -> None:
    """Let autograd know of a view among the calls that an operator or a backward is, which are made above it."""
    if base._vc is not UNTRACKED:
        for t in leaves((out,)):
            if t is not base and t._diff is None and t._storage is base._storage:
                tie(base, t, NO_GRAD)


class _Calls:
    """The vocabulary of ``aten=`` in declarations: ``aten["mul.Tensor"](x, y)`` is that call, of tensors."""

    def __getitem__(self, name: str | tuple[str, str]) -> Callable:
        namespace, text = ("aten", name) if isinstance(name, str) else name
        head, _, overload = text.partition(".")
        return partial(redispatch, getattr(getattr(getattr(ops, namespace), head), overload or "default"))

    def __getattr__(self, name: str) -> Callable:
        return self[name]

    def cast(self, t: Tensor, dtype: Any) -> Tensor:
        """``t``, copied if it is of another dtype than that which is wanted (None: any will do)."""
        if dtype is None or dtype is t.dtype:
            return t
        return redispatch(_aten._to_copy.default, t, dtype=dtype, layout=strided, device=t.device)

    def reshaped(self, t: Tensor, size: list[int]) -> Tensor:
        """``t`` in another shape: a view, or a copy whose elements lie in the order of its dimensions."""
        if viewable(t, size):
            return redispatch(_aten.view.default, t, size)
        return redispatch(_aten._unsafe_view.default, self.packed(t), size)

    def packed(self, t: Tensor) -> Tensor:
        """A copy whose elements lie in the order of its dimensions."""
        return redispatch(_aten.clone.default, t, memory_format=contiguous_format)

    def given(self, numbers: Any, like: Tensor) -> Tensor:
        """A tensor of these numbers in the dtype of ``like``: an empty one to the modes, which is then filled."""
        options = {"dtype": like.dtype, "layout": strided, "device": like.device}
        new = redispatch(_aten.empty.memory_format, [len(numbers)], **options)
        write(new, np.asarray(numbers, like.dtype.np))
        return new

    def unrecorded(self, name: str, *args: Any) -> Any:
        """A call of which autograd learns nothing."""
        grad, state.grad = state.grad, False
        try:
            return self[name](*args)
        finally:
            state.grad = grad


CALLS = _Calls()


def _calls(name: str, declared: Callable | None) -> Callable | None:
    """What makes the calls of an operator that are not one of its own name; None if they are."""
    return LOWERED.get(name) if declared is None else partial(declared, CALLS)


def is_composed(op: Any) -> bool:
    """Whether calls of an operator are shown as others, as those of a formula are."""
    return not isinstance(op, Op) or _calls(op.full_name, op.aten.calls) is not None


def composition(op: Op) -> Callable | None:
    """What makes an operator's results of other calls, which PyTorch records each by itself."""
    if op.aten.calls is None:
        return LOWERED[op.full_name] if op.full_name in _RECORDED else None
    return partial(op.aten.calls, CALLS)


def call(op: Any, inputs: tuple, static: tuple) -> Any:
    """The results (a tensor or a tuple) of the calls that ``op`` stands for."""
    if not isinstance(op, Op):
        return DERIVED[0](op, inputs)
    special = _calls(op.full_name, op.aten.calls)
    if special is not None:
        with _announced(op, inputs):
            out = special(*arguments(op, inputs, static).values())
    else:
        out = as_one(op, arguments(op, inputs, static))
    return tuple(out) if isinstance(out, list | tuple) else out


def _announced(op: Op, inputs: tuple) -> AbstractContextManager[Any]:
    """Let the modes that ask for it know that the calls within are those of one operator."""
    for mode in state.dispatch_modes:
        if getattr(type(mode), "hears_composed", False):
            return mode.composed(f"aten::{op.schema.name}", inputs)
    return nullcontext()


def as_one(op: Op, named: dict[str, Any]) -> Any:
    """The results of an operator as one call, of its own name."""
    func, named = _overload(op, named)
    names = [a.name for a in func._schema.arguments]
    if not named.keys() <= set(names):  # PyTorch calls them otherwise
        named = dict(zip(names, named.values(), strict=False))
    return made(func, *normalised(func, (), named))


def viewable(t: Any, shape: list[int]) -> bool:
    """Whether ``view`` can give this shape without a copy."""
    return can_view(t._layout, infer_size(shape, t.numel())) is not None


def arguments(op: Op, inputs: tuple, static: tuple) -> dict[str, Any]:
    """{argument: value} in the order of the schema, from what dispatch is given."""
    named: dict[str, Any] = {}
    i = 0
    lens = iter(static[len(op.static)]) if op.lists else iter(())
    for a in op.dynamic:
        if a.is_list:
            n = next(lens)
            named[a.name] = None if n < 0 else list(inputs[i : i + n])
            i += max(n, 0)
        else:
            value = inputs[i]
            named[a.name] = a.default if value is None and a.has_default and not a.is_tensor else value
            i += 1
    named |= zip([a.name for a in op.static], static, strict=False)
    return {a.name: named[a.name] for a in op.schema.args}


# Operators of two tensors that take a number in a tensor's place; the others have an overload for numbers.
_WRAPPED = frozenset(("add", "sub", "mul", "div", "floor_divide"))
_COMMUTATIVE = frozenset(("add", "mul", "bitwise_and", "bitwise_or", "bitwise_xor"))


def _overload(op: Op, named: dict) -> tuple[OpOverload, dict]:
    """The overload of a call, with its arguments: that for numbers where the second operand is one."""
    schema = op.schema
    if "other" in named and not isinstance(named["other"], Tensor):
        name = "Tensor_Scalar" if schema.name.endswith("_shift") else "Scalar"
        if schema.name not in _WRAPPED and name in source.SOURCE.overloads(schema.name):
            return getattr(getattr(_aten, schema.name), name), named
    elif schema.name in _COMMUTATIVE and not isinstance(named["self"], Tensor):
        named["self"], named["other"] = named["other"], named["self"]
        return _overload(op, named)
    return source.overload_of(op), named


def view(op: Any, t: Any, args: tuple) -> Any:
    """The calls of a view operator."""
    if not isinstance(op, Op):  # over a mapped axis
        layout, _, _, *dtype = op.prepare(t, *args)
        if dtype or op.base.node in REPLAYED:
            raise NotImplementedError(f"{op.name}() under vmap() while a __torch_dispatch__ is active")
        found = MAPPED_VIEWS[0](op, t, layout, *args)
        return restrided(t, layout) if found is None else found
    special = _calls(op.full_name, op.aten.calls)
    if special is not None:
        return special(t, *args)
    func = source.overload_of(op)
    return invoke(func, *normalised(func, (t, *args), {}))


def restrided(t: Any, layout: Any) -> Any:
    """The view of ``t`` with this layout."""
    shape, strides, offset = layout
    return invoke(_aten.as_strided.default, (t, list(shape), list(strides), offset), {})


def inplace(op: Any, inputs: tuple, static: tuple) -> Any:
    """The calls of an in-place operator."""
    if not isinstance(op, Inplace):  # over a mapped axis
        return invoke(_aten.copy_.default, (inputs[0], call(op, inputs, static)), {})
    special = _calls(op.op.full_name + "_", op.op.aten.calls_inplace)
    named = arguments(op.op, inputs, static)
    if special is not None:
        return special(*named.values())
    func, named = _overload_inplace(op.op, named)
    return invoke(func, *normalised(func, (), named))


def _overload_inplace(op: Op, named: dict) -> tuple[OpOverload, dict]:
    name = op.schema.name
    if op.aten.own:
        return getattr(getattr(ops.torchlike, name + "_"), op.schema.overload or "default"), named
    wanted = op.schema.overload or "default"
    if "other" in named and not isinstance(named["other"], Tensor) and name not in _WRAPPED:
        wanted = "Tensor_Scalar" if name.endswith("_shift") else "Scalar"
    packet = getattr(_aten, name + "_")
    known = packet.overloads()
    if wanted not in known:
        wanted = {"Tensor_Tensor": "Tensor", "Tensor_Scalar": "Scalar"}.get(wanted, known[0])
    return getattr(packet, wanted), named


def out_overload(op: Op, inputs: tuple, static: tuple, outs: tuple) -> tuple[OpOverload | None, dict]:
    """The overload with ``out=`` of an operator, and its arguments by name; None if there is none."""
    if not isinstance(op, Op) or op.aten.own or op.lists:
        return None, {}
    packet, named = getattr(_aten, op.schema.name), arguments(op, inputs, static)
    name: Any = op.aten.out
    if "other" in named and not isinstance(named["other"], Tensor) and op.schema.name not in _WRAPPED:
        number = "Tensor_Scalar_out" if op.schema.name.endswith("_shift") else "Scalar_out"
        name = number if number in packet.overloads() else name
    if name not in packet.overloads():
        return None, {}
    func = getattr(packet, name)
    names = [a.name for a in func._schema.arguments if a.is_out]
    return func, named | dict(zip(names, outs, strict=True))
