"""Autograd fields and methods of Tensor, and ``backward``/``grad``."""

import warnings

from torchlike._base.state import state
from torchlike._core import engine, opnode
from torchlike._core import node as nodes
from torchlike._core.dispatch import call, refresh
from torchlike._core.hooks import RemovableHandle
from torchlike._core.storage import UNTRACKED
from torchlike._core.tensor import Tensor, value_of, wrap
from torchlike._executor import immediate


def _fresh(t):
    if t._diff is not None:
        refresh(t)
    return t


def _get_requires_grad(t):
    diff = t._diff
    if diff is None:
        return t._rg
    return diff.base._rg or (t._rg and t._edge is not nodes.NOWHERE)


def _set_requires_grad(t, value):
    _fresh(t)
    if not isinstance(value, bool):
        raise RuntimeError(f"requires_grad must be a bool, not {type(value).__name__}")
    if not nodes.is_leaf(t):
        if not value:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in "
                "a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        return
    if value and t._vc is UNTRACKED and not state.inference:
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
    if value and not (t.dtype.is_floating_point or t.dtype.is_complex):
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    t._edge, t._rg = None, value


def _grad_fn(t):
    edge = _fresh(t)._edge
    return None if edge is None else edge[0]


def _get_grad(t):
    grad = t._grad
    if grad is None and t._edge is not None and t._edge[0] is not None and not nodes.retained(t):
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
            "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
            "Tensor, use .retain_grad() on the non-leaf Tensor.",
            UserWarning,
            stacklevel=2,
        )
    return grad


def _set_grad(t, value):
    if value is not None:
        _check_grad(t, value)
    t._grad = value


def _check_grad(t, value):
    if not isinstance(value, Tensor):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of {type(value).__name__}"
        )
    if value is t:
        raise RuntimeError("can't assign Variable as its own grad")
    if value.dtype is not t.dtype:
        raise RuntimeError(
            f"assigned grad has data of a different type: expected {t.dtype}, got {value.dtype}; convert it with "
            f".to(dtype)"
        )
    if value.device != t.device:
        raise RuntimeError(
            f"assigned grad has data located on a different device: expected {t.device}, got {value.device}"
        )
    if value.shape != t.shape:
        raise RuntimeError(
            f"assigned grad has data of a different size: expected {list(t.shape)}, got {list(value.shape)}"
        )


def requires_grad_(t, requires_grad=True):
    """Set whether the tensor requires grad, and return it."""
    t.requires_grad = requires_grad
    return t


def detach_(t):
    """Cut the tensor from its history, in place."""
    if t._diff is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) "
            "for training, "
            "and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() "
            "cannot be "
            "called on these gradients."
        )
    if not nodes.is_leaf(t):
        _extras(t)["detached"] = nodes.next_sequence()
    t._edge, t._rg = None, False
    return t


def retain_grad(t):
    """Keep ``.grad`` of a tensor that is not a leaf."""
    if not t.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if not nodes.is_leaf(t):
        nodes.retain(t)


def _retains_grad(t):
    return not nodes.is_leaf(t) and nodes.retained(t)


def register_hook(t, hook):
    """Call ``hook(grad)`` when the tensor's gradient is computed; what it returns replaces it.

    Returns a handle with ``remove()``.
    """
    if not t.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if nodes.is_leaf(t):
        hooks = _extras(t).setdefault("tensor_hooks", {}).setdefault(0, {})
        nodes.accumulator(t).extra("tensor_hooks", lambda: t._ex["tensor_hooks"])
    else:
        node, nr = t._edge
        hooks = node.extra("tensor_hooks", dict).setdefault(nr, {})
    return RemovableHandle.add(hooks, hook)


def register_post_accumulate_grad_hook(t, hook):
    """Call ``hook(tensor)`` after the leaf's ``.grad`` has been updated."""
    if not t.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not nodes.is_leaf(t):
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return RemovableHandle.add(_extras(t).setdefault("post_accumulate", {}), hook)


def _extras(t):
    if t._ex is None:
        t._ex = {}
    return t._ex


def _root_edges(tensors):
    edges = []
    for i, t in enumerate(tensors):
        edge = nodes.edge_of(_fresh(t))
        if edge is None or edge[0] is None:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        edges.append(edge)
    return edges


def _seeds(tensors, grads, create):
    """The gradients of the roots: tensors with ``create``, else values."""
    out = []
    for i, (t, g) in enumerate(zip(tensors, grads, strict=True)):
        if g is None:
            value = _implicit_seed(t)
            out.append(wrap(value) if create else value)
        else:
            g = _checked_seed(i, t, g)
            out.append(g if create else value_of(g))
    return out


def _implicit_seed(t):
    shape, dtype = t._storage.value.shape if t._view is None else t._view.shape, t.dtype
    if shape and t.numel() != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if not dtype.is_floating_point:
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {dtype}")
    return immediate.Abstract(shape, dtype.np) if t.is_meta else immediate.one(shape, dtype.np)


def _checked_seed(i, t, g):
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if g.shape != t.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of {t.shape}."
        )
    if g.dtype.is_complex != t.dtype.is_complex:
        raise RuntimeError(
            f"For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
            f"dtype: grad_output[{i}] has a dtype of {g.dtype} and output[{i}] has a dtype of {t.dtype}."
        )
    return g if g.dtype is t.dtype else g.to(t.dtype)


def _as_tuple(x):
    if x is None:
        return None
    return (x,) if isinstance(x, Tensor) else tuple(x)


def backward(
    tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None
):
    """Add the gradients of ``tensors`` to the ``.grad`` of the leaves (or of ``inputs`` only).

    Args:
        tensors: one or several roots. grad_tensors: their gradients; None for scalar roots.
        retain_graph: keep saved tensors (default: as ``create_graph``).
        create_graph: record the backward, so that gradients can be differentiated.
    """
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` were both passed to backward(); use `grad_tensors`")
        grad_tensors = grad_variables
    if create_graph:
        warnings.warn(_CYCLE, UserWarning, stacklevel=2)
    tensors, inputs = _as_tuple(tensors), _as_tuple(inputs)
    if inputs is not None and not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    roots, seeds = _start(tensors, grad_tensors, create_graph)
    captures = ()
    if inputs is not None:
        for t in inputs:
            retain_grad(t)
        captures = [nodes.edge_of(t) for t in inputs]
    keep = create_graph if retain_graph is None else retain_graph
    engine.run(roots, seeds, keep=keep, create=create_graph, captures=captures)


_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
    "which can cause a memory leak. Use autograd.grad when creating the graph to avoid this. If you have to use this "
    "function, make sure to reset the .grad fields of your parameters to None after use to break the cycle."
)


def _start(tensors, grads, create):
    """The edges and gradients that a backward starts from."""
    grads = _as_tuple(grads) or (None,) * len(tensors)
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    return _root_edges(tensors), _seeds(tensors, grads, create)


def _check_inputs(inputs):
    for i, t in enumerate(inputs):
        if not t.requires_grad:
            raise RuntimeError(f"One of the differentiated Tensors does not require grad (inputs[{i}])")


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=None,
         is_grads_batched=False, materialize_grads=False):  # fmt: skip
    """Gradients of ``outputs`` with respect to ``inputs``, as a tuple; leaves' ``.grad`` is untouched.

    >>> import torchlike as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if is_grads_batched:
        raise NotImplementedError(
            "torch.autograd.grad(is_grads_batched=True) is not supported by torchlike yet"
        )
    outputs, inputs = _as_tuple(outputs), _as_tuple(inputs)
    if allow_unused is False and materialize_grads:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    keep = create_graph if retain_graph is None else retain_graph
    roots, seeds = _start(outputs, grad_outputs, create_graph)
    _check_inputs(inputs)
    captures = [nodes.edge_of(t) for t in inputs]
    found = engine.run(roots, seeds, keep=keep, create=create_graph, accumulate=False, captures=captures)
    return tuple(
        _found(found, i, t, edge, allow_unused, materialize_grads)
        for i, (t, edge) in enumerate(zip(inputs, captures, strict=True))
    )


def _found(found, i, t, edge, allow_unused, materialize):
    got = found.get(edge)
    if got is None and not allow_unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {i} appears to not have been used in the graph. Set allow_unused=True "
            "if this is the desired behavior."
        )
    if got is None and materialize:
        return wrap(immediate.zeros(tuple(t.shape), t.dtype.np))
    return got


def _method_backward(t, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Gradients of this tensor with respect to the leaves, added to their ``.grad``."""
    backward(t, gradient, retain_graph, create_graph, inputs=inputs)


def _call_node(node, *grads):
    """What the node makes of gradients of its outputs."""
    results = node.apply_tensors(list(grads), call)
    return results[0] if len(results) == 1 else tuple(results)


def install():
    """Give Tensor its autograd surface."""
    opnode.OpNode.__call__ = _call_node
    Tensor.requires_grad = property(_get_requires_grad, _set_requires_grad)
    Tensor.grad_fn = property(_grad_fn)
    Tensor.grad = property(_get_grad, _set_grad, lambda t: _set_grad(t, None))
    Tensor.retains_grad = property(_retains_grad)
    Tensor.requires_grad_, Tensor.detach_, Tensor.retain_grad = requires_grad_, detach_, retain_grad
    Tensor.register_hook, Tensor.backward = register_hook, _method_backward
    Tensor.register_post_accumulate_grad_hook = register_post_accumulate_grad_hook
