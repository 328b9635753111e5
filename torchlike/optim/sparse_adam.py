"""Adam for sparse gradients."""

from collections.abc import Callable
from typing import Any

from torchlike._base.state import enable_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike.optim._group import demand, demand_betas, number
from torchlike.optim.optimizer import Optimizer, ParamsT

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that moves only the elements that a sparse gradient names; torchlike has no sparse gradients yet.

    It takes the arguments that PyTorch's takes, and refuses the gradients that PyTorch's refuses, dense ones;
    there are no others. :class:`Adam` takes them.

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options.
        lr: learning rate. betas: decay of the two running means. eps: added to the denominator.
        maximize: climb instead of descending.

    Raises:
        ValueError: a number out of range, or complex parameters.
        RuntimeError: by ``step``, where a parameter has a gradient.

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
        super().__init__(params, {"lr": rate, "betas": betas, "eps": eps, "maximize": maximize})
        if any(p.is_complex() for group in self.param_groups for p in group["params"]):
            raise ValueError("SparseAdam does not support complex parameters")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """What ``closure`` returns, if no parameter has a gradient; RuntimeError otherwise."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if any(p.grad is not None for group in self.param_groups for p in group["params"]):
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        return loss
