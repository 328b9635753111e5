"""In-place operations: checks, the write, and the rewriting of history.

Note [History of views]
~~~~~~~~~~~~~~~~~~~~~~~
Arrays never change, tensors do: a storage gets another array, and its version goes up. What was computed from the old
array holds that, so no derivative is lost; a node that saved the *tensor* compares versions when it is asked for it.
History is harder, because a write through one alias is a write into all. A view knows its base (``t._diff``), all
views of a base know the same one, and only the base's history is rewritten at once: to a ``CopySlices`` around the
node of the call, which replaces the written part of the gradient. Every other view finds that its version is not the
current one when its history is next asked for (``refresh``), and makes it anew: a read of the base. Where that would
be wrong (a view made without grad, one of several outputs, of a custom function) ``view_creation.py`` refuses.
A geometry that changes without history leaves the node as it is; gradients are then fitted to what it recorded
(``engine.fitting``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from torchlike._base.frames import warn
from torchlike._base.layout import has_overlap, is_dense, numel
from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd import operator_node
from torchlike._core.dispatch.dispatch import plan_for, refresh, walk
from torchlike._core.dispatch.layers import DEVICES, SPARSE, Call, Form
from torchlike._core.tensor.arguments import KIND, demand_no_bools, with_numbers
from torchlike._core.tensor.mutation import ANY, bump, current, expected_of, write
from torchlike._core.tensor.overwriting import large, overwritable, overwrite
from torchlike._core.tensor.storage import UNTRACKED
from torchlike._core.tensor.tensor import alias, value_of, wrap
from torchlike._core.tensor.view_creation import refusal
from torchlike._core.tensor.views import demand_no_derivative, reader, writer
from torchlike._decl.op import INPLACE as WORDS
from torchlike._executor import immediate, sparse
from torchlike._executor.failure import translate
from torchlike._executor.pending import Array
from torchlike._executor.scalars import with_arrays
from torchlike._executor.spread import on_several_devices

if TYPE_CHECKING:
    from torchlike._core.autograd.node import Node
    from torchlike._core.autograd.operator_node import OpNode
    from torchlike._core.tensor.tensor import Tensor
    from torchlike._core.typed import Edge, Grads, Inputs, Ints, Steps
    from torchlike._decl.derive import Kernel
    from torchlike._decl.typed import Static, Values


def call_inplace(op: Kernel, inputs: Inputs, static: Static) -> Tensor:
    """Run the in-place operator on ``inputs``; the first is written and returned."""
    if state.active:
        return walk(Call(op, INPLACE, inputs, static))
    for x in inputs:
        cls = x.__class__
        if cls is bool:
            demand_no_bools(op, inputs, static)
        elif cls not in KIND:
            return walk(Call(op, INPLACE, inputs, static))
    target = inputs[0]
    record = check_writable(op.name, target, inputs)
    if op.at_places and not record and _overwritten(op, inputs, static):
        return target
    expected = ANY if target._view is None else expected_of(target)
    values = [value_of(x) if KIND[x.__class__] == 1 else x for x in inputs]
    recorder = state.recorder
    try:
        kernel = op.kernels.get(static) or immediate.compiled(op, static)
        out = kernel(*with_arrays(values)) if recorder is None else recorder.record(kernel, values, op.name)
    except immediate.TensorInStatic:
        return call_inplace(op, inputs, with_numbers(op, static))
    except Exception as error:
        if sparse.holds(values):
            return SPARSE(Call(op, INPLACE, inputs, static))
        if on_several_devices(error):
            return DEVICES(Call(op, INPLACE, inputs, static))
        out = translate(op, static, values, error)
    if op.checked is not None:
        out = immediate.verified(op, static, values, out)
    if op.at_places and target._view is None:
        overwritable(out)
    if finish(op, inputs, static, values, out, record, values[0] if target._view is None else expected):
        return target
    return call_inplace(op, inputs, static)  # another thread has changed it meanwhile


INPLACE = Form("inplace", call_inplace, writes=True)


def _overwritten(op: Kernel, inputs: Inputs, static: Static) -> bool:
    """Whether the operator, which changes a part of a large tensor, could do so in the memory of its old value."""
    target = inputs[0]
    if target._view is not None or not large(target._storage):
        return False
    others = tuple([value_of(x) if KIND[x.__class__] == 1 else x for x in inputs[1:]])
    if not overwrite(target._storage, op, static, others):
        return False
    bump(target)
    return True


def finish(
    op: Kernel, inputs: Inputs, static: Static, values: Values, out: Any, record: bool, expected: Any = ANY,
    put: Callable[..., bool] = write,
) -> bool:  # fmt: skip
    """Write the result into the first input, with ``put(target, value, expected)``, and rewrite its history.

    False, with nothing done, if it does not hold what was ``expected``.
    """
    target = inputs[0]
    plan = plan_for(op, inputs, static, values) if record else None
    if plan is None:
        return put(target, out, expected)
    edges = [nodes.edge_of(inputs[i]) for i in plan.wanted]
    saved = [_saved(i, inputs[i], values[i], target) for i in plan.inputs]
    versions = [x._vc.version if KIND[x.__class__] == 1 else None for x in saved]
    if not put(target, out, expected):
        return False
    node = operator_node.make(op, plan, edges, saved, versions)
    rebase(target, node, 0 if 0 in plan.wanted else None)
    if plan.outputs:
        shell = alias(target)
        node._kept += [shell] * len(plan.outputs)
        node._versions += [shell._vc.version] * len(plan.outputs)
    if nodes.WATCHERS:
        nodes.watch(node)
    return True


def _saved(i: int, x: Any, value: Any, target: Tensor) -> Any:
    """What the node keeps of the input ``x``: for the target its old value and history, at no cost.

    Another alias of the target is out of date after the write; without its history it closes no cycle.
    """
    if i == 0:
        old = wrap(value)
        old._edge, old._rg = x._edge, x._rg
        return old
    return alias(x) if KIND[x.__class__] == 1 and x._vc is target._vc else x


def demand_writable(target: Tensor) -> None:
    """Refuse to change an inference tensor outside of inference mode."""
    if target._vc is UNTRACKED and not state.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
            "normal tensor before doing inplace update."
        )


def check_writable(name: str, target: Tensor, inputs: Sequence[Any]) -> bool:
    """PyTorch's checks before an in-place operation; returns whether to record it."""
    demand_writable(target)
    tensors = [x for x in inputs if KIND[x.__class__] == 1]
    record = _demand_history(target, tensors) if state.grad and name not in _UNNOTICED else False
    if target._storage.form.__class__ is not Array and state.grad:
        demand_no_derivative(target, tensors[1:])
    demand_distinct(name, target)
    for x in tensors[1:]:
        if x._storage is target._storage:
            _demand_unwritten(name, target, x)
    return record


def _demand_unwritten(name: str, target: Tensor, x: Tensor) -> None:
    """Refuse an operand that is overwritten before it has been read."""
    words = WORDS.get(name, ())
    if "alone" in words:
        demand_same_or_apart(name, target, x, apart=True)
    elif x is not target and "after" not in words and (x.ndim or "number" not in words):
        demand_same_or_apart(name, target, x)


def _demand_history(target: Tensor, tensors: Sequence[Tensor]) -> bool:
    """Bring the history of all up to date; returns whether to record, and refuses what cannot be rewritten."""
    diff = target._diff
    for x in tensors:
        if x is not target and x._diff is not None:
            refresh(x)
    record = any([x._rg for x in tensors]) or (diff is not None and diff.base._rg)
    if record:
        demand_rebasable(target)
    if diff is not None:
        refresh(target)
    return record


def demand_rebasable(target: Tensor) -> None:
    """Refuse a leaf that requires grad, a view of one, and a view whose making forbids changes in place."""
    diff = target._diff
    if diff is None:
        if target._rg and target._edge is None:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        return
    if diff.creation is not None:
        raise refusal(target, indirect=False)
    if diff.base._edge is None and (target._rg or diff.base._rg):
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")


def demand_distinct(name: str, target: Tensor) -> None:
    """Refuse a target that is expanded."""
    if target._view is not None and has_overlap(target._view.layout):
        words = WORDS.get(name, ())
        if "repeatable" in words:
            return
        if "repeated" in words and 0 in target._view.layout.strides:
            warn(
                f"Use of {name} on expanded tensors is deprecated: elements that share memory get one of their values. "
                "Please clone() the tensor before performing the operation."
            )
            return
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            f"location. Please clone() the tensor before performing the operation ({name})."
        )


# PyTorch's autograd knows nothing of these: they change even leaves that require grad, whose history stays.
_UNNOTICED = frozenset({"logical_not_", "logical_and_", "logical_or_", "logical_xor_"})


def demand_same_or_apart(name: str, target: Tensor, x: Tensor, apart: bool = False) -> None:
    """Refuse an operand that shares a part of the written memory (or all: ``apart``), where both fill one block."""
    a, b = target._layout, x._layout
    if not (is_dense(a) and is_dense(b)):
        return
    first, second = target.itemsize, x.itemsize
    start, other = a.offset * first, b.offset * second
    end, other_end = start + numel(a.shape) * first, other + numel(b.shape) * second
    if (start, end) == (other, other_end) and a.strides == b.strides and not apart:
        return
    if start < other_end and other < end:
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
            f"memory location. Please clone() the tensor before performing the operation ({name})."
        )


def rebase(target: Tensor, node: Node, carries: int | None) -> None:
    """Make ``node`` the history of ``target``, and of its base if it is a view.

    ``carries`` is the index in ``node._edges`` of the gradient of the old value of ``target``.
    """
    diff = target._diff
    if diff is None:
        nodes.new_history(target, (node, 0))
        return
    base = diff.base
    steps, ints = diff.path(target)
    copy = CopySlices(nodes.edge_of(base), node, carries, steps, ints, base)
    nodes.new_history(base, (copy, 0))
    current(diff, target, -1)
    refresh(target)


class CopySlices(nodes.Node):
    """The history of a base one of whose views was changed in place by the call of ``inner``.

    The gradient of the base is the incoming one with the view's part replaced by what ``inner``
    gives for the old value of the view; its other gradients go where ``inner``'s go.
    """

    __slots__ = ("inner", "carries", "steps", "ints", "meta")
    _namespace = "torch::autograd::"

    def __init__(
        self, base_edge: Edge, inner: Any, carries: int | None, steps: Steps, ints: Ints, base: Tensor
    ) -> None:
        self.inner, self.carries = inner, carries
        self.steps, self.ints = steps, ints
        self.meta = immediate.Abstract(tuple(base.shape), base.dtype.np)
        others = [e for i, e in enumerate(inner._edges) if i != carries]
        self._edges = [base_edge, *others]
        self._seq = nodes.next_sequence()
        self._ex = None

    @property
    def _python(self) -> bool:
        return self.inner._python

    @property
    def _refusals(self) -> dict[int, Exception]:  # type: ignore[override]
        places = [i for i in range(len(self.inner._edges)) if i != self.carries]
        return {(0 if k == self.carries else 1 + places.index(k)): e for k, e in self.inner._refusals.items()}

    def _title(self) -> str:
        return self.name()

    def _outs(self) -> tuple[Any, ...]:
        return (self.meta,)

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """As those of the call itself, whose first input is the view: here the base."""
        if not isinstance(self.inner, operator_node.OpNode):
            return super().next_functions
        return (self._edges[0] or (None, 0), *self.inner.next_functions[1:])

    def _spread(self, grads: Iterable[Any]) -> tuple[Any, ...]:
        if not isinstance(self.inner, operator_node.OpNode):
            return super()._spread(grads)
        base, *others = grads
        if self.carries is not None:
            others.insert(self.carries, None)
        return (base, *self.inner._spread(others)[1:])

    def _gather(self, grads: Grads) -> Grads:
        if not isinstance(self.inner, operator_node.OpNode):
            return super()._gather(grads)
        others = list(self.inner._gather([None, *grads[1:]]))
        if self.carries is not None:
            others.pop(self.carries)
        return [grads[0], *others]

    def _release(self) -> None:
        self.inner._release()

    def apply(self, grads: Grads) -> Grads:
        grad = grads[0]
        part = immediate.run(reader(self.steps), (), (grad, *self.ints))
        got = list(self.inner.apply([part]))
        old = got.pop(self.carries) if self.carries is not None else None
        if old is None:
            old = immediate.zeros_beside(part.shape, part.dtype, (grad,))
        return [immediate.run(writer(self.steps), (), (grad, old, *self.ints)), *got]

    def _apply_tensors(self, grads: Grads, call: Callable[..., Any]) -> Grads:
        grad = grads[0]
        part = call(reader(self.steps), (grad, *self.ints), ())
        made_by = None if self._python or not self.inner.plan.outputs else (self.view_node(), 0)
        got = list(self.inner._apply_tensors([part], call, made_by))
        old = got.pop(self.carries) if self.carries is not None else None
        if old is None:
            old = wrap(immediate.zeros_beside(tuple(part.shape), part.dtype.np, (value_of(grad),)))
        return [call(writer(self.steps), (grad, old, *self.ints), ()), *got]

    def view_node(self) -> OpNode:
        """A node that reads the view's new value from the base's, which this node made."""
        base = wrap(self.meta)
        base._rg = True
        op = reader(self.steps)
        plan = plan_for(op, (base, *self.ints), (), (self.meta, *self.ints))
        saved = [self.ints[i - 1] for i in plan.inputs]
        return operator_node.make(op, plan, [(self, 0)], saved, [None] * len(saved))
