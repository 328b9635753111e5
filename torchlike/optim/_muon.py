"""Muon."""

import operator

from torchlike._core.tensor.tensor import Tensor
from torchlike._ops import optim as rules
from torchlike.optim._as_function import updates
from torchlike.optim._group import GroupOptimizer, number, zeros_like

__all__ = ["Muon"]


class Muon(GroupOptimizer):
    """Momentum whose matrices are made orthogonal by Newton-Schulz iterations (Jordan 2024); for
    2-dimensional parameters.

    Args:
        params: matrices, (name, matrix) pairs, or dicts of them with options.
        lr: learning rate. weight_decay: decoupled. momentum: decay of the running mean. nesterov: Nesterov
            momentum.
        ns_coefficients, ns_steps: of the iterations, in bfloat16. eps: least norm to divide by.
        adjust_lr_fn: how the rate depends on the shape [m, n]: ``"original"`` (or None), times
            ``sqrt(max(1, m / n))``; ``"match_rms_adamw"``, times ``0.2 * sqrt(max(m, n))``.

    ValueError for parameters that are not matrices, or numbers out of range.
    """

    _rule = staticmethod(rules.muon)
    _counts = False

    def __init__(
        self,
        params,
        lr=1e-3,
        weight_decay=0.1,
        momentum=0.95,
        nesterov=True,
        ns_coefficients=(3.4445, -4.775, 2.0315),
        eps=1e-7,
        ns_steps=5,
        adjust_lr_fn=None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError(f"Tensor lr must be 1-element, got shape {list(lr.shape)}")
        if not number(lr) >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    def _step_group(self, group, params):
        if any(p.is_complex() for p in params):
            raise RuntimeError("Muon does not support complex parameters")
        if len(group["ns_coefficients"]) != 3:
            raise ValueError(f"Coefficients must be a tuple of exactly 3 values, got {group['ns_coefficients']}")
        if group["ns_steps"] >= 100:
            raise ValueError(
                f"Number of steps must be less than 100 for computational efficiency, got {group['ns_steps']}"
            )
        super()._step_group(group, params)

    def _numbers(self, group):
        return {k: group[k] for k in ("lr", "momentum", "weight_decay")}

    def _options(self, group):
        return (
            ("nesterov", bool(group["nesterov"])), ("coefficients", tuple(group["ns_coefficients"])),
            ("iterations", operator.index(group["ns_steps"])), ("adjust", group["adjust_lr_fn"]),
            ("least", number(group["eps"])),
        )  # fmt: skip

    def _kept(self, group):
        return ("momentum_buffer",)

    def _start(self, p, group):
        return {"momentum_buffer": zeros_like(p)}


@updates(Muon, muon_momentum_bufs="momentum_buffer")
def muon(
    params, grads, muon_momentum_bufs, *, foreach=None, lr, weight_decay, momentum, nesterov, ns_coefficients,
    ns_steps, eps, adjust_lr_fn, has_complex,
):  # fmt: skip
    """The step of :class:`Muon` on lists of tensors, in place."""
