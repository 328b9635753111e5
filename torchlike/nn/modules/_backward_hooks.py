"""Backward hooks of modules: an identity around the inputs and outputs of a call, whose node runs them."""

import functools
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from torchlike._base.home import home
from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd.hooks import warn_where_unseen
from torchlike._core.dispatch.dispatch import refresh
from torchlike._core.dispatch.view_calls import DiffView
from torchlike._core.tensor import view_creation
from torchlike._core.tensor.tensor import Tensor, alias, value_of, wrap
from torchlike._core.tensor.views import View
from torchlike._executor import immediate


class BackwardHookFunctionBackward(nodes.Node):
    """The identity over several tensors. A gradient that did not arrive counts as zeros."""

    __slots__ = ("metas", "_arity")
    _fills = True

    def __init__(self, tensors: Sequence[Tensor]):
        self.metas = tuple(immediate.Abstract(tuple(t.shape), t.dtype.np) for t in tensors)
        self._arity = len(tensors)
        self._edges = [nodes.edge_of(t) if t.requires_grad else None for t in tensors]
        self._seq, self._ex = nodes.next_sequence(), None

    def _outs(self):
        return self.metas

    def _release(self):
        """Nothing is saved."""

    def apply(self, grads):
        pairs = zip(grads, self.metas, strict=True)
        return [immediate.zeros_beside(meta.shape, meta.dtype, grads) if g is None else g for g, meta in pairs]

    def _apply_tensors(self, grads, call):
        pairs = zip(grads, self.metas, strict=True)
        given = [value_of(g) for g in grads if g is not None]
        make = functools.partial(immediate.zeros_beside, values=given)
        return [wrap(make(meta.shape, meta.dtype)) if g is None else g for g, meta in pairs]


def _identity(tensors: Sequence[Tensor]) -> tuple[list[Tensor], BackwardHookFunctionBackward]:
    """Views of whole ``tensors``, outputs of one node; in-place changes to them are refused."""
    for t in tensors:
        if t._diff is not None:
            refresh(t)
    node = BackwardHookFunctionBackward(tensors)
    return [_whole_view(t, node, i) for i, t in enumerate(tensors)], node


def _whole_view(t: Tensor, node: nodes.Node, nr: int) -> Tensor:
    new, diff = alias(t, type(t) if t._keeps_class else Tensor), t._diff
    if t._view is None:
        new._view = View((), (), t._layout)
    if diff is None:
        own, own_ints = len(new._view.steps), len(new._view.ints)
        new._diff = DiffView(t, t._vc.version, own, own_ints, view_creation.FUNCTION)
    else:
        kind = diff.creation or view_creation.FUNCTION
        new._diff = DiffView(diff.base, t._vc.version, diff.depth, diff.ints, kind, diff.lead)
    if t.requires_grad:
        new._edge, new._rg = (node, nr), True
    return new


def _through(values: tuple) -> tuple[tuple, list[int] | None, BackwardHookFunctionBackward | None]:
    """``values`` with their tensors passed through the identity, where those are, and its node.

    Without a tensor that requires grad, or in no_grad mode, ``values`` as they are, None and None.
    """
    where = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    if not (state.grad and any(values[i].requires_grad for i in where)):
        return values, None, None
    new, node = _identity([values[i] for i in where])
    out = list(values)
    for i, t in zip(where, new, strict=True):
        out[i] = t
    return _like(values, out), where, node


def _like(values: tuple, new: list) -> tuple:
    """``new`` as a tuple of the kind of ``values``."""
    return getattr(type(values), "_make", type(values))(new)


def _replaced(old: Any, new: Any, what: str) -> Any:
    """What a hook's result makes of the gradients ``old``: those, or as many others."""
    if new is None:
        return old
    if len(new) != len(old):
        title = "Backward pre hook" if what == "grad_output" else "Backward hook"
        raise RuntimeError(f"{title} returned an invalid number of {what}, got {len(new)}, but expected {len(old)}")
    return new


def _padded(grads: Sequence, where: list[int], n: int) -> tuple:
    """The gradients at the places ``where`` of ``n``, None at the others."""
    out = [None] * n
    for i, g in zip(where, grads, strict=True):
        out[i] = g
    return tuple(out)


class BackwardHook:
    """The backward hooks of one call of ``module``: passes its inputs and its output through identities.

    The gradients of the outputs are seen first, by the pre-hooks, and kept until those of the inputs
    are known, which is when the hooks run; at once where no input requires grad.
    """

    def __init__(self, module, user_hooks: list[Callable], user_pre_hooks: list[Callable]):
        warn_where_unseen("register_full_backward_hook")
        self.module, self.user_hooks, self.user_pre_hooks = module, user_hooks, user_pre_hooks
        self.grad_outputs: Any = None
        self.n_inputs = 0
        self.inputs: list[int] | None = None  # which inputs are tensors; None where none requires grad

    def setup_input_hook(self, args: tuple) -> tuple:
        """The positional arguments to call the module with."""
        self.n_inputs = len(args)
        args, self.inputs, node = _through(args)
        if node is not None and self.inputs is not None:
            node.register_hook(self._input_hook(self.inputs))
        return args

    def setup_output_hook(self, result: Any) -> Any:
        """The output to return in place of ``result``."""
        values = result if isinstance(result, tuple) else (result,)
        values, where, node = _through(values)
        if node is not None and where is not None:
            node.register_hook(self._output_hook(where, len(values)))
        return values if isinstance(result, tuple) else values[0]

    def _input_hook(self, where: list[int]) -> Callable:
        def hook(grad_inputs, _):
            if self.grad_outputs is None:  # the gradient came another way than through the output
                return None
            got: Any = _padded(grad_inputs, where, self.n_inputs)
            for user_hook in self.user_hooks:
                got = _replaced(got, user_hook(self.module, got, self.grad_outputs), "grad_input")
            self.grad_outputs = None
            return tuple(got[i] for i in where)

        return hook

    def _output_hook(self, where: list[int], n_outputs: int) -> Callable:
        def hook(_, grad_outputs):
            got: Any = _padded(grad_outputs, where, n_outputs)
            changed = False
            for user_pre_hook in self.user_pre_hooks:
                new = user_pre_hook(self.module, got)
                got, changed = _replaced(got, new, "grad_output"), changed or new is not None
            self.grad_outputs = got
            if self.inputs is None:
                self._without_inputs()
            return tuple(got[i] for i in where) if changed else None

        return hook

    def _without_inputs(self) -> None:
        """Run the hooks of a call none of whose inputs requires grad."""
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients. See "
            "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
            "#torch.nn.Module.register_full_backward_hook for more details.",
            stacklevel=_user_level(),
        )
        for user_hook in self.user_hooks:
            got = user_hook(self.module, (None,) * self.n_inputs, self.grad_outputs)
            if got is not None and not (isinstance(got, tuple) and all(g is None for g in got)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )
        self.grad_outputs = None


def _user_level() -> int:
    """The ``stacklevel`` at which a warning of our caller names the nearest line that is not ours."""
    ours = __name__.partition(".")[0]
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and home(frame.f_globals.get("__name__", "")).partition(".")[0] == ours:
        frame, level = frame.f_back, level + 1
    return level


def hooked_output(watch: BackwardHook, result: Any) -> Any:
    """The output to return in place of ``result``; warns of a kind whose tensors are not looked for."""
    if not isinstance(result, Tensor | tuple):
        warnings.warn(
            "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
            f"{type(result)}",
            stacklevel=4,
        )
    return watch.setup_output_hook(result)


# -- hooks of the last node ------------------------------------------------------------------------------
_LEGACY = {
    "result": "Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors is "
    "deprecated and will be removed in future versions. This hook will be missing some of the grad_output.",
    "inputs": "Using non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of "
    "Tensors is deprecated and will be removed in future versions. This hook will be missing some of the grad_input.",
    "outputs": "Using a non-full backward hook when outputs are generated by different autograd Nodes is deprecated "
    "and will be removed in future versions. This hook will be missing some grad_output.",
    "nodes": "Using a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and will "
    "be removed in future versions. This hook will be missing some grad_input.",
}


def hook_last_node(module, args: tuple, result: Any, hooks: list[Callable]) -> None:
    """Register non-full ``hooks`` on the node that made the first tensor in ``result``."""
    first = result
    while not isinstance(first, Tensor):
        first = next(v for v in first.values() if isinstance(v, Tensor)) if isinstance(first, dict) else first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(_of_module(hook, module))
    why = _incomplete(args, result, node)
    if why is not None:
        advice = " Please use register_full_backward_hook to get the documented behavior."
        warnings.warn(_LEGACY[why] + advice, FutureWarning, stacklevel=4)


def _of_module(hook: Callable, module) -> Callable:
    """``hook`` as a hook of a node, which does not keep the module alive."""
    ref = weakref.ref(module)

    def called(grad_inputs, grad_outputs):
        owner = ref()
        if owner is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return hook(owner, grad_inputs, grad_outputs)

    called.__name__ = getattr(hook, "__name__", "<unknown>")
    return called


def _incomplete(args: tuple, result: Any, node: nodes.Node) -> str | None:
    """Why the gradients at ``node`` are not those of the whole module, if they are not."""
    outputs = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(r, Tensor) for r in outputs):
        return "result"
    if not all(isinstance(a, Tensor) for a in args):
        return "inputs"
    if any(r.grad_fn not in (None, node) for r in outputs):
        return "outputs"
    makers = {a.grad_fn for a in args if a.grad_fn is not None}
    return None if makers == {edge[0] for edge in node.next_functions} else "nodes"
