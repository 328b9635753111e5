"""Resilient backpropagation."""

from torchlike._ops import optim as rules
from torchlike.optim._as_function import updates
from torchlike.optim._group import (
    GroupOptimizer,
    demand,
    demand_flags,
    demand_rate,
    filled_like,
    number,
    step_count,
    zeros_like,
)

__all__ = ["Rprop", "rprop"]


class Rprop(GroupOptimizer):
    """Steps by the sign of the gradient, of a size that grows while the sign stays (Riedmiller & Braun 1993).

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options.
        lr: size of the first step. etas: factors of a size that shrinks and that grows.
        step_sizes: smallest and largest size. maximize: climb instead.
        foreach: accepted; every step is one program. capturable: as it is, but for accelerators only.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a number out of range.
    """

    _rule = staticmethod(rules.rprop)
    _flags = {}

    def __init__(
        self,
        params,
        lr=1e-2,
        etas=(0.5, 1.2),
        step_sizes=(1e-6, 50),
        *,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ) -> None:
        demand_rate(lr)
        demand(0.0 < etas[0] < 1.0 < etas[1], "eta values", f"{etas[0]}, {etas[1]}")
        demand_flags(foreach, differentiable=differentiable)
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _numbers(self, group):
        (minus, plus), (smallest, largest) = group["etas"], group["step_sizes"]
        return {"eta_minus": minus, "eta_plus": plus, "smallest": smallest, "largest": largest}

    def _options(self, group):
        return ()

    def _kept(self, group):
        return ("prev", "step_size")

    def _start(self, p, group):
        size = number(group["lr"])
        return {
            "step": step_count(), "prev": zeros_like(p),
            "step_size": filled_like(p, complex(size, size) if p.is_complex() else size),
        }  # fmt: skip


@updates(Rprop, prevs="prev", step_sizes="step_size", state_steps="step")
def rprop(
    params, grads, prevs, step_sizes, state_steps, foreach=None, capturable=False, maximize=False,
    differentiable=False, has_complex=False, *, step_size_min, step_size_max, etaminus, etaplus,
):  # fmt: skip
    """The step of :class:`Rprop` on lists of tensors, in place."""
    return {"etas": (etaminus, etaplus), "step_sizes": (step_size_min, step_size_max)}
