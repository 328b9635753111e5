"""Batch normalisation in evaluation folded into the layer before it."""

import copy

from torchlike._core.tensor.tensor import Tensor
from torchlike.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _demand_fusable(layer, bn):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv, bn, transpose: bool = False):
    """A copy of ``conv`` that also does what ``bn`` does after it; both in evaluation mode.

    ``transpose``: ``conv`` is a transposed convolution, whose weight has the outputs second.

    >>> import torchlike as torch
    >>> conv, bn = torch.nn.Conv2d(2, 3, 3).eval(), torch.nn.BatchNorm2d(3).eval()
    >>> x = torch.ones(1, 2, 4, 4)
    >>> torch.allclose(torch.nn.utils.fusion.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
    True
    """
    _demand_fusable(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """(weight, bias) of a convolution followed by a batch normalisation with these statistics."""
    scale = (bn_rv + bn_eps).rsqrt()
    scale = scale if bn_w is None else scale * bn_w
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    shift = -bn_rm if conv_b is None else conv_b - bn_rm
    bias = shift * scale if bn_b is None else shift * scale + bn_b
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    bias = bias.to(conv_w.dtype if conv_b is None else conv_b.dtype)
    return (
        Parameter(weight.detach(), conv_w.requires_grad),
        Parameter(bias.detach(), conv_b is not None and conv_b.requires_grad),
    )


def fuse_linear_bn_eval(linear, bn):
    """A copy of ``linear`` that also does what ``bn`` does after it; both in evaluation mode."""
    _demand_fusable(linear, bn)
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """(weight, bias) of a linear map followed by a batch normalisation with these statistics."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
