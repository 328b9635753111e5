"""Look-ups whose gradients are sparse: ``embedding(sparse=True)``, ``gather(sparse_grad=True)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlike._base.dims import wrap_dim
from torchlike._core.conversion.convert import host
from torchlike._core.dispatch.dispatch import call
from torchlike._core.sparse import kernels
from torchlike._core.sparse.construction import assembled
from torchlike._core.sparse.rules import rule
from torchlike._core.sparse.value import Coo, put_on, unsupported, value
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.op import REGISTRY


def _demand_dense(name: str, *tensors: Tensor) -> None:
    if any(value(t) is not None for t in tensors):
        raise unsupported(name, *tensors)


@rule("embedding")
def _embedding(
    ctx: Any, weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Tensor:
    shape = tuple(weight.shape)
    _demand_dense("embedding", weight, indices)

    def back(grad: Tensor, indices: Tensor) -> list[Any]:
        if scale_grad_by_freq:
            raise RuntimeError(
                "embedding_backward: scale_grad_by_freq not supported with sparse gradients; use sparse=False"
            )
        rows, values = indices.reshape(-1).long(), grad.reshape(indices.numel(), shape[1])
        if padding_idx >= 0:
            kept = put_on(np.flatnonzero(host(rows) != padding_idx), rows.device)
            rows, values = rows.index_select(0, kept), values.index_select(0, kept)
        return [assembled(Coo(rows.detach().unsqueeze(0), values, shape), values), None]

    ctx.saves(back, indices)
    return call(REGISTRY["embedding"], (weight.detach(), indices), (padding_idx, scale_grad_by_freq, False))


@rule("gather")
def _gather(ctx: Any, self: Tensor, index: Tensor, dim: int, sparse_grad: bool) -> Tensor:
    shape, axis = tuple(self.shape), wrap_dim(dim, self.ndim)
    _demand_dense("gather", self, index)

    def back(grad: Tensor, index: Tensor) -> list[Any]:
        values = grad.reshape(-1)
        index = index.detach().long()
        if shape:
            places = kernels.places(index if index.ndim else index.reshape(1), axis)
        else:
            places = index.new_empty((0, index.numel()))
        return [assembled(Coo(places, values, shape), values), None]

    ctx.saves(back, index)
    return call(REGISTRY["gather"], (self.detach(), index), (dim, False))
