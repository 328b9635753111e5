"""Rectified Adam."""

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

__all__ = ["RAdam", "radam"]


class RAdam(GroupOptimizer):
    """Adam whose adaptive steps start once their variance is known, and are rectified by it (Liu et al.
    2020).

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options.
        lr: learning rate. betas: decay of the two running means. eps: added to the denominator.
        weight_decay: times the parameter, added to its gradient, or with ``decoupled_weight_decay`` taken
            from the parameter itself. maximize: climb instead.
        foreach: accepted; every step is one program. capturable: as it is, but for accelerators only.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a number out of range.
    """

    _rule = staticmethod(rules.radam)
    _flags = {"decoupled_weight_decay": False}

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ) -> None:
        demand_rate(lr)
        demand(eps >= 0.0, "epsilon value", eps)
        demand_betas(betas)
        demand(weight_decay >= 0.0, "weight_decay value", weight_decay)
        demand_flags(foreach, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _numbers(self, group):
        beta1, beta2 = group["betas"]
        return {"beta1": beta1, "beta2": beta2} | {k: group[k] for k in ("lr", "eps", "weight_decay")}

    def _options(self, group):
        return (("decay", bool(group["weight_decay"] != 0)), ("decoupled", bool(group["decoupled_weight_decay"])))

    def _kept(self, group):
        return ("exp_avg", "exp_avg_sq")

    def _start(self, p, group):
        return {"step": step_count(), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}


@updates(RAdam, exp_avgs="exp_avg", exp_avg_sqs="exp_avg_sq", state_steps="step")
def radam(
    params, grads, exp_avgs, exp_avg_sqs, state_steps, decoupled_weight_decay=False, foreach=None,
    differentiable=False, capturable=False, has_complex=False, maximize=False, *, beta1, beta2, lr,
    weight_decay, eps,
):  # fmt: skip
    """The step of :class:`RAdam` on lists of tensors, in place."""
    return {"betas": (beta1, beta2)}
