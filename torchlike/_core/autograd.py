"""Autograd fields and methods of Tensor."""

import warnings

from torchlike._base.state import state
from torchlike._core import node as nodes
from torchlike._core.backward import call_node, method_backward
from torchlike._core.dispatch import refresh
from torchlike._core.hooks import RemovableHandle
from torchlike._core.storage import UNTRACKED
from torchlike._core.tensor import Tensor


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


def install():
    """Give Tensor its autograd surface."""
    nodes.Node.__call__ = call_node
    Tensor.requires_grad = property(_get_requires_grad, _set_requires_grad)
    Tensor.grad_fn = property(_grad_fn)
    Tensor.grad = property(_get_grad, _set_grad, lambda t: _set_grad(t, None))
    Tensor.retains_grad = property(_retains_grad)
    Tensor.requires_grad_, Tensor.detach_, Tensor.retain_grad = requires_grad_, detach_, retain_grad
    Tensor.register_hook, Tensor.backward = register_hook, method_backward
    Tensor.register_post_accumulate_grad_hook = register_post_accumulate_grad_hook
