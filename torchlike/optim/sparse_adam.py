"""Adam for sparse gradients."""

import math
from collections.abc import Callable
from typing import Any

from torchlike._base.state import enable_grad, no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike._ops import optim_sparse as rules
from torchlike.optim._group import demand, demand_betas, number, zeros_like
from torchlike.optim._sparse import advance, has_sparse_grad
from torchlike.optim.optimizer import Optimizer, ParamsT

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that moves only the rows that a sparse gradient names, and updates only their moments.

    Gradients must be of layout ``torch.sparse_coo``, as those of ``Embedding(sparse=True)`` are; :class:`Adam` takes
    dense ones.

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options.
        lr: learning rate. betas: decay of the two running means. eps: added to the denominator.
        maximize: climb instead of descending.

    Raises:
        ValueError: a number out of range, or complex parameters.
        RuntimeError: by ``step``, where a gradient is dense.

    >>> import torchlike as torch
    >>> torch.optim.SparseAdam([torch.nn.Parameter(torch.ones(2))]).defaults["lr"]
    0.001
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError(f"Tensor lr must be 1-element, got shape {list(lr.shape)}")
        rate = number(lr)
        demand(rate > 0.0, "learning rate", rate)
        demand(eps > 0.0, "epsilon value", eps)
        demand_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        sparse = [
            [i, j] for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"]) if p.is_sparse
        ]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        if any(p.is_complex() for group in self.param_groups for p in group["params"]):
            raise ValueError("SparseAdam does not support complex parameters")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; returns what ``closure`` returns, if it is given. RuntimeError for dense gradients."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not all(map(has_sparse_grad, params)):
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
            with no_grad():
                for p in params:
                    self._start(p)
                _advance(params, [self.state[p] for p in params], group)
        return loss

    def _start(self, p: Tensor) -> None:
        state = self.state[p]
        if not state:
            state.update(step=0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))


def _advance(params: list[Tensor], states: list[dict[str, Any]], group: dict[str, Any]) -> None:
    """A step of one program for the parameters that have taken as many steps."""
    beta1, beta2 = map(number, group["betas"])
    for s in states:
        s["step"] += 1
    for step in dict.fromkeys([s["step"] for s in states]):
        chosen = [i for i, s in enumerate(states) if s["step"] == step]
        rate = number(group["lr"]) * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        numbers = {"beta1": beta1, "beta2": beta2, "eps": group["eps"], "rate": rate}
        moments = [(states[i]["exp_avg"], states[i]["exp_avg_sq"]) for i in chosen]
        advance(rules.sparse_adam, [params[i] for i in chosen], moments, numbers, maximize=group["maximize"])
