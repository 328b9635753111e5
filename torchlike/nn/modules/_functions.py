"""Custom functions behind modules."""

from torchlike._functions._install import FUNCTIONS
from torchlike.autograd.function import Function, once_differentiable

__all__ = ["CrossMapLRN2d"]
arange = FUNCTIONS["arange"]


def _sums(x, first, last, with_first=False):
    """At each channel c the sum of x over channels c + first ... c + last, and of channel 0 where asked."""
    c = arange(x.shape[1], device=x.device)
    far = c - c[:, None]
    near = (far >= first) & (far <= last)
    return ((near | (c == 0) if with_first else near).to(x.dtype) @ x.flatten(2)).view_as(x)


class CrossMapLRN2d(Function):
    """``x / (k + alpha * mean) ** beta``: PyTorch's windows, which never lose channel 0, and its own for gradients."""

    @staticmethod
    def forward(ctx, input, size, alpha=1e-4, beta=0.75, k=1):
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        ctx.size, ctx.alpha, ctx.beta = size, alpha, beta
        reach = int((size - 1) / 2)
        scale = _sums(input * input, -reach, reach, with_first=True) * (alpha / size) + k
        output = (input * scale.pow(-beta)).contiguous()
        ctx.save_for_backward(input, output, scale)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        input, output, scale = ctx.saved_tensors
        first = -int(ctx.size - (ctx.size - 1) / 2)
        shared = _sums(grad_output * output / scale, first, first + ctx.size - 1)
        factor = 2 * ctx.alpha * ctx.beta / ctx.size
        return grad_output * scale.pow(-ctx.beta) - factor * input * shared, None, None, None, None
