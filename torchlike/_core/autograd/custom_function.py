"""Custom functions: the node that users see as ``ctx``, the call, and what becomes of its outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from torchlike._base.device import jax_device, stays
from torchlike._base.frames import warn
from torchlike._base.state import followed, state, stops
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd.jax_rule import given_by_jax, tie
from torchlike._core.autograd.saved_tensors import FREED, SavedTensor, SavesTensors, packs
from torchlike._core.dispatch.dispatch import refresh
from torchlike._core.dispatch.inplace import demand_writable, rebase
from torchlike._core.dispatch.layers import DISPATCH
from torchlike._core.dispatch.view_calls import attach
from torchlike._core.tensor.mutation import bump, current, read_by, set_history
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import Tensor, alias, dtype_of, value_of, wrap
from torchlike._core.tensor.view_creation import FUNCTION, MULTIPLE, refusal
from torchlike._executor import immediate
from torchlike._ops.view import view_

if TYPE_CHECKING:
    from torchlike._base.dtypes import dtype
    from torchlike._core.autograd.node import Node
    from torchlike._core.typed import Edge, Grads, Shape


class CustomNode(SavesTensors):
    """The node of one call of a custom function; each Function has a class of its own.

    Users keep what they like on it, so names that are not PyTorch's start with an underscore.

    Attributes:
        needs_input_grad: for each argument, whether it is a tensor that requires grad.
        to_save, dirty_tensors, non_differentiable: what forward has declared; None before and after.
        materialize_grads: whether backward gets zeros for undefined gradients.
        _positions: for each argument, whether it is a tensor. _expected: (shape, dtype, device) of each of
            the gradients that ``_edges`` wait for, None where there is no edge.
        _returned: (shape, dtype) of each output, None for what is no tensor. _undefined: numbers of the
            tensors among them that have no gradient.
        _owned: {position in ``_kept``: output number} of the outputs that are saved.
        _spent: whether the saved tensors were freed because they could be read only once.
    """

    __slots__ = (
        "needs_input_grad", "to_save", "dirty_tensors", "non_differentiable", "saved_for_forward",
        "materialize_grads", "_materialize_non_diff_grads", "_arity", "_positions", "_expected", "_returned",
        "_undefined", "_owned", "_spent", "__dict__",
    )  # fmt: skip
    if TYPE_CHECKING:
        _returned: Sequence[Any]
        _undefined: Sequence[int]
        needs_input_grad: tuple[bool, ...]
        to_save: Any  # what the user's forward has set, or None
        dirty_tensors: Any
        non_differentiable: Any
        saved_for_forward: Any
    _python = _fills = True

    __repr__ = object.__repr__

    def __init__(self) -> None:
        self._seq = nodes.next_sequence()
        self._ex = None
        self.to_save = self.dirty_tensors = self.non_differentiable = self.saved_for_forward = None
        self.materialize_grads = self._materialize_non_diff_grads = True
        self._kept, self._versions, self._owned = [], [], {}
        self._returned = self._undefined = ()
        self._arity = 0
        self._spent = False

    def _outs(self) -> tuple[Any, ...]:
        return tuple([out and immediate.Abstract(*out) for out in self._returned])

    def _output_of(self, position: int) -> int | None:
        return self._owned.get(position)

    def _release(self) -> None:
        self._kept = self._versions = None

    @property
    def requires_grad(self) -> bool:
        """Whether any argument requires grad."""
        return any(self.needs_input_grad)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to ``save_for_backward``, with their history, after the check of their versions.

        Raises RuntimeError where they have been freed, or one of them was changed in place since.
        """
        if self.saved_for_forward is not None:  # jvp asks
            return tuple(self.saved_for_forward)
        if self._spent:
            raise RuntimeError(_SPENT)
        saved = self._kept
        if saved is None:
            raise RuntimeError(FREED)
        got = tuple([self._kept_tensor(i) for i in range(len(saved))])
        if state.dispatch_modes:
            got = tuple([_anew(t) if i in self._owned else t for i, t in enumerate(got)])
        if got and self._forward_cls.clear_saved_tensors_on_access:
            self._release()
            self._spent = True
        return got

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """The slots of the saved tensors."""
        if self._kept is None:
            raise RuntimeError(FREED)
        return tuple([SavedTensor(self, i) for i in range(len(self._kept))])

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object: it is a node of a backward graph")

    def _get_user_fn(self) -> Callable[..., Any]:
        """The function that the user wrote: ``backward(ctx, *grads)``."""
        raise NotImplementedError

    def _apply_tensors(self, grads: Grads, call: Callable[..., Any], made_by: Edge = None) -> Grads:
        """The gradients of the tensor arguments, checked, from those of the outputs (None: undefined)."""
        if self.materialize_grads and not all([g is not None for g in grads]):
            grads = _materialized(self, grads)
        backward = followed(self._get_user_fn())
        got = backward(self, list(grads)) if self._forward_cls.boxed_grads_call else backward(self, *grads)
        return _accepted(self, _one_per_tensor(self, got if isinstance(got, tuple) else (got,)))


_SPENT = (
    "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the autograd.Function. "
    "Either access saved_tensors only once, or set clear_saved_tensors_on_access=False."
)


# -- what goes into the user's backward and what comes out -------------------------------------------


def _materialized(node: CustomNode, grads: Grads) -> list[Any]:
    """``grads`` with zeros for the undefined gradients of tensors."""
    given = [value_of(g) for g in grads if g is not None]
    meta = any(g is not None and g.is_meta for g in grads)
    place = None if meta or not stays() else immediate.where(given) or _place(node)
    make = immediate.Abstract if meta else functools.partial(immediate.zeros, device=place)
    skip = () if node._materialize_non_diff_grads else node._undefined
    return [
        wrap(make(*out)) if g is None and out is not None and i not in skip else g
        for i, (g, out) in enumerate(zip(grads, node._returned, strict=True))
    ]


def _place(node: CustomNode) -> Any:
    """Where the inputs of the forward were."""
    return next(
        (jax_device(known[2]) for known in node._expected if known is not None and known[2].type != "meta"), None
    )


def _one_per_tensor(node: CustomNode, got: Sequence[Any]) -> list[Any]:
    """One gradient for each tensor argument, from one for each argument."""
    n, expected = len(got), len(node._positions)
    if n > expected and all(g is None for g in got[expected:]):
        got = got[:expected]
    elif n != expected:
        raise RuntimeError(
            f"function {node.name()} returned an incorrect number of gradients (expected {expected}, got {n})"
        )
    kept = []
    for i, (g, is_tensor) in enumerate(zip(got, node._positions, strict=True)):
        if is_tensor:
            if g is not None and not isinstance(g, Tensor):
                raise RuntimeError(
                    f"expected Variable or None (got {type(g).__name__}) at position {i + 1} of what function "
                    f"{node.name()} returned; return a tensor or None for each argument of forward"
                )
            kept.append(g)
        elif g is not None:
            raise RuntimeError(
                f"function {node.name()} returned a gradient different than None at position {i + 1}, but the "
                "corresponding forward input was not a Variable; return None for arguments that are not tensors"
            )
    return kept


def _accepted(node: CustomNode, got: list[Any]) -> list[Any]:
    """The gradients with the shapes and dtypes of what they are gradients of."""
    for i, (g, expected) in enumerate(zip(got, node._expected, strict=True)):
        if expected is not None and g is not None:
            shape, dtype, device = expected
            if tuple(g.shape) != shape or g.dtype is not dtype:
                got[i] = _fitted(node, i, g, shape, dtype)
            if g.device != device:
                raise RuntimeError(f"{_invalid(node, i)} - expected device {device} but got {g.device}")
    return got


def _fitted(node: Node, i: int, g: Tensor, shape: Shape, dtype: dtype) -> Tensor:
    """``g`` summed to ``shape`` and cast to ``dtype``."""
    if tuple(g.shape) != shape:
        if not _expands(shape, g.shape):
            raise RuntimeError(
                f"{_invalid(node, i)} - got {list(g.shape)} but expected shape compatible with {list(shape)}"
            )
        g = _summed(g, shape)
    if g.dtype.is_complex and not dtype.is_complex:
        raise RuntimeError(
            f"{_invalid(node, i)} - got a complex one ({g.dtype}) for a real input ({dtype}), where "
            "input_is_complex == grad_is_complex is expected; return its real part"
        )
    return g if g.dtype is dtype else g.to(dtype)


def _invalid(node: Node, i: int) -> str:
    return f"Function {node.name()} returned an invalid gradient at index {i}"


def _expands(small: Sequence[int], large: Sequence[int]) -> bool:
    """Whether the shape ``small`` expands to ``large``."""
    n = len(large) - len(small)
    return n >= 0 and all(a in (1, b) for a, b in zip(small, large[n:], strict=True))


def _summed(g: Tensor, shape: Shape) -> Tensor:
    """The gradient of what was expanded from ``shape``."""
    n = g.ndim - len(shape)
    kept = [n + i for i, length in enumerate(shape) if length == 1 and g.shape[n + i] != 1]
    if kept:
        g = g.sum(kept, keepdim=True)
    return g.sum(list(range(n))) if n else g


# -- the call --------------------------------------------------------------------------------------


def run(
    node: CustomNode,
    forward: Callable[..., Any],
    setup: Callable[..., Any] | None,
    args: Sequence[Any],
    then: Callable[..., Any] | None = None,
) -> Any:
    """Call ``forward`` without recording; the outputs get ``node`` as history, and it saves what it was told to.

    ``setup``: the function ``(ctx, inputs, output)`` of a forward that takes no ctx, or None. ``then``: called with the
    node and the list of outputs at the end, for forward mode.
    """
    record = _connect(node, args) and state.grad
    followed_by_jax = {} if stops() else given_by_jax(args)
    before, state.grad = state.grad, False
    try:
        if setup is None:
            output = followed(forward)(node, *args)
        else:
            output = followed(forward)(*args)
            followed(setup)(node, args, output)
        outputs = output if isinstance(output, tuple) else (output,)
        if setup is not None and node.to_save is not None:
            _refuse_returned_inputs(node, args, outputs)
        outputs = _finished(node, args, outputs, record)
        if followed_by_jax:
            tie(node, followed_by_jax, outputs, _materialized)
    finally:
        state.__dict__["grad"] = before
    if then is not None:  # before anything is saved: jvp is given what was saved for it
        then(node, outputs)
    if record:
        _save(node, outputs)
        if nodes.WATCHERS:
            nodes.watch(node)
    node.to_save = node.dirty_tensors = node.non_differentiable = node.saved_for_forward = None
    return tuple(outputs) if isinstance(output, tuple) else outputs[0]


def _refuse_returned_inputs(node: CustomNode, args: Sequence[Any], outputs: Sequence[Any]) -> None:
    """With setup_context, an input that is an output too is ambiguous when saved."""
    both = {id(t) for t in args if isinstance(t, Tensor)} & {id(t) for t in outputs}
    both -= {id(t) for t in node.dirty_tensors or ()}
    if any(id(t) in both for t in node.to_save):
        raise RuntimeError(
            "An input that has been returned as-is as output is being saved for backward. This is not supported if you "
            "override setup_context. You should return and save a view of the input instead, e.g. with x.view_as(x) or "
            "setup ctx inside the forward function itself."
        )


def _connect(node: CustomNode, args: Sequence[Any]) -> bool:
    """Give ``node`` its edges; whether any argument requires grad."""
    positions, needs = [], []
    edges: list[Edge] = []
    expected: list[Any] = []
    for a in args:
        if not isinstance(a, Tensor):
            positions.append(False)
            needs.append(False)
            continue
        if CAPTURES:
            read_by(a)
        if a._diff is not None and state.grad:
            refresh(a)
        positions.append(True)
        if nodes.requires_grad(a):
            needs.append(True)
            edges.append(nodes.edge_of(a))
            expected.append((tuple(a.shape), dtype_of(a), a.device))
        else:
            needs.append(False)
            edges.append(None)
            expected.append(None)
    node._positions, node.needs_input_grad = positions, tuple(needs)
    node._edges, node._expected = edges, expected
    return True in needs


def _finished(node: CustomNode, args: Sequence[Any], outputs: Sequence[Any], record: bool | None) -> list[Any]:
    """The outputs as the caller gets them; those with a gradient have ``node`` as history."""
    dirty = _marked_dirty(node, outputs)
    inputs = {id(a): i for i, a in enumerate(args) if isinstance(a, Tensor)}
    skip = _marked_non_differentiable(node)
    node._arity = len(outputs)
    results, undefined = [], []
    returned: list[Any] = []
    for i, t in enumerate(outputs):
        if not isinstance(t, Tensor):
            results.append(t)
            returned.append(None)
            continue
        dtype = dtype_of(t)
        key = id(t)
        if record and (dtype.is_floating_point or dtype.is_complex) and key not in skip:
            t = _given_history(node, i, t, key in dirty, inputs.get(key))
        else:
            undefined.append(i)
            t = _without_history(t, key in dirty, key in inputs)
        if t._diff is not None and key not in dirty:
            t._diff.creation = MULTIPLE if record and len(outputs) > 1 else FUNCTION
            current(t._diff, t)
        results.append(t)
        returned.append((tuple(t.shape), dtype.np))
    node._returned, node._undefined = returned, undefined
    return results


def _marked_dirty(node: CustomNode, outputs: Sequence[Any]) -> Collection[int]:
    """The ids of the dirty tensors, whose versions count the change."""
    if node.dirty_tensors is None:
        return ()
    ids = {id(t) for t in outputs}
    for i, t in enumerate(node.dirty_tensors):
        if not isinstance(t, Tensor):
            raise RuntimeError(
                f"mark_dirty can only accept variables, but argument {i} is of type {type(t).__name__}; pass tensors"
            )
        demand_writable(t)
        bump(t)
    if not all(id(t) in ids for t in node.dirty_tensors):
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
            "modified inplace must all be outputs of the Function."
        )
    return {id(t) for t in node.dirty_tensors}


def _marked_non_differentiable(node: CustomNode) -> Collection[int]:
    if node.non_differentiable is None:
        return ()
    for t in node.non_differentiable:
        if not isinstance(t, Tensor):
            raise RuntimeError(
                f"mark_non_differentiable only accepts variable arguments, but got {type(t).__name__}; pass tensors"
            )
    return {id(t) for t in node.non_differentiable}


def _given_history(node: CustomNode, i: int, t: Tensor, dirty: bool, position: int | None) -> Tensor:
    """Make ``node`` the history of its output number ``i``; ``position``: which argument it is, if any."""
    if position is None:
        if dirty:
            warn(
                "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated "
                "should be passed to ctx.mark_dirty()."
            )
        set_history(t, (node, i), True)
        return t
    if dirty:
        _rewrite(node, i, t, position)
        return t
    view = _view_of(t)
    view._edge, view._rg = (node, i), True
    return view


def _rewrite(node: CustomNode, i: int, t: Tensor, position: int) -> None:
    """The new history of the argument ``t``, which the function has changed in place."""
    if t._rg and nodes.is_leaf(t):
        raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    diff = t._diff
    if diff is None:
        nodes.new_history(t, (node, i))
        return
    if node._arity > 1:
        raise RuntimeError(_ONE_OUTPUT)
    if diff.creation is not None:
        raise refusal(t, indirect=False)
    if diff.base._rg and nodes.is_leaf(diff.base):
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    carries = sum(node._positions[:position])
    rebase(t, node, carries if node._edges[carries] is not None else None)


_ONE_OUTPUT = (
    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more "
    "than one Tensor, since the gradient of the changed base has a single way back. Either make sure that the input "
    "is not a view (using .clone() for example), or split the Function into two: one that changes its input and "
    "returns only that, and one for the other outputs."
)


def _without_history(t: Tensor, dirty: bool, is_input: bool) -> Tensor:
    """An output through which no gradient flows."""
    if not is_input:
        if t._rg:
            set_history(t, None, False)
        return t
    if nodes.requires_grad(t):
        return alias(t)
    return t if dirty else _view_of(t)


def _view_of(t: Tensor) -> Tensor:
    """Another tensor that views all of ``t``."""
    layout = t._layout
    return attach(t, (view_, (tuple(layout.shape),), 0), (), layout)


def _save(node: CustomNode, outputs: Sequence[Any]) -> None:
    """Keep the tensors that forward has declared; outputs of the node without their history, which is the node."""
    if node.to_save is None:
        return
    ids = {id(t): i for i, t in enumerate(outputs) if isinstance(t, Tensor) and i not in node._undefined}
    saved: list[Any] = []
    versions: list[int | None] = []
    for position, t in enumerate(node.to_save):
        if t is None:
            saved.append(None)
            versions.append(None)
        elif not isinstance(t, Tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {position} is of type {type(t).__name__}; "
                "keep it as an attribute of ctx"
            )
        else:
            number = ids.get(id(t))
            if number is not None:
                node._owned[position] = number
                t = DISPATCH.detach(t) if state.dispatch_modes and not packs() else alias(t)
            saved.append(t)
            versions.append(t._vc.version)
    node._kept, node._versions = saved, versions


def _anew(t: Tensor) -> Tensor:
    """A saved output with its history, detached anew: modes see it."""
    new = DISPATCH.detach(t)
    new._edge, new._rg = t._edge, t._rg
    return new


class Error(nodes.Node):
    """The history of what must not be differentiated: its backward raises."""

    __slots__ = ("message", "_arity")
    _namespace = "torch::autograd::"
    _python = True

    def __init__(self, message: str, edges: list[Any]) -> None:
        self.message, self._edges, self._arity = message, edges, len(edges)
        self._seq = nodes.next_sequence()
        self._ex = None

    def _apply_tensors(self, grads: Grads, call: Callable[..., Any]) -> NoReturn:
        raise RuntimeError(self.message)

    def _release(self) -> None:
        """Nothing is saved."""


def guarded(outputs: Sequence[Tensor | None], message: str) -> list[Tensor | None]:
    """Aliases of the tensors whose gradients cannot be computed: that raises RuntimeError with ``message``."""
    node = Error(message, [None if t is None else _sink(t) for t in outputs])
    got = []
    for i, t in enumerate(outputs):
        got.append(None if t is None else alias(t))
        if t is not None:
            got[i]._edge, got[i]._rg = (node, i), True
    return got


def _sink(t: Tensor) -> Edge:
    """An edge to where no one looks."""
    leaf = t.detach()
    leaf.requires_grad = True
    return nodes.edge_of(leaf)
