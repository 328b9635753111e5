"""Rules: what an operator does with sparse tensors. What has none refuses by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from torchlike._base.promotion import can_cast
from torchlike._base.state import no_grad, state
from torchlike._core.autograd import custom_function
from torchlike._core.autograd import node as nodes
from torchlike._core.dispatch.inplace import check_writable
from torchlike._core.dispatch.layers import SPARSE
from torchlike._core.dispatch.out import put
from torchlike._core.sparse.value import Compressed, Coo, unsupported, value
from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._executor import immediate
from torchlike._executor.sparse import LAYER, SparseValue

if TYPE_CHECKING:
    from torchlike._core.dispatch.layers import Call

RULES: dict[str, Callable[..., Any]] = {}
INPLACE: dict[str, Callable[..., Any]] = {}  # called with the arguments of the call, its static ones last
DISTINCT: set[str] = set()  # operators whose in-place forms need each place once
LOOSE: set[str] = set()  # operators whose in-place forms by a dense tensor or a number leave coordinates uncoalesced
WITHIN: set[str] = set()  # operators whose in-place forms change the values of coordinates where they are
COMPOSITES: dict[str, Callable[..., Any]] = {}  # the same; they make further calls, which are recorded
OTHERS: dict[type, Callable[[Call], Any]] = {}  # what handles calls with values of other classes that jax refuses


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register ``f(ctx, **arguments)`` as the rule of operators, by the names of their declarations.

    It computes from the parts of its arguments, unrecorded. ``ctx.saves(backward, *tensors)`` says what gives the
    gradients: ``backward(grad, *tensors)``, a list with one entry for each tensor or number among the arguments;
    ``ctx.needs_input_grad`` says which of them are wanted.
    """

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, f))
        return f

    return register


class SparseNode(custom_function.CustomNode):
    """The node of a call with sparse tensors; a class of its own for each name."""

    __slots__ = ("_back", "_named")
    _fills = False
    _forward_cls = SimpleNamespace(clear_saved_tensors_on_access=False, boxed_grads_call=False)
    _back: Callable[..., Any]
    _named: tuple[str, ...]

    def saves(self, backward: Callable[..., Any], /, *tensors: Tensor | None, **named: Tensor | None) -> None:
        """Let ``backward(grad, *tensors)`` give the gradients; those with names are seen as ``_saved_<name>``."""
        self._back, self.to_save, self._named = backward, (*tensors, *named.values()), (*named,)

    def __getattr__(self, name: str) -> Any:
        prefix, _, field = name.partition("_saved_")
        if prefix or not field or field not in self._named:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return self.saved_tensors[self._named.index(field)]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *[f"_saved_{name}" for name in getattr(self, "_named", ())]]

    def _get_user_fn(self) -> Callable[..., Any]:
        return lambda node, grad: tuple(node._back(grad, *node.saved_tensors))


_classes: dict[str, type[SparseNode]] = {}


def recorded(name: str, f: Callable[..., Any], *args: Any) -> Any:
    """``f(ctx, *args)``, a call whose node is called ``name``."""
    cls = _classes.get(name)
    if cls is None:
        cls = _classes[name] = type(name, (SparseNode,), {"__slots__": ()})
    node = cls()
    return custom_function.run(node, lambda ctx, *given: f(ctx, *given), None, args)


def _arguments(op: Any, inputs: Sequence[Any], static: Sequence[Any]) -> Callable[..., Any]:
    """``bound(rule)``: a function (ctx, *inputs) that calls the rule with everything by name."""
    declared = op.declaration
    names = [a.name for a in declared.dynamic]
    fixed = dict(zip([a.name for a in declared.static], static, strict=False))

    def bound(f: Callable[..., Any]) -> Callable[..., Any]:
        if declared.lists:
            return lambda ctx, *given: f(ctx, given, **fixed)
        return lambda ctx, *given: f(ctx, **dict(zip(names, given, strict=False)), **fixed)

    return bound


def _found(op: Any, table: dict[str, Callable[..., Any]]) -> Callable[..., Any] | None:
    declared = op.declaration
    if declared.schema is None:
        return table.get(f"{declared.name} of values")
    return table.get(str(declared.full_name)) or table.get(declared.name)


def _handle(call: Call) -> Any:
    """The result of a call some of whose tensors are sparse, or else no arrays."""
    for t in call.inputs if OTHERS else ():
        if isinstance(t, Tensor) and type(t._storage.form) in OTHERS:
            return OTHERS[type(t._storage.form)](call)
    op, form = call.op, call.form.name
    if state.capture is not None:
        state.capture.refuse(f"calls {op.name}() with sparse tensors")
    f = _found(op, RULES)
    writes = form == "inplace"
    special = _found(op, INPLACE if writes else COMPOSITES)
    if (f is None and special is None) or form not in ("new", "inplace", "view"):
        raise unsupported(op.name, *call.inputs)
    if state.levels:
        raise unsupported(f"inside of a function transform {op.name}", *call.inputs)
    if special is not None:
        return special(*call.inputs, *call.static)
    if writes and op.declaration.name in DISTINCT and not getattr(value(call.inputs[0]), "coalesced", True):
        raise RuntimeError(f"{op.name} requires coalesced input; call .coalesce() first")
    node = op.declaration.node + ("0" if op.declaration.node.endswith("Backward") else "")
    out = recorded(node, _arguments(op, call.inputs, call.static)(f), *call.inputs)
    if not writes:
        return out
    entries = value(out)
    if op.declaration.name in LOOSE and isinstance(entries, Coo) and value(call.inputs[1]) is None:
        entries.coalesced = entries.indices.shape[1] < 2
    return replaced(op.name, call.inputs[0], out, call.inputs, op.declaration.name in WITHIN)


def written(target: Tensor, new: Tensor, within: bool) -> Any:
    """What ``target`` holds then: where it can be, its own parts with the numbers of those of ``new``.

    Others may have them: ``values()``, a transpose, the tensor that ``target`` was made of.
    """
    old, made = value(target), value(new)
    if old is None or not (within or isinstance(old, Compressed)) or type(old) is not type(made):
        return value_of(new)
    if old.shape != made.shape:
        return value_of(new)
    names = [name for name in ("indices", "compressed", "plain", "values") if hasattr(old, name)]
    pairs = [(getattr(old, name), getattr(made, name)) for name in names]
    if any([mine.shape != other.shape or mine.dtype is not other.dtype for mine, other in pairs]):
        return value_of(new)
    for mine, other in pairs:
        if mine._storage is not other._storage:
            write(mine, value_of(other))
    return old


def replaced(name: str, target: Tensor, new: Tensor, inputs: Sequence[Any] = (), within: bool = False) -> Tensor:
    """``target`` with the value and the history of ``new``."""
    if value(target) is None and value(new) is not None:
        new = new.to_dense()
    if value(target) is not None and value(new) is None:
        raise unsupported(f"{name} between layouts in place: {name}", target, new)
    new = _cast(name, new, target)
    if tuple(new.shape) != tuple(target.shape):
        raise RuntimeError(f"{name}: the result has shape {list(new.shape)}, and the target {list(target.shape)}")
    if not inputs:
        check_writable(name, target, (target,))
    if new._rg and target._diff is not None:
        raise unsupported(f"into a view that requires grad {name}", *inputs)
    edge, records = new._edge, new._rg
    write(target, written(target, new, within))
    if records:
        nodes.new_history(target, edge)
    return target


def _cast(name: str, new: Tensor, target: Tensor) -> Tensor:
    """``new`` in the dtype of ``target``, where it can be written there."""
    if new.dtype is target.dtype:
        return new
    if not can_cast(new.dtype, target.dtype):
        raise RuntimeError(
            f"result type {new.dtype.scalar_name} can't be cast to the desired output type "
            f"{target.dtype.scalar_name} (in {name})"
        )
    return new.to(target.dtype)


def _put(op: Any, results: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
    """Write results into given tensors of their layouts, which take their shapes."""
    for r, o in zip(results, outs, strict=True):
        if any([value(x) is None and isinstance(x._storage.form, SparseValue) for x in (r, o)]):
            raise NotImplementedError(f"{op.name}(out=) is not supported for quantized tensors; use its result")
        if r.layout is not o.layout:
            if _found(op, RULES) is None:
                raise unsupported(f"out= of another layout: {op.name}", r, o)
            raise RuntimeError(f"{op.name}(): expected out of the result's layout {r.layout}, but got {o.layout}")
    values = [value_of(_cast(op.name, r, o)) for r, o in zip(results, outs, strict=True)]
    for o, v in zip(outs, values, strict=True):
        put(o, v)


def _run(op: Any, static: tuple[Any, ...], values: Any) -> Any:
    """The result of an operator on values, as backward has them."""
    if OTHERS and not any(isinstance(v, Coo | Compressed) for v in values):
        raise unsupported(op.name)
    f = _found(op, RULES)
    tensors = [fresh(v) if hasattr(v, "shape") else v for v in values]
    with no_grad():
        if f is not None:
            return value_of(f(SparseNode(), *tensors))
        if getattr(op, "plan", None) is None:
            raise unsupported(op.name, *tensors)
        # The formula of a dense operator, which a sparse gradient has reached.
        full = [value_of(t.to_dense()) if value(t) is not None else v for t, v in zip(tensors, values, strict=True)]
        return immediate.run(op, static, full)


def install() -> None:
    """Let calls turn to the rules."""
    SPARSE.install(_handle)
    LAYER.run, LAYER.put = _run, _put
