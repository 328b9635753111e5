"""Averaged stochastic gradient descent."""

from torchlike._ops import optim as rules
from torchlike.optim._as_function import updates
from torchlike.optim._group import (
    GroupOptimizer,
    demand,
    demand_flags,
    demand_rate,
    scalar_count,
    step_count,
    zeros_like,
)

__all__ = ["ASGD", "asgd"]


class ASGD(GroupOptimizer):
    """Stochastic gradient descent that also keeps the average of its iterates, as state ``ax`` (Polyak &
    Juditsky 1992).

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options.
        lr: learning rate at the start. lambd: decay of the parameters. alpha: power of the decay of the rate.
        t0: the step at which averaging starts. weight_decay: times the parameter, added to its gradient.
        maximize: climb instead. foreach: accepted; every step is one program.
        capturable: as it is, but for accelerators only.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a negative number.
    """

    _rule = staticmethod(rules.asgd)
    _scalars = ("step", "eta", "mu")
    _flags = {}

    def __init__(
        self,
        params,
        lr=1e-2,
        lambd=1e-4,
        alpha=0.75,
        t0=1e6,
        weight_decay=0,
        foreach=None,
        maximize=False,
        differentiable=False,
        capturable=False,
    ) -> None:
        demand_rate(lr)
        demand(weight_decay >= 0.0, "weight_decay value", weight_decay)
        demand_flags(foreach, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _numbers(self, group):
        return {k: group[k] for k in ("lr", "lambd", "alpha", "t0", "weight_decay")}

    def _options(self, group):
        return (("decay", bool(group["weight_decay"] != 0)),)

    def _kept(self, group):
        return ("eta", "mu", "ax")

    def _start(self, p, group):
        return {
            "step": step_count(),
            "eta": scalar_count(group["lr"]),
            "mu": scalar_count(1.0),
            "ax": zeros_like(p),
        }


@updates(ASGD, axs="ax", mus="mu", etas="eta", state_steps="step")
def asgd(
    params, grads, axs, mus, etas, state_steps, foreach=None, maximize=False, differentiable=False,
    capturable=False, has_complex=False, *, lambd, lr, t0, alpha, weight_decay,
):  # fmt: skip
    """The step of :class:`ASGD` on lists of tensors, in place."""
