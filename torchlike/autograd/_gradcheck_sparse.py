"""Sparse inputs of gradcheck: what stands for them is dense, and the function gets sparse tensors made of it."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.sparse.construction import of_pattern
from torchlike._core.tensor.tensor import Tensor, sparse_bsc, sparse_bsr, sparse_coo, strided
from torchlike.autograd._gradcheck_checks import GradcheckError
from torchlike.autograd.function import Function


def is_sparse(x: Any) -> bool:
    """Whether ``x`` is a tensor of a sparse layout."""
    return isinstance(x, Tensor) and x.layout is not strided


def over_dense(
    func: Callable, inputs: tuple, masked: bool, within: bool = False, sparse: bool = False
) -> tuple[Callable, tuple]:
    """``func`` and its inputs, with dense tensors in the place of sparse ones.

    ``masked``: they are the values that the sparse ones have; else all their elements, of which those that are no
    longer 0 are added to the sparse ones. ``within``: a gradient that is not 0 beyond these values is a mismatch.
    ``sparse``: outputs may be.
    """
    if not any(map(is_sparse, inputs)):
        return func, inputs
    like = [x.detach() if is_sparse(x) else None for x in inputs]
    like = [x.coalesce() if x is not None and x.layout is sparse_coo else x for x in like]
    made = of_pattern if masked else _Elements.apply

    def of_dense(*given: Any) -> Any:
        taken = [x if t is None else made(t, x) for t, x in zip(like, given, strict=True)]
        for i, (t, x) in enumerate(zip(like, taken, strict=True)):
            if within and t is not None and x.requires_grad:
                x.register_hook(partial(_demand_within, t, i))
        out = func(*taken)
        for o in () if sparse else out if isinstance(out, list | tuple) else (out,):
            demand_dense(o)
        return out

    stands = [
        x if t is None else (t.values() if masked else t.to_dense()).detach().clone().requires_grad_(x.requires_grad)
        for t, x in zip(like, inputs, strict=True)
    ]
    return of_dense, tuple(stands)


def _demand_within(like: Tensor, position: int, gradient: Tensor | None) -> None:
    """Refuse a dense gradient of a sparse input that is not 0 where that has no element."""
    if gradient is None or is_sparse(gradient):
        return
    has = of_pattern(like, FUNCTIONS["ones_like"](like.values())).to_dense()
    if bool(((has == 0) & (gradient != 0)).any()):
        raise GradcheckError(
            f"Jacobian mismatch for output 0 with respect to input {position}, numerical: 0 where the sparse tensor "
            f"has no element (masked=True), analytical: a dense gradient,\n{gradient}\nCompute it by functions with "
            "masked gradients, such as torch.sparse.mm and to_dense(masked_grad=True), or pass masked=False"
        )


def demand_dense(out: Any) -> None:
    """Refuse a sparse output."""
    if is_sparse(out):
        raise ValueError(
            "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of "
            "fn for gradcheck."
        )


class _Elements(Function):
    """A sparse tensor of the elements of a dense one, those at the places of ``like`` and all others that are not 0.

    Its gradient is that of each element, also of those that it does not have.
    """

    @staticmethod
    def forward(ctx: Any, like: Tensor, dense: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        n = dense.numel()
        numbers = FUNCTIONS["arange"](1, n + 1, device=dense.device).reshape(dense.shape)
        wanted = of_pattern(like, FUNCTIONS["ones_like"](like.values())).to_dense().bool() | (dense != 0)
        blocks = {"blocksize": like.values().shape[1:3]} if like.layout in _BLOCKED else {}
        placed = (numbers * wanted).to_sparse(layout=like.layout, dense_dim=like.dense_dim(), **blocks)
        at = placed.values().long() - 1
        values = dense.reshape(-1)[at.clamp(min=0)]
        return of_pattern(placed, FUNCTIONS["where"](at < 0, 0, values)).detach()

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> tuple[None, Tensor | None]:
        return None, g.to_dense() if is_sparse(g) else g


_BLOCKED = (sparse_bsr, sparse_bsc)
