"""Adam with decoupled weight decay."""

from torchlike.optim._as_function import updates
from torchlike.optim.adam import Adam

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters instead of changing the gradients (Loshchilov & Hutter
    2019).

    Arguments and errors are those of :class:`Adam`; ``weight_decay`` is 0.01 by default.

    >>> import torchlike as torch
    >>> p = torch.nn.Parameter(torch.zeros(1))
    >>> torch.optim.AdamW([p]).defaults["weight_decay"]
    0.01
    """

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        amsgrad=False,
        *,
        maximize=False,
        foreach=None,
        capturable=False,
        differentiable=False,
        fused=None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


@updates(AdamW, exp_avgs="exp_avg", exp_avg_sqs="exp_avg_sq", max_exp_avg_sqs="max_exp_avg_sq", state_steps="step")
def adamw(
    params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach=None, capturable=False,
    differentiable=False, fused=None, grad_scale=None, found_inf=None, has_complex=False, *, amsgrad, beta1,
    beta2, lr, weight_decay, eps, maximize,
):  # fmt: skip
    """The step of :class:`AdamW` on lists of tensors, in place."""
    return {"betas": (beta1, beta2), "decoupled_weight_decay": True}
