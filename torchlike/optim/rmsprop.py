"""RMSprop."""

from torchlike._ops import optim as rules
from torchlike.optim._as_function import updates
from torchlike.optim._group import GroupOptimizer, demand, demand_flags, demand_rate, step_count, zeros_like

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(GroupOptimizer):
    """Steps by the gradient over the root of the running mean of its squares (Hinton's lecture 6e).

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options.
        lr: learning rate. alpha: decay of the running means. eps: added to the denominator.
        weight_decay: times the parameter, added to its gradient. momentum: of the steps.
        centered: subtract the squared mean of the gradients (Graves 2013). maximize: climb instead.
        foreach: accepted; every step is one program. capturable: as it is, but for accelerators only.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a negative number.

    >>> import torchlike as torch
    >>> p = torch.nn.Parameter(torch.zeros(1))
    >>> p.grad = torch.ones(1)
    >>> torch.optim.RMSprop([p], lr=0.5).step()
    >>> p
    Parameter containing:
    tensor([-5.0000], requires_grad=True)
    """

    _rule = staticmethod(rules.rmsprop)
    _flags = {"momentum": 0, "centered": False}

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ) -> None:
        demand_rate(lr)
        demand(eps >= 0.0, "epsilon value", eps)
        demand(momentum >= 0.0, "momentum value", momentum)
        demand(weight_decay >= 0.0, "weight_decay value", weight_decay)
        demand(alpha >= 0.0, "alpha value", alpha)
        demand_flags(foreach, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _numbers(self, group):
        return {k: group[k] for k in ("lr", "alpha", "eps", "weight_decay", "momentum")}

    def _options(self, group):
        return (
            ("centered", bool(group["centered"])),
            ("momentum", bool(group["momentum"] > 0)),
            ("decay", bool(group["weight_decay"] != 0)),
        )

    def _kept(self, group):
        kept = ["square_avg"]
        if group["momentum"] > 0:
            kept.append("momentum_buffer")
        if group["centered"]:
            kept.append("grad_avg")
        return tuple(kept)

    def _start(self, p, group):
        return {"step": step_count()} | {k: zeros_like(p) for k in self._kept(group)}


@updates(
    RMSprop, square_avgs="square_avg", grad_avgs="grad_avg", momentum_buffer_list="momentum_buffer", state_steps="step"
)
def rmsprop(
    params, grads, square_avgs, grad_avgs, momentum_buffer_list, state_steps, foreach=None, maximize=False,
    differentiable=False, capturable=False, has_complex=False, *, lr, alpha, eps, weight_decay, momentum,
    centered,
):  # fmt: skip
    """The step of :class:`RMSprop` on lists of tensors, in place."""
