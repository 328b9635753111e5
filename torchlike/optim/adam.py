"""Adam."""

from torchlike._core.tensor.tensor import Tensor
from torchlike._ops import optim as rules
from torchlike.optim._as_function import updates
from torchlike.optim._group import (
    GroupOptimizer,
    demand,
    demand_betas,
    demand_flags,
    demand_rate,
    step_count,
    zeros_like,
)

__all__ = ["Adam", "adam"]


def _check(lr, betas, eps, weight_decay, foreach, capturable, differentiable, fused):
    if isinstance(lr, Tensor) and foreach and not capturable:
        raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
    demand_rate(lr)
    demand(eps >= 0.0, "epsilon value", eps)
    for i in (0, 1):
        if isinstance(betas[i], Tensor) and foreach and not capturable:
            raise ValueError(f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
    if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
        raise ValueError("betas must be either both floats or both Tensors")
    demand_betas(betas)
    demand(weight_decay >= 0.0, "weight_decay value", weight_decay)
    demand_flags(foreach, fused, differentiable)


class Adam(GroupOptimizer):
    """Adam (Kingma & Ba 2015): steps by the mean of the gradients over the root of the mean of their squares.

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options.
        lr: learning rate, a number or a tensor of one element. betas: decay of the two running means.
        eps: added to the denominator. weight_decay: times the parameter, added to its gradient, or with
            ``decoupled_weight_decay`` taken from the parameter itself (AdamW).
        amsgrad: use the largest mean of squares so far. maximize: climb instead of descending.
        foreach, fused: accepted; every step is one program. capturable: the same, for accelerators only.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a number out of range.

    >>> import torchlike as torch
    >>> p = torch.nn.Parameter(torch.zeros(1))
    >>> p.grad = torch.ones(1)
    >>> torch.optim.Adam([p], lr=0.5).step()
    >>> p
    Parameter containing:
    tensor([-0.5000], requires_grad=True)
    """

    _flags = {"amsgrad": False, "decoupled_weight_decay": False}
    _rule = staticmethod(rules.adam)

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        amsgrad=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
        fused=None,
        decoupled_weight_decay=False,
    ) -> None:
        _check(lr, betas, eps, weight_decay, foreach, capturable, differentiable, fused)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _step_sparse(self, group, params):
        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")

    def _numbers(self, group):
        beta1, beta2 = group["betas"]
        return {
            "lr": group["lr"],
            "beta1": beta1,
            "beta2": beta2,
            "eps": group["eps"],
            "weight_decay": group["weight_decay"],
        }

    def _options(self, group):
        return (("amsgrad", bool(group["amsgrad"])), ("decay", bool(group["weight_decay"] != 0)),
                ("decoupled", bool(group["decoupled_weight_decay"])))  # fmt: skip

    def _kept(self, group):
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _start(self, p, group):
        state = {"step": step_count(group["fused"]), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(p)
        return state


@updates(Adam, exp_avgs="exp_avg", exp_avg_sqs="exp_avg_sq", max_exp_avg_sqs="max_exp_avg_sq", state_steps="step")
def adam(
    params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach=None, capturable=False,
    differentiable=False, fused=None, grad_scale=None, found_inf=None, has_complex=False,
    decoupled_weight_decay=False, *, amsgrad, beta1, beta2, lr, weight_decay, eps, maximize,
):  # fmt: skip
    """The step of :class:`Adam` on lists of tensors, in place."""
    return {"betas": (beta1, beta2)}
