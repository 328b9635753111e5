"""Gradients of each example of a batch, in ``.grad_sample`` of the parameters."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.functional_call import functional_call
from torchlike.nn.modules.module import Module
from torchlike.utils import _pytree as pytree


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:
    """The module's call, after whose backward each parameter has the gradient of each example in ``.grad_sample``.

    Args:
        batch_size: how many examples there are; that of the tensors among the arguments by default.
        loss_reduction: how the loss joins the examples, ``sum`` or ``mean``.
        batch_first: True; the examples are along dimension 0 of tensors.

    ``.grad`` of the parameters stays as it is. Examples do not see each other: modules that join them, as batch
    normalization does, are refused by ``vmap``.

    Raises:
        NotImplementedError: ``batch_first=False``.
        RuntimeError: an argument of another kind, no tensor or batches of different sizes in the call, or a
            ``.grad_sample`` of an earlier call.

    >>> import torchlike as torch
    >>> from torchlike.nn.utils._per_sample_grad import call_for_per_sample_grads
    >>> m = torch.nn.Linear(2, 1, bias=False)
    >>> call_for_per_sample_grads(m)(torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    >>> m.weight.grad_sample
    tensor([[[1., 2.]],
    <BLANKLINE>
            [[3., 4.]]])
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for name, p in module.named_parameters():
        if getattr(p, "grad_sample", None) is not None and p.requires_grad:
            raise RuntimeError(
                "Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls "
                f"without clearing gradients: set the grad_sample of {name} to None before the next call"
            )
    if not batch_first:
        raise NotImplementedError("call_for_per_sample_grads(batch_first=False): transpose the batch to dimension 0")

    @functools.wraps(module.forward)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found = batch_size if batch_size is not None else _batch_size(args, kwargs)
        scale = found if loss_reduction == "mean" else 1
        copies = {name: _copies(p, found, scale) for name, p in module.named_parameters() if p.requires_grad}
        return _each(module, copies, args, kwargs)

    return wrapper


def _batch_size(args: Any, kwargs: Any) -> int:
    sizes = {x.shape[0] for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
    if not sizes:
        raise RuntimeError("Unable to find a tensor in the passed args and kwargs: give batch_size")
    if len(sizes) > 1:
        raise RuntimeError(f"When computing batch size, found at least one input with batch sizes {sorted(sizes)}")
    return sizes.pop()


def _copies(p: Any, count: int, scale: int) -> Tensor:
    """The parameter once for each example, whose gradients go to ``p.grad_sample``."""
    copies = p.detach().expand(count, *p.shape).requires_grad_()

    def keep(grad: Tensor) -> None:
        p.grad_sample = grad.detach() * scale if scale != 1 else grad.detach()

    copies.register_hook(keep)
    return copies


def _each(module: Module, copies: dict[str, Tensor], args: Any, kwargs: Any) -> Any:
    """The module's results, of each example with parameters of its own."""
    vmap = importlib.import_module("torchlike.func").vmap  # which is beside this package

    def one(copies: dict[str, Tensor], *leaves: Any) -> Any:
        leaves = tuple([x.unsqueeze(0) if isinstance(x, Tensor) else x for x in leaves])
        args, kwargs = pytree.tree_unflatten(leaves, tree)
        out = functional_call(module, copies, args, kwargs)
        return pytree.tree_map(lambda x: x.squeeze(0) if isinstance(x, Tensor) else x, out)

    leaves, tree = pytree.tree_flatten((args, kwargs))
    dims = tuple([0 if isinstance(x, Tensor) else None for x in leaves])
    return vmap(one, in_dims=(0, *dims), randomness="different")(copies, *leaves)
