"""Stochastic gradient descent."""

from torchlike._base.state import state
from torchlike._core.dispatch.observers import subclassed
from torchlike._core.tensor.tensor import value_of, wrap
from torchlike._ops import optim as rules
from torchlike.optim._group import GroupOptimizer, demand, demand_flags, demand_rate, zeros_like

__all__ = ["SGD"]


class SGD(GroupOptimizer):
    """Stochastic gradient descent, with momentum if asked.

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options.
        lr: learning rate. momentum, dampening: ``buffer = momentum * buffer + (1 - dampening) * grad``.
        weight_decay: times the parameter, added to its gradient. nesterov: Nesterov momentum.
        maximize: climb instead of descending. foreach, fused: accepted; every step is one program.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a negative number, or Nesterov momentum without momentum or with dampening.


    >>> import torchlike as torch
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> p.grad = torch.ones(2)
    >>> torch.optim.SGD([p], lr=0.5).step()
    >>> p
    Parameter containing:
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    _flags = {"nesterov": False}
    _rule = staticmethod(rules.sgd)
    _counts = False

    def __init__(
        self,
        params,
        lr=1e-3,
        momentum=0,
        dampening=0,
        weight_decay=0,
        nesterov=False,
        *,
        maximize=False,
        foreach=None,
        differentiable=False,
        fused=None,
    ) -> None:
        demand_rate(lr)
        demand(momentum >= 0.0, "momentum value", momentum)
        demand(weight_decay >= 0.0, "weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        demand_flags(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _numbers(self, group):
        return {k: group[k] for k in ("lr", "momentum", "dampening", "weight_decay")}

    def _options(self, group):
        return (
            ("momentum", group["momentum"] != 0),
            ("nesterov", group["nesterov"]),
            ("decay", group["weight_decay"] != 0),
            ("whole", True),
        )

    def _kept(self, group):
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _step_group(self, group, params):
        numbers = self._numbers_now(group)
        if group["momentum"] == 0:
            self._advance(group, params, [{}] * len(params), numbers)
            return
        states = [self.state[p] for p in params]
        fresh = [s.get("momentum_buffer") is None for s in states]
        for first in (True, False):
            chosen = [i for i, f in enumerate(fresh) if f == first]
            for i in chosen:
                if first:  # any array of this shape will do: the rule ignores it
                    states[i]["momentum_buffer"] = _buffer(params[i])
            if chosen:
                now = [params[i] for i in chosen], [states[i] for i in chosen]
                self._advance(group, *now, numbers | {"first": _first(first)})


def _buffer(p):
    """A momentum buffer whose values do not matter yet."""
    return wrap(value_of(p.grad)) if state.capture is None and not subclassed(p.grad) else zeros_like(p)


def _first(first):
    """1 in the first step of a buffer; in a traced step an input, which is 0 from the second call on."""
    return float(first) if state.capture is None else state.capture.input(float(first), float)
