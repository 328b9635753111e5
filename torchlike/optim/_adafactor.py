"""Adafactor."""

from torchlike._core.tensor.tensor import Tensor
from torchlike._ops import optim as rules
from torchlike.optim._as_function import updates
from torchlike.optim._group import GroupOptimizer, demand_flags, number, step_count, zeros

__all__ = ["Adafactor", "adafactor"]


class Adafactor(GroupOptimizer):
    """Adaptive steps whose mean of squares is kept as a row and a column, so that it costs little memory
    (Shazeer & Stern 2018).

    Args:
        params: tensors, (name, tensor) pairs, or dicts of them with options.
        lr: an upper bound of the relative step size. beta2_decay: power of the step count that weights new
            squares.
        eps: (least mean of squares, None for that of the dtype; least scale of a parameter).
        d: bound on the root mean square of a step. weight_decay: decoupled. maximize: climb instead.
        foreach: accepted; every step is one program.

    Raises:
        ValueError: a number out of range. RuntimeError: complex parameters.
    """

    _rule = staticmethod(rules.adafactor)
    _flags = {}

    def __init__(
        self,
        params,
        lr=1e-2,
        beta2_decay=-0.8,
        eps=(None, 1e-3),
        d=1.0,
        weight_decay=0.0,
        *,
        foreach=None,
        maximize=False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError(f"Tensor lr must be 1-element, got shape {list(lr.shape)}")
        if not number(lr) >= 0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        demand_flags(foreach)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _step_group(self, group, params):
        if any(p.is_complex() for p in params):
            raise RuntimeError("Adafactor does not support complex parameters")
        for p in params:
            self._state_of(p, group)
        for many in (True, False):  # matrices and vectors keep different state
            chosen = [p for p in params if (p.ndim > 1) == many]
            if chosen:
                self._kept_now = ("row_var", "col_var") if many else ("variance",)
                super()._step_group(group, chosen)

    def _numbers(self, group):
        return {"eps2": group["eps"][1]} | {k: group[k] for k in ("lr", "beta2_decay", "d", "weight_decay")}

    def _options(self, group):
        return (("decay", bool(group["weight_decay"] != 0)), ("least", group["eps"][0]))

    def _kept(self, group):
        return self._kept_now

    def _start(self, p, group):
        if p.ndim <= 1:
            return {"step": step_count(), "variance": zeros(tuple(p.shape), p.dtype)}
        rows, columns = list(p.shape), list(p.shape)
        rows[-1] = columns[-2] = 1
        return {"step": step_count(), "row_var": zeros(rows, p.dtype), "col_var": zeros(columns, p.dtype)}


@updates(Adafactor, row_vars="row_var", col_vars="col_var", variances="variance", state_steps="step")
def adafactor(
    params, grads, row_vars, col_vars, variances, state_steps, foreach=None, grad_scale=None, found_inf=None,
    has_complex=False, *, d, lr, beta2_decay, weight_decay, eps1, eps2, maximize,
):  # fmt: skip
    """The step of :class:`Adafactor` on lists of tensors, in place."""
    return {"eps": (eps1, eps2)}
