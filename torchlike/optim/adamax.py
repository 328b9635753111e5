"""Adamax."""

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

__all__ = ["Adamax", "adamax"]


class Adamax(GroupOptimizer):
    """Adam with the largest gradient (decayed) in place of the root of the mean of squares (Kingma & Ba
    2015).

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options.
        lr: learning rate. betas: decay of mean and maximum. eps: added to each size.
        weight_decay: times the parameter, added to its gradient. maximize: climb instead.
        foreach: accepted; every step is one program. capturable: as it is, but for accelerators only.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a number out of range.
    """

    _rule = staticmethod(rules.adamax)
    _flags = {}

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        capturable=False,
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
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _numbers(self, group):
        beta1, beta2 = group["betas"]
        return {"beta1": beta1, "beta2": beta2} | {k: group[k] for k in ("lr", "eps", "weight_decay")}

    def _options(self, group):
        return (("decay", bool(group["weight_decay"] != 0)),)

    def _kept(self, group):
        return ("exp_avg", "exp_inf")

    def _start(self, p, group):
        return {"step": step_count(), "exp_avg": zeros_like(p), "exp_inf": zeros_like(p)}


@updates(Adamax, exp_avgs="exp_avg", exp_infs="exp_inf", state_steps="step")
def adamax(
    params, grads, exp_avgs, exp_infs, state_steps, foreach=None, maximize=False, differentiable=False,
    capturable=False, has_complex=False, *, eps, beta1, beta2, lr, weight_decay,
):  # fmt: skip
    """The step of :class:`Adamax` on lists of tensors, in place."""
    return {"betas": (beta1, beta2)}
