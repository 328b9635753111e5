"""torch.ao.quantization: tensors of few bits are not here; models that can be quantized run as they are.

The stubs pass their input on, as PyTorch's do before a model is prepared; what would prepare, calibrate or convert a
model raises NotImplementedError.
"""

from typing import Any, NamedTuple, NoReturn

from torchlike._core.tensor.tensor import Tensor
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module

_REFUSED = (
    "FakeQuantize", "FakeQuantizeBase", "HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver",
    "PlaceholderObserver", "QConfigMapping", "convert", "default_dynamic_qconfig", "default_fake_quant",
    "default_observer", "default_per_channel_weight_observer", "default_qconfig", "default_weight_observer",
    "disable_fake_quant", "disable_observer", "enable_fake_quant", "enable_observer",
    "float_qparams_weight_only_qconfig", "fuse_modules", "fuse_modules_qat", "get_default_qat_qconfig",
    "get_default_qconfig", "prepare", "prepare_qat", "quantize", "quantize_dynamic", "quantize_qat",
)  # fmt: skip

__all__ = ["DeQuantStub", "QConfig", "QuantStub", "QuantWrapper", *_REFUSED]  # noqa: PLE0604

__getattr__ = missing_names(__name__)


class QConfig(NamedTuple):
    """What makes the observers of activations and of weights."""

    activation: Any
    weight: Any


class QuantStub(Module):
    """Where the input of a model would be quantized; the input as it is.

    >>> import torchlike as torch
    >>> torch.ao.quantization.QuantStub()(torch.ones(1))
    tensor([1.])
    """

    def __init__(self, qconfig: QConfig | None = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """``x``."""
        return x


class DeQuantStub(QuantStub):
    """Where the output of a model would be made floating again; the output as it is."""


class QuantWrapper(Module):
    """``module`` between a :class:`QuantStub` and a :class:`DeQuantStub`."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.quant, self.dequant, self.module = QuantStub(), DeQuantStub(), module
        self.train(module.training)

    def forward(self, X: Tensor) -> Any:
        """What the module makes of ``X``."""
        return self.dequant(self.module(self.quant(X)))


class _Refused:
    """A name of PyTorch's that cannot be used."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"torch.ao.quantization.{self.__name__}: torchlike has no quantized tensors; run the model as it is, or in "
            "bfloat16 (torch.autocast)"
        )

    def with_args(self, *args: Any, **kwargs: Any) -> "_Refused":
        """Itself: arguments are for observers that are never made."""
        return self

    def __repr__(self) -> str:
        return f"<torch.ao.quantization.{self.__name__}: not in torchlike>"


globals().update({name: _Refused(name) for name in _REFUSED})
