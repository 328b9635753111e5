"""``backward`` and ``grad``: roots, their gradients, and what is wanted of the engine."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torchlike._base.device import stays
from torchlike._base.layout import is_dense
from torchlike._base.state import UNUSUAL, state
from torchlike._core.autograd import engine
from torchlike._core.autograd import node as nodes
from torchlike._core.dispatch.dispatch import call, refresh
from torchlike._core.dispatch.layers import DISPATCH, TRANSFORMS
from torchlike._core.overrides import torch_function
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import Tensor, device_of, value_of, wrap
from torchlike._executor import immediate
from torchlike._executor.pending import Array
from torchlike._executor.spread import layout_of

if TYPE_CHECKING:
    from torchlike._core.typed import Edge, Shape, TensorOrTensors


class GradientEdge(NamedTuple):
    """A place in the graph through which a gradient flows: output ``output_nr`` of ``node``.

    It stands for a tensor in ``backward`` and ``grad``, without keeping the tensor's value alive.
    """

    node: nodes.Node
    output_nr: int
    ownership_token: object = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge into which the gradient of ``tensor`` flows.

    Raises RuntimeError for a tensor that does not require grad.

    >>> import torchlike as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> edge = torch.autograd.graph.get_gradient_edge(x * 2)
    >>> torch.autograd.grad(edge, x, torch.ones(2))
    (tensor([2., 2.]),)
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*nodes.edge_of(_fresh(tensor)))


def _fresh(t: Tensor) -> Tensor:
    if t._diff is not None:
        refresh(t)
    return t


def _edge(x: Tensor | GradientEdge) -> Edge:
    """(node, output number) of a tensor or edge, or None."""
    if isinstance(x, GradientEdge):
        return x.node, x.output_nr
    return nodes.edge_of(_fresh(x))


class _Root(NamedTuple):
    """What is known of a root: its shape, dtype, whether its values are abstract, and the device that a seed needs."""

    shape: tuple
    dtype: object
    meta: bool
    place: Any = None


def _root(x: Tensor | GradientEdge) -> _Root:
    """Shape and dtype of a tensor or of what flows through an edge."""
    if isinstance(x, GradientEdge):
        like = wrap(immediate.Abstract(*_shape_dtype(x.node._outs()[x.output_nr])))
        return _Root(like.shape, like.dtype, False)
    return _Root(x.shape, x.dtype, x.is_meta, immediate.where((x._storage.form,)) if type(x) in KIND else None)


def _shape_dtype(out: Any) -> tuple[Shape, Any]:
    return tuple(out.shape), out.dtype


def _root_edges(roots: Sequence[Any]) -> list[Any]:
    edges = []
    for i, root in enumerate(roots):
        edge = _edge(root)
        if edge is None or edge[0] is None:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        edges.append(edge)
    return edges


def _seeds(roots: Sequence[Any], grads: Sequence[Any], create: bool, batched: bool) -> list[Any]:
    """The gradients of the roots: tensors with ``create``, else values."""
    out = []
    seed = engine.kind_of_task()[1]
    create = create or seed is not None
    for i, (root, g) in enumerate(zip(roots, grads, strict=True)):
        if g is None and seed is not None and isinstance(root, Tensor):
            _implicit_seed(_root(root))
            out.append(seed(root))
        elif g is None:
            value = _scalar_seed(root)
            if value is None:
                value = _implicit_seed(_root(root))
            out.append(wrap(immediate.own(value)) if create else value)
        else:
            g = _checked_seed(i, _root(root), g, batched)
            if type(root) in KIND and type(g) in KIND:
                g = _seed_there(i, root, g)
            out.append(g if create else value_of(g))
    if batched:
        _demand_one_batch(grads)
    return out


def _demand_one_batch(grads: Sequence[Any]) -> None:
    """Refuse grad outputs whose first dimensions differ, and those that have none to count."""
    sizes = [None if g is None else g.shape[0] for g in grads]
    if None in sizes:
        raise ValueError(
            f"is_grads_batched=True: grad_outputs[{sizes.index(None)}] is None, which has no first dimension to count "
            "independent gradients; pass a tensor of ones for a scalar output"
        )
    if len(set(sizes)) > 1:
        raise ValueError(
            "is_grads_batched=True: Expected all tensors to have the same size in the mapped dimension, the first, but "
            f"got sizes {sizes}"
        )


def _scalar_seed(root: Any) -> Any:
    """The gradient 1 of a real 0-dim tensor that is no view, the usual loss; None for any other root."""
    if root.__class__ is Tensor and root._view is None:
        value = root._storage.value
        like = value.aval if value.__class__ is Array else value
        if like.shape == () and like.dtype.kind == "f" and value.__class__ is not immediate.Abstract:
            return immediate.one((), like.dtype, immediate.where((value,)) if stays() else None)
    return None


def _implicit_seed(root: _Root) -> Any:
    shape, dtype = tuple(root.shape), root.dtype
    if root.shape.numel() != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if not dtype.is_floating_point:
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {dtype}")
    return immediate.Abstract(shape, dtype.np) if root.meta else immediate.one(shape, dtype.np, root.place)


def _checked_seed(i: int, root: _Root, g: Any, batched: bool) -> Tensor:
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if batched and (not g.ndim or not g.shape[0]):
        raise IndexError(
            f"is_grads_batched=True: grad_outputs[{i}] of shape {g.shape} holds no gradient; its first dimension must "
            "count at least one"
        )
    if batched and g.shape[1:] != root.shape:
        raise RuntimeError(
            "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. "
            "The sizes of the remaining dimensions are expected to match the shape of corresponding output, but a "
            f"mismatch was detected: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of "
            f"{root.shape}. If you only want some tensors in `grad_output` to be considered batched, consider using "
            "vmap."
        )
    if not batched and g.shape != root.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of {root.shape}."
        )
    if g.dtype.is_complex != root.dtype.is_complex:
        raise RuntimeError(
            f"For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
            f"dtype: grad_output[{i}] has a dtype of {g.dtype} and output[{i}] has a dtype of {root.dtype}."
        )
    return g if g.dtype is root.dtype else g.to(root.dtype)


def _seed_there(i: int, root: Tensor, g: Tensor) -> Tensor:
    """A seed on the device of its root: a number goes there, more is refused."""
    here, there = device_of(g), device_of(root)
    if here == there or layout_of(value_of(root)) is not None or layout_of(value_of(g)) is not None:
        return g
    if g.ndim:
        raise RuntimeError(f"invalid gradient at index {i} - expected device {there} but got {here}")
    return g.to(there)


def _as_tuple(x: Any) -> Any:
    if x is None:
        return None
    return (x,) if isinstance(x, Tensor | GradientEdge) else tuple(x)


def _as_roots(x: Any) -> Any:
    """As ``_as_tuple``; something that is no tensor but overrides functions is one of them."""
    return (x,) if hasattr(x, "__torch_function__") else _as_tuple(x)


def _given(inputs: Any, function: str) -> tuple[Any, ...]:
    """The inputs as a tuple, of which nothing is known yet."""
    if isinstance(inputs, Mapping):
        inputs = inputs.values()
    inputs = _as_roots(inputs) if function == "grad" else _as_tuple(inputs)
    if not inputs:
        raise RuntimeError(f"`inputs` argument to `{function}()` cannot be empty.")
    return inputs


def _wanted(inputs: Sequence[Any], function: str) -> Sequence[Any]:
    """The inputs: tensors and edges that require grad."""
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor | GradientEdge):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(x).__name__}")
        if isinstance(x, Tensor) and not x.requires_grad:
            problem = "One of the differentiated Tensors does not require grad"
            if function == "backward":
                problem = "can't retain_grad on Tensor that has requires_grad=False"
            raise RuntimeError(f"{problem} (inputs[{i}])")
    return inputs


def _relevant(values: Iterable[Any]) -> list[Any]:
    """Those that may override a call: tensors and what stands for them."""
    return [x for x in values if isinstance(x, Tensor) or hasattr(type(x), "__torch_function__")]


def backward(
    tensors: TensorOrTensors,
    grad_tensors: TensorOrTensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: TensorOrTensors | None = None,
    inputs: Any = None,
) -> Any:
    """Add the gradients of ``tensors`` to the ``.grad`` of the leaves (or of ``inputs`` only).

    Args:
        tensors: one or several roots, each a tensor or a :class:`GradientEdge`. grad_tensors: their
            gradients; None for scalar roots.
        retain_graph: keep saved tensors (default: as ``create_graph``).
        create_graph: record the backward, so that gradients can be differentiated.
        inputs: tensors (or edges of leaves; or a dict of them) that alone receive a gradient.
    """
    usual = grad_tensors is None is grad_variables and inputs is None and create_graph is False
    if usual and _at_once(tensors, retain_graph):
        return
    plain = tensors.__class__ is Tensor and inputs is None and not state.function_modes  # nothing overrides the call
    if state.levels and any(level.functional for level in state.levels):
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
            "functorch.vjp instead or call backward() outside of functorch transforms."
        )
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` were both passed to backward(); use `grad_tensors`")
        grad_tensors = grad_variables
    roots = (tensors,) if plain else _as_roots(tensors)
    if inputs is not None:
        inputs = _given(inputs, "backward")
    given = roots if inputs is None else roots + inputs
    if not plain and torch_function.asked(given) and (relevant := _relevant(given)):
        kwargs = {"grad_tensors": grad_tensors, "retain_graph": retain_graph, "create_graph": create_graph,
                  "inputs": inputs}  # fmt: skip
        return torch_function.hand_over(backward, relevant, (roots,), kwargs, "torch.autograd.backward")
    create_graph = _flag(create_graph)
    keep = create_graph if retain_graph is None else _flag(retain_graph)
    if create_graph:
        warnings.warn(_CYCLE, UserWarning, stacklevel=2)
    captures = ()
    if inputs is not None:
        inputs = _wanted(inputs, "backward")
    roots, seeds = _start(roots, grad_tensors, create_graph or bool(state.levels))
    if inputs is not None:
        for x in inputs:
            if isinstance(x, Tensor) and not nodes.is_leaf(_fresh(x)):
                nodes.retain(x)
        captures = [_edge(x) for x in inputs]
    engine.run(roots, seeds, keep=keep, create=create_graph, captures=captures)


def _at_once(root: Any, keep: bool | None) -> bool:
    """Run backward from the usual loss, a scalar, where nothing overrides or watches it; whether that was done."""
    if keep is not None and keep.__class__ is not bool:
        return False
    if root.__class__ is not Tensor or DISPATCH.wrappers or (UNUSUAL and (state.function_modes or state.active)):
        return False
    edge: Any = root._edge
    if edge is None:
        return False
    value = root._storage.value
    usual = value.__class__ is Array and root._view is None and not CAPTURES
    seed = _SEEDS.get(value.aval) if usual else None
    if seed is None:
        seed = _scalar_seed(root)
        if seed is None:
            return False
        if usual and seed.__class__ is Array and not stays() and len(_SEEDS) < _KINDS:
            _SEEDS[value.aval] = seed
    engine.run_loss(edge, seed, keep is True)
    return True


_SEEDS: dict[Any, Any] = {}  # the gradient 1 of a real 0-dim tensor, by what it is, where it may be anywhere
_KINDS = 64  # of them are kept


def _flag(x: Any) -> bool:
    """A flag, or a byte that stands for one, as PyTorch takes them. TypeError or OverflowError for anything else."""
    if x.__class__ is bool:
        return x
    if not 0 <= (number := operator.index(x)) < 256:
        raise OverflowError(f"a flag must be a bool, or an integer from 0 to 255, not {number}")
    return number != 0


_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
    "which can cause a memory leak. Use autograd.grad when creating the graph to avoid this. If you have to use this "
    "function, make sure to reset the .grad fields of your parameters to None after use to break the cycle."
)


def _start(roots: Sequence[Any], grads: Any, create: bool, batched: bool = False) -> tuple[list[Any], list[Any]]:
    """The edges and gradients that a backward starts from."""
    for root in roots:
        if not isinstance(root, Tensor | GradientEdge):
            raise AssertionError(f"Expected output to be a torch.Tensor or a GradientEdge, not {type(root).__name__}")
    grads = (None,) * len(roots) if grads is None else _as_tuple(grads)
    if len(grads) < len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(grads)} gradients")
    return _root_edges(roots), _seeds(roots, grads[: len(roots)], create, batched)  # PyTorch ignores more of them


def grad(
    outputs: TensorOrTensors,
    inputs: Any,
    grad_outputs: TensorOrTensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Gradients of ``outputs`` with respect to ``inputs``, as a tuple; leaves' ``.grad`` is untouched.

    Args:
        outputs, inputs: tensors or gradient edges, one or several; for a dict of inputs the result is
            a dict. grad_outputs: gradients of the outputs; None for scalars.
        retain_graph, create_graph: as in :func:`backward`.
        allow_unused: give None for an input that the outputs do not depend on, instead of RuntimeError.
        is_grads_batched: the first dimension of every grad output counts independent gradients; all
            are propagated at once, and the results have that dimension too.
        materialize_grads: give zeros instead of None.

    >>> import torchlike as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if allow_unused is False and materialize_grads:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    roots, wanted = _as_roots(outputs), _given(inputs, "grad")
    given = roots + wanted
    if torch_function.asked(given) and (relevant := _relevant(given)):
        kwargs = {
            "grad_outputs": grad_outputs, "retain_graph": retain_graph, "create_graph": create_graph,
            "only_inputs": only_inputs, "allow_unused": allow_unused, "is_grads_batched": is_grads_batched,
            "materialize_grads": materialize_grads,
        }  # fmt: skip
        results = torch_function.hand_over(grad, relevant, (roots, wanted), kwargs, "torch.autograd.grad")
    else:
        if not only_inputs:
            warnings.warn("only_inputs argument is deprecated and is ignored now", FutureWarning, stacklevel=2)
        results = gradients(
            roots, wanted, grad_outputs, retain_graph, create_graph, allow_unused, is_grads_batched, materialize_grads
        )
    return dict(zip(inputs, results, strict=True)) if isinstance(inputs, Mapping) else results


def gradients(
    roots: Sequence[Any],
    inputs: Sequence[Any],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """What ``grad`` gives, as a tuple; nothing overrides it."""
    create_graph, allow_unused, materialize_grads = map(_flag, (create_graph, allow_unused, materialize_grads))
    keep = create_graph if retain_graph is None else _flag(retain_graph)
    through = create_graph or bool(state.levels) or engine.kind_of_task()[1] is not None  # as tensors
    start = _start(roots, grad_outputs, through or is_grads_batched, is_grads_batched)
    wanted = _wanted(inputs, "grad")
    captures = [_edge(x) for x in wanted]
    run = _batched if is_grads_batched else _single
    found = run(*start, keep, create_graph, captures)
    if not through and not is_grads_batched:
        found = _shared(found, _as_tuple(grad_outputs))
    return tuple(
        _found(got, i, x, allow_unused, materialize_grads, create_graph)
        for i, (got, x) in enumerate(zip(found, wanted, strict=True))
    )


def _single(roots: Sequence[Any], seeds: Sequence[Any], keep: bool, create: bool, captures: Sequence[Any]) -> list[Any]:
    """The gradient tensor of each captured edge, or None."""
    found = engine.run(roots, seeds, keep=keep, create=create, accumulate=False, captures=captures)
    return [found.get(edge) for edge in captures]


def _shared(found: Iterable[Any], given: Iterable[Any] | None) -> list[Any]:
    """The gradients, one tensor for each value: what was passed through is the tensor given, or the same for all."""
    tensors = {id(value_of(g)): g for g in given or () if isinstance(g, Tensor)}
    return [None if t is None else tensors.setdefault(id(value_of(t)), t) for t in found]


def _batched(
    roots: Sequence[Any], seeds: Sequence[Any], keep: bool, create: bool, captures: Sequence[Any]
) -> list[Any]:
    """As ``_single`` for each element of the seeds' first dimension, stacked."""
    if not seeds:
        return _single(roots, seeds, keep, create, captures)
    return TRANSFORMS.over_rows(lambda *rows: _single(roots, rows, keep, create, captures), seeds)


def _found(got: Any, i: int, x: Any, allow_unused: bool | None, materialize: bool, create: bool) -> Any:
    if got is None and not allow_unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {i} appears to not have been used in the graph. Set allow_unused=True "
            "if this is the desired behavior."
        )
    if got is None and materialize:
        if isinstance(x, GradientEdge):
            raise RuntimeError(
                f"materialize_grads cannot be used when the given input is a GradientEdge (inputs[{i}]), which does "
                "not lead to the outputs; pass the tensor, or allow_unused=True"
            )
        root = _root(x)
        got = wrap(immediate.zeros_beside(tuple(root.shape), root.dtype.np, (value_of(x),)))
        if x._view is not None and is_dense(x._view.layout):
            restride(got, x._view.layout.strides)
        got._rg = create
    return got


def method_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Gradients of this tensor with respect to the leaves, added to their ``.grad``."""
    if gradient is None is inputs and create_graph is False and _at_once(self, retain_graph):
        return
    backward(self, gradient, retain_graph, create_graph, None, inputs)


method_backward.__name__, method_backward.__qualname__ = "backward", "Tensor.backward"


def call_node(node: Any, *grads: Tensor | None) -> Any:
    """What the node makes of gradients of its outputs (None for zeros), without its hooks.

    A leaf adds it to its ``.grad``. TypeError for another number of them, or something else.
    """
    if len(grads) != node._arity:
        raise TypeError(f"{node.name()}: expected {node._arity} arguments, got {len(grads)} instead")
    for i, grad in enumerate(grads):
        if grad is not None and not isinstance(grad, Tensor):
            raise TypeError(f"{node.name()}: argument {i} is not a Variable but {type(grad).__name__}")
    results = [None] * len(node._edges)
    if node._fills or any(grad is not None for grad in grads):
        if node.__class__ is nodes.AccumulateGrad:
            backward(node.variable, grads[0])
        else:
            results = node._apply_tensors(list(grads), call)
    results = node._spread(results)
    return results[0] if len(results) == 1 else tuple(results)
