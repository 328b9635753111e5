"""torch.ao.nn.intrinsic.qat: fused layers with rounded weights, batch norm among them."""

from __future__ import annotations

import math
from typing import Any

from torchlike import nn
from torchlike.ao._torch import F, torch
from torchlike.ao.nn.intrinsic import fused
from torchlike.ao.nn.qat import layers
from torchlike.ao.nn.qat.layers import demand_setting, setting_of
from torchlike.interop.refusing import refusing
from torchlike.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

__getattr__ = refusing(__name__, "it is not supported; ConvBn2d and its like are")


class LinearReLU(layers.Linear, fused._FusedModule):
    """A linear layer with rounded weights, and relu."""

    _FLOAT_MODULE = fused.LinearReLU

    def forward(self, input: Any) -> Any:
        """The layers of ``input``."""
        return F.relu(layers.Linear.forward(self, input))


class ConvReLU1d(layers.Conv1d, fused._FusedModule):
    """A convolution with rounded weights, and relu."""

    _FLOAT_MODULE = fused.ConvReLU1d

    def forward(self, input: Any) -> Any:
        """The layers of ``input``."""
        return F.relu(layers.Conv1d.forward(self, input))


class ConvReLU2d(layers.Conv2d, fused._FusedModule):
    """A convolution with rounded weights, and relu."""

    _FLOAT_MODULE = fused.ConvReLU2d

    def forward(self, input: Any) -> Any:
        """The layers of ``input``."""
        return F.relu(layers.Conv2d.forward(self, input))


class ConvReLU3d(layers.Conv3d, fused._FusedModule):
    """A convolution with rounded weights, and relu."""

    _FLOAT_MODULE = fused.ConvReLU3d

    def forward(self, input: Any) -> Any:
        """The layers of ``input``."""
        return F.relu(layers.Conv3d.forward(self, input))


def _drawn(layer: Any) -> None:
    """Draw the factors of the batch norm and the bias, as many numbers as PyTorch draws."""
    nn.init.uniform_(layer.bn.weight)
    if layer.bias is not None:
        bound = 1 / math.sqrt(layer.weight[0].numel())
        nn.init.uniform_(layer.bias, -bound, bound)


class _ConvBnNd(nn.modules.conv._ConvNd, fused._FusedModule):
    """A convolution whose weights are rounded as they will be with the batch norm behind it folded in."""

    _FLOAT_MODULE: Any = None
    _CONV: Any = None
    _NORM: Any = None
    _relu = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: Any = None, padding_mode: str = "zeros", eps: float = 1e-05,
        momentum: float = 0.1, freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:  # fmt: skip
        self._CONV.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, False, padding_mode
        )
        self.qconfig = demand_setting(qconfig)
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = self._NORM(out_channels, eps, momentum, True, True)
        self.weight_fake_quant = qconfig.weight()
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None  # type: ignore[assignment]
        _drawn(self)
        if freeze_bn:
            self.freeze_bn_stats()

    def freeze_bn_stats(self) -> Any:
        """Normalise by the running statistics from now on."""
        self.freeze_bn, self.bn.training = True, False
        return self

    def update_bn_stats(self) -> Any:
        """Normalise by those of each batch from now on."""
        self.freeze_bn, self.bn.training = False, True
        return self

    def train(self, mode: bool = True) -> Any:
        """As of any module, but frozen batch norms stay so."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():
                module.train(mode)
        return self

    def forward(self, input: Any) -> Any:
        """The layers of ``input``."""
        factor = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
        along = [-1] + [1] * (self.weight.ndim - 1)
        weight = self.weight_fake_quant(self.weight * factor.reshape(along))
        none = torch.zeros_like(self.bias) if self.bias is not None else torch.zeros(
            self.out_channels, dtype=input.dtype, device=weight.device
        )  # fmt: skip
        out = self._conv_forward(input, weight, none) / factor.reshape([1, *along[:-1]])  # type: ignore[attr-defined]
        if self.bias is not None:
            out = out + self.bias.reshape([1, *along[:-1]])
        out = self.bn(out)
        return F.relu(out) if self._relu else out

    def extra_repr(self) -> str:
        return self._CONV.extra_repr(self)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layers of ones of floats with a ``qconfig``, with their very parameters."""
        setting = setting_of(cls, mod, cls._FLOAT_MODULE)
        conv, bn = mod[0], mod[1]
        new = cls(
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation,
            conv.groups, conv.bias is not None, conv.padding_mode, bn.eps, bn.momentum, False, setting,
        )  # fmt: skip
        new.weight, new.bias = conv.weight, conv.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(new.bn, name, getattr(bn, name))
        return new

    def to_float(self) -> Any:
        """The convolution of floats with the batch norm folded in, and relu where there is one."""
        conv = self._CONV(
            self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation,
            self.groups, self.bias is not None, self.padding_mode,
        )  # fmt: skip
        bn = self.bn
        conv.weight, conv.bias = fuse_conv_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
        if self._relu:
            kind = {nn.Conv1d: fused.ConvReLU1d, nn.Conv2d: fused.ConvReLU2d, nn.Conv3d: fused.ConvReLU3d}
            conv = kind[self._CONV](conv, nn.ReLU())
        conv.train(self.training)
        return conv


def _declared(name: str, conv: Any, norm: Any, relu: bool) -> Any:
    body = {
        "_FLOAT_MODULE": getattr(fused, name), "_CONV": conv, "_NORM": norm, "_relu": relu, "__module__": __name__,
        "__doc__": f"A {conv.__name__} and a {norm.__name__}{' and relu' if relu else ''}, with rounded weights.",
    }  # fmt: skip
    return type(name, (_ConvBnNd, conv), body)


ConvBn1d = _declared("ConvBn1d", nn.Conv1d, nn.BatchNorm1d, False)
ConvBn2d = _declared("ConvBn2d", nn.Conv2d, nn.BatchNorm2d, False)
ConvBn3d = _declared("ConvBn3d", nn.Conv3d, nn.BatchNorm3d, False)
ConvBnReLU1d = _declared("ConvBnReLU1d", nn.Conv1d, nn.BatchNorm1d, True)
ConvBnReLU2d = _declared("ConvBnReLU2d", nn.Conv2d, nn.BatchNorm2d, True)
ConvBnReLU3d = _declared("ConvBnReLU3d", nn.Conv3d, nn.BatchNorm3d, True)


class LinearBn1d(nn.Linear, fused._FusedModule):
    """A linear layer whose weights are rounded as they will be with the batch norm behind it folded in."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, eps: float = 1e-05, momentum: float = 0.1,
        freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:  # fmt: skip
        nn.Linear.__init__(self, in_features, out_features, False)
        self.qconfig = demand_setting(qconfig)
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = nn.BatchNorm1d(out_features, eps, momentum, True, True)
        self.weight_fake_quant = qconfig.weight()
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None  # type: ignore[assignment]
        _drawn(self)
        if freeze_bn:
            self.freeze_bn_stats()

    freeze_bn_stats, update_bn_stats, train = _ConvBnNd.freeze_bn_stats, _ConvBnNd.update_bn_stats, _ConvBnNd.train

    def forward(self, input: Any) -> Any:
        """The layers of ``input``."""
        factor = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
        weight = self.weight_fake_quant(self.weight * factor.reshape(-1, 1))
        none = torch.zeros_like(self.bias) if self.bias is not None else torch.zeros(self.out_features)
        out = F.linear(input, weight, none) / factor.reshape(1, -1)
        return self.bn(out if self.bias is None else out + self.bias.reshape(1, -1))

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layers of ones of floats with a ``qconfig``, with their very parameters."""
        setting = setting_of(cls, mod, fused.LinearBn1d)
        linear, bn = mod[0], mod[1]
        new = cls(linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum, False, setting)
        new.weight, new.bias = linear.weight, linear.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(new.bn, name, getattr(bn, name))
        return new

    def to_float(self) -> Any:
        """The linear layer of floats with the batch norm folded in."""
        new, bn = nn.Linear(self.in_features, self.out_features), self.bn
        new.weight, new.bias = fuse_linear_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
        return new


def freeze_bn_stats(mod: Any) -> None:
    """Let the batch norm of a fused layer normalise by its running statistics: to be given to ``Module.apply``."""
    if isinstance(mod, _ConvBnNd | LinearBn1d):
        mod.freeze_bn_stats()


def update_bn_stats(mod: Any) -> None:
    """Let the batch norm of a fused layer normalise by those of each batch."""
    if isinstance(mod, _ConvBnNd | LinearBn1d):
        mod.update_bn_stats()
