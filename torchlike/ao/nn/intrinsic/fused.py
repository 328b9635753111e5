"""Layers one after the other that quantization takes for one."""

from __future__ import annotations

from typing import Any

from torchlike import nn


class _FusedModule(nn.Sequential):
    """Modules that are quantized as one."""


def _fused(name: str, *kinds: Any) -> Any:
    """The class of a sequence of modules of these kinds."""

    def __init__(self: Any, *modules: Any) -> None:
        for module, kind in zip(modules, kinds, strict=True):
            if not isinstance(module, kind):
                expected = ", ".join(k.__name__ for k in kinds)
                raise AssertionError(f"{name}() takes modules of the types {expected}, not {type(module).__name__}")
        nn.Sequential.__init__(self, *modules)

    body = {"__init__": __init__, "__module__": __name__, "__doc__": " and ".join(k.__name__ for k in kinds) + "."}
    return type(name, (_FusedModule,), body)


ConvReLU1d = _fused("ConvReLU1d", nn.Conv1d, nn.ReLU)
ConvReLU2d = _fused("ConvReLU2d", nn.Conv2d, nn.ReLU)
ConvReLU3d = _fused("ConvReLU3d", nn.Conv3d, nn.ReLU)
LinearReLU = _fused("LinearReLU", nn.Linear, nn.ReLU)
ConvBn1d = _fused("ConvBn1d", nn.Conv1d, nn.BatchNorm1d)
ConvBn2d = _fused("ConvBn2d", nn.Conv2d, nn.BatchNorm2d)
ConvBn3d = _fused("ConvBn3d", nn.Conv3d, nn.BatchNorm3d)
ConvBnReLU1d = _fused("ConvBnReLU1d", nn.Conv1d, nn.BatchNorm1d, nn.ReLU)
ConvBnReLU2d = _fused("ConvBnReLU2d", nn.Conv2d, nn.BatchNorm2d, nn.ReLU)
ConvBnReLU3d = _fused("ConvBnReLU3d", nn.Conv3d, nn.BatchNorm3d, nn.ReLU)
BNReLU2d = _fused("BNReLU2d", nn.BatchNorm2d, nn.ReLU)
BNReLU3d = _fused("BNReLU3d", nn.BatchNorm3d, nn.ReLU)
LinearBn1d = _fused("LinearBn1d", nn.Linear, nn.BatchNorm1d)
LinearLeakyReLU = _fused("LinearLeakyReLU", nn.Linear, nn.LeakyReLU)
LinearTanh = _fused("LinearTanh", nn.Linear, nn.Tanh)
