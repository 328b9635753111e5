"""The node of an operator call: its plan, and the values that the plan saves."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from torchlike._base.dtypes import FROM_NP
from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd import saved_fields
from torchlike._core.autograd.saved_tensors import DETACHED, FREED, SavedTensor, SavesTensors
from torchlike._core.dispatch.observers import redispatch, subclassed
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import value_of, wrap
from torchlike._executor import immediate
from torchlike._executor.level import LevelValue
from torchlike._executor.scalars import with_arrays

if TYPE_CHECKING:
    from torchlike._core.typed import Edge, Grads
    from torchlike._decl.derive import Kernel, Plan


class OpNode(SavesTensors):
    """The node of an operator call."""

    __slots__ = ("plan", "_arity", "given")  # given: the arguments of a view, as they came
    plan: Plan
    given: tuple[Any, ...]
    _simple = True

    @property
    def next_functions(self) -> tuple[Any, ...]:
        by_input = dict(zip(self.plan.wanted, self._edges, strict=True))
        return tuple([by_input.get(i) or (None, 0) for i in saved_fields.edges(self.plan)])

    def __getattr__(self, attribute: str) -> Any:
        """``_saved_<name>``: a saved value, as a tensor with its history; ``_raw_saved_<name>``: its slot."""
        try:
            if attribute.startswith("_saved_"):
                return saved_fields.value(self, attribute[7:])
            if attribute.startswith("_raw_saved_"):
                return self._slots(saved_fields.slots(self, attribute[11:]))
        except KeyError:
            pass
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute}'")

    def _slots(self, found: Any) -> Any:
        if found.__class__ is not list:
            return SavedTensor(self, found)
        if self._kept is None:
            raise RuntimeError(FREED)
        return tuple([SavedTensor(self, position) for position in found])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *saved_fields.names(self)]

    def _spread(self, grads: Iterable[Any]) -> tuple[Any, ...]:
        by_input = dict(zip(self.plan.wanted, grads, strict=True))
        return tuple(by_input.get(i) for i in saved_fields.edges(self.plan))

    def _gather(self, grads: Grads) -> Grads:
        by_input = dict(zip(saved_fields.edges(self.plan), grads, strict=True))
        return [by_input[i] for i in self.plan.wanted]

    def _output_of(self, position: int) -> int | None:
        n = len(self.plan.inputs)
        return self.plan.outputs[position - n] if position >= n else None

    def _differentiable(self, output: int) -> bool:
        return output in self.plan.diff

    def _outs(self) -> tuple[Any, ...]:
        return self.plan.outs

    def _release(self) -> None:
        """Free the saved values; a node that saves numbers only can run again."""
        plan, saved, versions = self.plan, self._kept, self._versions  # another thread may free them meanwhile
        if not saved or versions is None:
            return
        if plan.frees is None:
            plan.frees = any(v is not None for v in versions) or self._saves_operands()
        if plan.frees:
            if plan.numbers:
                self._extra("numbers", dict).update({i: saved[i] for i in plan.numbers})
            self._kept = self._versions = None

    def _saves_operands(self) -> bool:
        """Whether a number stands for a saved tensor, as in ``x * 2``."""
        return any(i in self.plan.tensors for i in self.plan.inputs)

    def values(self) -> list[Any]:
        """The saved values, after the version check."""
        saved, versions = self._kept, self._versions  # another thread may free them meanwhile
        if saved is None or versions is None:
            raise RuntimeError(FREED)
        got, captured = [], CAPTURES
        for t, version in zip(saved, versions):  # noqa: B905  (the keyword costs as much as a round)
            if version is None:
                got.append(t)
            elif t._vc.version != version:
                got.append(self._odd(len(got), t, version))
            elif t._ex is not None and t._ex.get("detached", 0) > self._seq:
                raise RuntimeError(DETACHED)
            elif t._view is None and not captured:
                got.append(t._storage.value)
            else:
                got.append(value_of(t))
        return got

    def tensors(self, made_by: Edge = None) -> list[Any]:
        """The saved values as tensors with history, for ``create_graph``."""
        saved, versions = self._kept, self._versions  # another thread may free them meanwhile
        if saved is None or versions is None:
            raise RuntimeError(FREED)
        pairs = enumerate(zip(saved, versions))  # noqa: B905  (the keyword costs as much as a round)
        return [t if version is None else self._kept_tensor(i, made_by) for i, (t, version) in pairs]

    def apply(self, grads: Grads) -> Grads:
        """Gradients of the inputs (values) from those of the outputs (values or None)."""
        plan = self.plan
        arguments = self.values() if self._kept or self._kept is None else []
        for i in plan.diff:
            grad = grads[i]
            arguments.append(_zeros(plan.outs[i], grads) if grad is None else grad)
        kernel = plan.kernel
        if kernel is None:
            return plan.routed(arguments, ())
        compiled = kernel.kernels.get(()) or immediate.compiled(kernel, ())
        recorder = state.recorder
        try:
            if recorder is None:
                results = compiled(*with_arrays(arguments))
            else:
                results = recorder.record(compiled, arguments, kernel.name)
        except (TypeError, ValueError):
            results = immediate.run(kernel, (), arguments)
        return results if plan.route is None else plan.routed(arguments, results)

    def _apply_tensors(self, grads: Grads, call: Callable[..., Any], made_by: Edge = None) -> Grads:
        """As ``apply``, on tensors through ``call``: the gradients have history themselves."""
        plan = self.plan
        saved = self.tensors(made_by)
        for i in plan.diff:
            saved.append(absent(plan.outs[i], grads) if grads[i] is None else grads[i])
        out = call(plan.kernel, tuple(saved), ()) if plan.kernel else ()
        return out if plan.route is None else plan.routed(saved, out)


def absent(out: Any, grads: Grads) -> Any:
    """Zeros for a gradient that nobody gave, of the class of the others if that sees the calls."""
    like = next((g for g in grads if g is not None and subclassed(g)), None)
    if like is None:
        return wrap(_zeros(out, [value_of(g) for g in grads if g is not None]))
    return redispatch("new_zeros.default", like, list(out.shape), dtype=FROM_NP[out.dtype], pin_memory=False)


class _Checked(OpNode):
    """The node of a call whose backward looks at values: its kernel's last result says that they are bad."""

    __slots__ = ()
    _simple = False

    def apply(self, grads: Grads) -> Grads:
        plan, kernel = self.plan, self.plan.kernel
        arguments = self.values()
        arguments += [_zeros(plan.outs[i], grads) if grads[i] is None else grads[i] for i in plan.diff]
        results = immediate.run(kernel, (), arguments) if kernel else ()
        immediate.verified(plan, (), arguments, (None, results[-1]))
        return plan.routed(arguments, results)

    def _apply_tensors(self, grads: Grads, call: Callable[..., Any], made_by: Edge = None) -> Grads:
        plan = self.plan
        saved = self.tensors(made_by)
        saved += [absent(plan.outs[i], grads) if grads[i] is None else grads[i] for i in plan.diff]
        out = call(plan.kernel, tuple(saved), ())
        flag = value_of(out[-1])
        if not isinstance(flag, LevelValue):  # a mapped backward is not checked, as in PyTorch
            immediate.verified(plan, (), [value_of(t) for t in saved], (None, flag))
        return plan.routed(saved, out)


def _zeros(out: Any, grads: Grads) -> Any:
    return immediate.zeros_beside(out.shape, out.dtype, grads)


_classes: dict = {}
_IN_AUTOGRAD = ("CopyBackwards", "NotImplemented")  # PyTorch's name() of these tells where they are from


def node_class(name: str) -> type[OpNode]:
    """The class of nodes called ``name``; one per name."""
    found = _classes.get(name)
    if found is None:
        namespace = {"_namespace": "torch::autograd::"} if name in _IN_AUTOGRAD else {}
        found = _classes[name] = type(name, (OpNode,), {"__slots__": (), **namespace})
    return found


@cache
def _checked_class(name: str) -> type[OpNode]:
    return type(name, (_Checked,), {"__slots__": ()})


@cache
def _partial_class(name: str) -> type[OpNode]:
    """The class of nodes some of whose inputs have no derivative: the engine asks which are wanted."""
    refusals = property(lambda node: node.plan.refusals)
    return type(name, (OpNode,), {"__slots__": (), "_simple": False, "_refusals": refusals})


def _class_of(op: Kernel, plan: Plan) -> type[OpNode]:
    """The class of the nodes of ``plan``; a declaration may choose its name by shapes and dtypes."""
    declared = op.declaration
    choose = declared.node_of
    name = op.node if choose is None else declared.chosen(choose, plan.avals, plan.static)
    if plan.refuses:
        name = "NotImplemented"
    name = name + "0" if name.endswith("Backward") else name
    if plan.error is not None:
        return _checked_class(name)
    return node_class(name) if plan.refusals is None else _partial_class(name)


def _by_value(t: Any, version: int | None) -> tuple[Any, int | None]:
    """What is saved of ``t`` where later changes of it do no harm: its value, and its history."""
    if version is None:
        return t, None
    new, edge = wrap(value_of(t)), nodes.edge_of(t)
    if isinstance(edge, tuple) and isinstance(edge[0], nodes.AccumulateGrad):
        new._acc = weakref.ref(edge[0])
    else:
        new._edge = edge
    new._rg = t._rg
    return new, new._vc.version


def make(op: Kernel, plan: Any, edges: list[Any], saved: list[Any], versions: list[Any]) -> OpNode:
    """A new node for one recorded call of ``op``."""
    cls = plan.node_class
    if cls is None:
        cls = plan.node_class = _class_of(op, plan)
    for i in plan.apart:
        saved[i], versions[i] = _by_value(saved[i], versions[i])
    node = cls()
    node.plan, node._edges, node._kept, node._versions = plan, edges, saved, versions
    node._arity = plan.arity
    node._seq = nodes.next_sequence()
    node._ex = None
    return node
