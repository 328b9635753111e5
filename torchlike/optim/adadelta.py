"""Adadelta."""

from torchlike._ops import optim as rules
from torchlike.optim._as_function import updates
from torchlike.optim._group import GroupOptimizer, demand, demand_flags, demand_rate, step_count, zeros_like

__all__ = ["Adadelta", "adadelta"]


class Adadelta(GroupOptimizer):
    """Steps in units of the parameter: the gradient times the ratio of the running sizes of steps and
    gradients (Zeiler 2012).

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options.
        lr: times each step. rho: decay of the running means. eps: added below the roots.
        weight_decay: times the parameter, added to its gradient. maximize: climb instead.
        foreach: accepted; every step is one program. capturable: as it is, but for accelerators only.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a number out of range.
    """

    _rule = staticmethod(rules.adadelta)
    _flags = {}

    def __init__(
        self,
        params,
        lr=1.0,
        rho=0.9,
        eps=1e-6,
        weight_decay=0,
        foreach=None,
        *,
        capturable=False,
        maximize=False,
        differentiable=False,
    ) -> None:
        demand_rate(lr)
        demand(0.0 <= rho <= 1.0, "rho value", rho)
        demand(eps >= 0.0, "epsilon value", eps)
        demand(weight_decay >= 0.0, "weight_decay value", weight_decay)
        demand_flags(foreach, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _numbers(self, group):
        return {k: group[k] for k in ("lr", "rho", "eps", "weight_decay")}

    def _options(self, group):
        return (("decay", bool(group["weight_decay"] != 0)),)

    def _kept(self, group):
        return ("square_avg", "acc_delta")

    def _start(self, p, group):
        return {"step": step_count(), "square_avg": zeros_like(p), "acc_delta": zeros_like(p)}


@updates(Adadelta, square_avgs="square_avg", acc_deltas="acc_delta", state_steps="step")
def adadelta(
    params, grads, square_avgs, acc_deltas, state_steps, capturable=False, foreach=None, differentiable=False,
    has_complex=False, *, lr, rho, eps, weight_decay, maximize,
):  # fmt: skip
    """The step of :class:`Adadelta` on lists of tensors, in place."""
