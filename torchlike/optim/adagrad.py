"""Adagrad."""

from torchlike._ops import optim as rules
from torchlike._ops import optim_sparse as sparse_rules
from torchlike.nn.parameter import is_lazy
from torchlike.optim._as_function import updates
from torchlike.optim._group import GroupOptimizer, demand, demand_flags, demand_rate, filled_like, step_count
from torchlike.optim._sparse import advance

__all__ = ["Adagrad", "adagrad"]


class Adagrad(GroupOptimizer):
    """Steps by the gradient over the root of the sum of its squares so far (Duchi et al. 2011).

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options.
        lr: learning rate, divided by ``1 + steps * lr_decay``. weight_decay: times the parameter, added to
            its gradient. initial_accumulator_value: the sum at the start. eps: added to the denominator.
        maximize: climb instead. foreach, fused: accepted; every step is one program.
        differentiable: record the step, so that gradients flow through it.

    Raises:
        ValueError: a negative number.

    >>> import torchlike as torch
    >>> p = torch.nn.Parameter(torch.zeros(1))
    >>> p.grad = torch.ones(1)
    >>> torch.optim.Adagrad([p], lr=0.5).step()
    >>> p
    Parameter containing:
    tensor([-0.5000], requires_grad=True)
    """

    _rule = staticmethod(rules.adagrad)
    _flags = {}

    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        fused=None,
    ) -> None:
        demand_rate(lr)
        demand(lr_decay >= 0.0, "lr_decay value", lr_decay)
        demand(weight_decay >= 0.0, "weight_decay value", weight_decay)
        demand(initial_accumulator_value >= 0.0, "initial_accumulator_value value", initial_accumulator_value)
        demand(eps >= 0.0, "epsilon value", eps)
        demand_flags(foreach, fused, differentiable)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                self._state_of(p, group)

    def _step_sparse(self, group, params):
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        states = [self._state_of(p, group) for p in params]
        numbers, sums = {k: group[k] for k in ("lr", "lr_decay", "eps")}, [(s["sum"],) for s in states]
        steps, flip = [s["step"] for s in states], group["maximize"]
        advance(sparse_rules.adagrad, params, sums, numbers, steps, flip)

    def share_memory(self) -> None:
        """Nothing: jax arrays are not shared between processes."""

    def _numbers(self, group):
        return {k: group[k] for k in ("lr", "lr_decay", "eps", "weight_decay")}

    def _options(self, group):
        return (("decay", bool(group["weight_decay"] != 0)),)

    def _kept(self, group):
        return ("sum",)

    def _start(self, p, group):
        if is_lazy(p):
            raise ValueError(
                "Adagrad: attempted to use an uninitialized parameter; call the module's forward with a dummy batch "
                "before its parameters are given to this optimizer, which makes their state at once"
            )
        first = group["initial_accumulator_value"]
        return {
            "step": step_count(group["fused"]),
            "sum": filled_like(p, complex(first, first) if p.is_complex() else first),
        }


@updates(Adagrad, state_sums="sum", state_steps="step")
def adagrad(
    params, grads, state_sums, state_steps, fused=None, grad_scale=None, found_inf=None, has_sparse_grad=False,
    foreach=None, differentiable=False, has_complex=False, *, lr, weight_decay, lr_decay, eps, maximize,
):  # fmt: skip
    """The step of :class:`Adagrad` on lists of tensors, in place."""
