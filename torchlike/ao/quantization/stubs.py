"""torch.ao.quantization.stubs: where a model goes from floats to integers, and back."""

from __future__ import annotations

from typing import Any

from torchlike.nn import Module


class QuantStub(Module):
    """Where quantization begins: observes before, is a Quantize after conversion.

    >>> import torchlike as torch
    >>> torch.ao.quantization.QuantStub()(torch.ones(1))
    tensor([1.])
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """``x``."""
        return x


class DeQuantStub(QuantStub):
    """Where quantization ends: gives its input back before, is a DeQuantize after conversion."""


class QuantWrapper(Module):
    """A module between a QuantStub and a DeQuantStub."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X: Any) -> Any:
        """The module of ``X``, which is quantized before and is of floats after."""
        return self.dequant(self.module(self.quant(X)))
