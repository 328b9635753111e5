"""Autograd fields and methods of Tensor."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from torchlike._base import dtypes
from torchlike._base.frames import warn
from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd.backward import call_node, method_backward
from torchlike._core.autograd.custom_function import Error
from torchlike._core.autograd.hooks import RemovableHandle, warn_where_unseen
from torchlike._core.autograd.operator_node import OpNode
from torchlike._core.conversion.device_moves import ToCopyBackward0
from torchlike._core.dispatch.dispatch import refresh
from torchlike._core.dispatch.inplace import CopySlices
from torchlike._core.dispatch.layers import TRANSFORMS
from torchlike._core.tensor.mutation import extras_of, grad_of, set_grad, set_history, store
from torchlike._core.tensor.storage import UNTRACKED
from torchlike._core.tensor.tensor import Tensor, dtype_of
from torchlike._core.tensor.views import followed_by_jax
from torchlike._executor.level import LevelValue
from torchlike._ops.constant import still

if TYPE_CHECKING:
    from torchlike._base.dtypes import dtype
    from torchlike._core.autograd.node import Node


def _fresh(t: Tensor) -> Tensor:
    if t._diff is not None:
        refresh(t)
    return t


def _set_requires_grad(t: Tensor, value: Any) -> None:
    if not isinstance(value, bool):
        raise RuntimeError(f"requires_grad must be a bool, not {type(value).__name__}")
    if not nodes.is_leaf(_fresh(t)):
        hint = "" if value else (
            " If you want to use a computed variable in a subgraph that doesn't require differentiation use "
            "var_no_grad = var.detach()."
        )  # fmt: skip
        raise RuntimeError(f"you can only change requires_grad flags of leaf variables.{hint}")
    if value and nodes.requires_grad(t):
        return
    if value and t._vc is UNTRACKED and not state.inference:
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
    if value and not differentiable(t):
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    set_history(t, None, value)


def _requires_grad(t: Tensor) -> bool:
    return nodes.requires_grad(t) and not (state.levels and TRANSFORMS.veils(t))


def _grad_fn(t: Tensor) -> Node | None:
    edge = _fresh(t)._edge
    return None if edge is None or (state.levels and TRANSFORMS.veils(t)) else edge[0]


def _get_grad(t: Tensor) -> Tensor | None:
    grad = grad_of(t)
    if grad is None and t._edge is not None and t._edge[0] is not None and not nodes.retained(t):
        warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
            "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
            "Tensor, use .retain_grad() on the non-leaf Tensor.",
            UserWarning,
        )
    return grad


def _set_grad(t: Tensor, value: Any) -> None:
    if value is not None:
        _check_grad(t, value)
    set_grad(t, value)


def _check_grad(t: Tensor, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
    if value is t:
        raise RuntimeError("can't assign Variable as its own grad")
    expected = grad_dtype_of(t)
    if expected is not None and value.dtype is not expected:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{_element_name(value.dtype)}' to a tensor with grad_dtype "
            f"'{expected.scalar_name}'. The gradient must match the tensor's grad_dtype (by default its dtype): "
            "convert it with .to(dtype), or set grad_dtype to another dtype, or to None for any."
        )
    if value.device.type != t.device.type:
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{value.device.type}' to a tensor with device type "
            f"'{t.device.type}'. Please ensure that the gradient and the tensor are on the same device"
        )
    if value.device != t.device:
        raise RuntimeError(
            f"attempting to assign a gradient located on device '{value.device}' to a tensor located on device "
            f"'{t.device}'. Please ensure that the gradient and the tensor are on the same device"
        )
    if value.shape != t.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size '{list(t.shape)}'. "
            "Please ensure that the gradient and the tensor are the same size"
        )


_ELEMENTS = {
    "float32": "float", "float64": "double", "int64": "long int", "int32": "int", "int16": "short int",
    "int8": "signed char", "uint8": "unsigned char", "bool": "bool", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>", "uint16": "short unsigned int", "uint32": "unsigned int",
    "uint64": "long unsigned int",
}  # fmt: skip


def _element_name(dtype: dtype) -> str:
    """The C++ name of an element type, which PyTorch's messages about gradients show."""
    return _ELEMENTS.get(dtype.name, f"c10::{dtype.scalar_name}")


def grad_dtype_of(t: Tensor) -> dtypes.dtype | None:
    """The dtype that gradients of ``t`` have, None for any."""
    ex = t._ex
    return t.dtype if ex is None else ex.get("grad_dtype", t.dtype)


def _get_grad_dtype(t: Tensor) -> dtypes.dtype | None:
    """The dtype of ``.grad``, to which arriving gradients are cast: by default the tensor's; None allows any."""
    if not nodes.is_leaf(_fresh(t)):
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors.")
    return grad_dtype_of(t)


def _set_grad_dtype(t: Tensor, value: Any) -> None:
    if value is not None and not isinstance(value, dtypes.dtype):
        raise RuntimeError(f"grad_dtype must be a torch.dtype or None, but got {type(value).__name__}")
    if not nodes.is_leaf(_fresh(t)):
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if value is not None and (grad := grad_of(t)) is not None and grad.dtype is not value:
        raise RuntimeError(
            f"Cannot set grad_dtype to '{value.scalar_name}' because there is already a gradient with dtype "
            f"'{_element_name(grad.dtype)}'. Please clear the gradient (.grad = None) first, or give its dtype."
        )
    if value is t.dtype and t._ex is None:
        return
    extras_of(t)["grad_dtype"] = value


def requires_grad_(t: Tensor, requires_grad: bool = True) -> Tensor:
    """Set whether the tensor requires grad, and return it."""
    if not isinstance(requires_grad, bool):
        raise TypeError(
            f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {type(requires_grad).__name__}"
        )
    if any(level.functional for level in state.levels):
        raise RuntimeError(_IN_TRANSFORM)
    return mark(t, requires_grad)


def mark(t: Tensor, requires_grad: bool) -> Tensor:
    """As :func:`requires_grad_`, also for what is made inside of a transform."""
    if requires_grad and not differentiable(t):
        dtype = dtype_of(t)
        raise RuntimeError(f"only Tensors of floating point dtype can require gradients (or complex), not {dtype}")
    if not (requires_grad and nodes.requires_grad(t)):
        _set_requires_grad(t, requires_grad)
    return t


def differentiable(t: Tensor) -> bool:
    """Whether the dtype of ``t`` has gradients."""
    dtype = dtype_of(t)
    return dtype.is_floating_point or dtype.is_complex


_IN_TRANSFORM = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside of "
    "a function being transformed by a functorch transform. This is unsupported, please attempt to use the functorch "
    "transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being "
    "transformed instead."
)


def detach_(t: Tensor) -> Tensor:
    """Cut the tensor from its history, in place; in inference mode, which keeps histories, nothing."""
    if state.inference:
        return t
    if t._diff is not None or isinstance(t._storage.form, LevelValue):
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) "
            "for training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
            "detach_() cannot be called on these gradients. To fix this error, please refer to the "
            "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
        )
    if not nodes.is_leaf(t):
        extras_of(t)["detached"] = nodes.next_sequence()
    if t._ex is not None and "tangents" in t._ex:
        del extras_of(t)["tangents"]
    if followed_by_jax(t._storage.form):
        store(t._storage, still(t._storage.value))
    set_history(t, None, False)
    return t


def retain_grad(t: Tensor) -> None:
    """Keep ``.grad`` of a tensor that is not a leaf."""
    if any(level.functional for level in state.levels):
        raise RuntimeError(
            "You are attempting to call Tensor.retain_grad() inside of a function being transformed by a functorch "
            "transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, "
            "jacfwd, hessian), which return the gradients."
        )
    if not t.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if not nodes.is_leaf(_fresh(t)):
        nodes.retain(t)
    elif state.capture is not None:
        state.capture.retained(t)


def _retains_grad(t: Tensor) -> bool:
    return not nodes.is_leaf(t) and nodes.retained(t)


def register_hook(t: Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(grad)`` when the tensor's gradient is computed; what it returns replaces it.

    Returns a handle with ``remove()``.
    """
    if not t.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    warn_where_unseen("register_hook")
    if nodes.is_leaf(_fresh(t)):
        hooks = extras_of(t).setdefault("tensor_hooks", {}).setdefault(0, OrderedDict())
        nodes.accumulator(t)._extra("tensor_hooks", lambda: t._ex["tensor_hooks"])
    else:
        node, nr = t._edge
        hooks = node._extra("tensor_hooks", dict).setdefault(nr, OrderedDict())
    return RemovableHandle.add(hooks, hook)


def register_post_accumulate_grad_hook(t: Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(tensor)`` after the leaf's ``.grad`` has been updated."""
    if not t.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not nodes.is_leaf(_fresh(t)):
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    warn_where_unseen("register_post_accumulate_grad_hook")
    return RemovableHandle.add(extras_of(t).setdefault("post_accumulate", {}), hook)


def _undeletable(message: str) -> Callable[[Tensor], NoReturn]:
    def refuse(t: Tensor) -> NoReturn:
        raise RuntimeError(message)

    return refuse


def _backward_hooks(t: Tensor) -> dict[int, Any] | None:
    """The dict of the tensor's hooks, or None if it never had one."""
    if nodes.is_leaf(t):
        return (t._ex or {}).get("tensor_hooks", {}).get(0)
    node, nr = _fresh(t)._edge
    return (node._ex or {}).get("tensor_hooks", {}).get(nr)


def _set_backward_hooks(t: Tensor, hooks: Any) -> None:
    """Replace the dict of a leaf's hooks; None or an empty one removes them."""
    if not nodes.is_leaf(_fresh(t)):
        raise NotImplementedError("_backward_hooks of a tensor that is no leaf cannot be set: use register_hook()")
    every = extras_of(t).setdefault("tensor_hooks", {})
    if hooks is None:
        every.pop(0, None)
    else:
        every[0] = hooks
    if t.requires_grad:
        nodes.accumulator(t)._extra("tensor_hooks", lambda: every)


def _post_accumulate_grad_hooks(t: Tensor) -> dict[int, Any] | None:
    """The dict of the leaf's hooks after accumulation, or None if it never had one."""
    return (t._ex or {}).get("post_accumulate")


def _set_sequence_nr(node: Node, number: int) -> None:
    """Change the node's creation number: of nodes that are ready, backward runs the one with the highest first."""
    if number < 0:
        raise OverflowError("can't convert negative int to unsigned")
    node._seq = number
    node._extra("numbered", bool)  # no backward takes a short way that knows in which order nodes run


def install() -> None:
    """Give Tensor its autograd surface."""
    nodes.Node.requires_grad = True
    nodes.Node._set_sequence_nr = _set_sequence_nr
    for kind in (nodes.AccumulateGrad, OpNode, CopySlices, Error, ToCopyBackward0):  # those of a Function are not
        kind.__call__ = call_node
    Tensor.requires_grad = property(
        _requires_grad, _set_requires_grad, _undeletable("requires_grad must be a bool; it cannot be deleted")
    )
    Tensor.grad_fn = property(_grad_fn)
    Tensor._grad_fn = property(_grad_fn, None, _undeletable("Deletion of _grad_fn not allowed. Detach tensor instead!"))
    Tensor._backward_hooks = property(
        _backward_hooks, _set_backward_hooks, _undeletable("Deletion of _backwards_hooks not allowed!")
    )
    Tensor.grad_dtype = property(_get_grad_dtype, _set_grad_dtype)
    Tensor.grad = property(_get_grad, _set_grad, lambda t: _set_grad(t, None))
    Tensor._post_accumulate_grad_hooks = property(_post_accumulate_grad_hooks)
    Tensor.retains_grad = property(_retains_grad)
    Tensor.requires_grad_, Tensor.detach_, Tensor.retain_grad = requires_grad_, detach_, retain_grad
    Tensor.register_hook, Tensor.backward = register_hook, method_backward
    Tensor.register_post_accumulate_grad_hook = register_post_accumulate_grad_hook
