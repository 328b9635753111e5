"""Stochastic gradient descent."""

from torchlike._base.state import state
from torchlike._core.dispatch.observers import subclassed
from torchlike._core.tensor.tensor import Tensor, value_of, wrap
from torchlike._ops import optim as rules
from torchlike._ops import optim_sparse as sparse_rules
from torchlike.optim._as_function import updates
from torchlike.optim._group import GroupOptimizer, as_kind, demand, demand_flags, demand_rate, scalar_count, zeros_like
from torchlike.optim._sparse import advance

__all__ = ["SGD", "sgd"]


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
    _unstarted: dict = {}  # {parameter: a tensor that is 1 until its momentum has taken a step that was not skipped}

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
        demand_rate(lr, allow_nan=True)
        demand(not momentum < 0.0, "momentum value", momentum)
        demand(not weight_decay < 0.0, "weight_decay value", weight_decay)
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
            ("momentum", bool(group["momentum"] != 0)),
            ("nesterov", bool(group["nesterov"])),
            ("decay", bool(group["weight_decay"] != 0)),
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
        flags = [s.get("momentum_buffer") is None for s in states]
        skips = numbers.get("found_inf")
        if self._unstarted or (skips is not None and True in flags):
            flags = self._flags_of(params, states, flags, group, skips is not None)
        for flag in {id(flag): flag for flag in flags}.values():
            chosen = [i for i, other in enumerate(flags) if other is flag]
            if flag is True:  # any array of this shape will do: the rule ignores it
                for i in chosen:
                    states[i]["momentum_buffer"] = _buffer(params[i])
            now, held = ([params[i] for i in chosen], [states[i] for i in chosen]), isinstance(flag, Tensor)
            self._advance(group, *now, numbers | {"first": flag if held else _first(flag)})
            if held:
                flag.zero_() if skips is None else flag.mul_(skips != 0)

    def _step_sparse(self, group, params):
        if group["weight_decay"] != 0:
            raise RuntimeError("add(sparse, dense) is not supported: SGD takes no weight_decay with sparse gradients")
        if group["momentum"] == 0:
            advance(sparse_rules.sgd, params, [()] * len(params), {"lr": group["lr"]}, maximize=group["maximize"])
            return
        for p in params:
            grad, state = -p.grad if group["maximize"] else p.grad, self.state[p]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.detach().clone()
            else:
                buffer.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])
            p.add_(grad.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer, alpha=-group["lr"])

    def _flags_of(self, params, states, flags, group, skips):
        """Whether this is the first step of each buffer; a tensor where that depends on steps that were skipped.

        Buffers whose first step may be skipped begin as zeros, which are as good as none, unless gradients are damped.
        """
        if skips and True in flags:
            cell = scalar_count(1.0) if group["dampening"] != 0 else False
            self._unstarted = dict(self._unstarted)
            for i, (p, flag) in enumerate(zip(params, flags, strict=True)):
                if flag:
                    states[i]["momentum_buffer"], self._unstarted[p] = zeros_like(p), cell
        kept = self._unstarted
        return [flag if s.get("momentum_buffer") is None else kept.get(p, False)
                for p, s, flag in zip(params, states, flags, strict=True)]  # fmt: skip

    def __setstate__(self, state):
        super().__setstate__(state)
        for cell in self._unstarted.values():
            if isinstance(cell, Tensor):
                cell.zero_()
        self._unstarted = {}


def _buffer(p):
    """A momentum buffer whose values do not matter yet."""
    grad = p.grad
    plain = grad is not None and state.capture is None and not subclassed(grad)
    return as_kind(wrap(value_of(grad)), p) if plain else zeros_like(p)


def _first(first):
    """1 in the first step of a buffer; in a traced step an input, which is 0 from the second call on."""
    return float(first) if state.capture is None else state.capture.input(float(first), float)


@updates(SGD, momentum_buffer_list="momentum_buffer")
def sgd(
    params, d_p_list, momentum_buffer_list, has_sparse_grad=False, foreach=None, fused=None, grad_scale=None,
    found_inf=None, *, weight_decay, momentum, lr, dampening, nesterov, maximize,
):  # fmt: skip
    """The step of :class:`SGD` on lists of tensors, in place."""
