"""torch.ao.quantization.qconfig: which observers or fake quantizers activations and weights get."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike.ao.quantization import fake_quantize as fakes
from torchlike.ao.quantization import observer as observers
from torchlike.ao.quantization.observer import HistogramObserver
from torchlike.interop.refusing import refusing
from torchlike.nn import Identity, Module

__getattr__ = refusing(__name__, "this setting of quantization is not supported")


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """The constructors of what observes activations and weights.

    >>> import torchlike as torch
    >>> q = torch.ao.quantization
    >>> q.QConfig(activation=q.MinMaxObserver, weight=q.default_weight_observer).activation().dtype
    torch.quint8
    """

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. Use MyObserver.with_args(x=1) "
                "to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None
_PlaceholderArgs: dict[str, Any] = {"dtype": dtypes.float16}
_placeholder = observers.PlaceholderObserver

default_qconfig = QConfig(observers.default_observer, observers.default_weight_observer)
default_debug_qconfig = QConfig(observers.default_debug_observer, observers.default_weight_observer)
default_per_channel_qconfig = QConfig(observers.default_observer, observers.default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(observers.default_dynamic_quant_observer, observers.default_weight_observer)
per_channel_dynamic_qconfig = QConfig(
    observers.default_dynamic_quant_observer, observers.default_per_channel_weight_observer
)
float16_dynamic_qconfig = QConfig(
    _placeholder.with_args(dtype=dtypes.float16, is_dynamic=True), _placeholder.with_args(dtype=dtypes.float16)
)
float16_static_qconfig = QConfig(
    _placeholder.with_args(dtype=dtypes.float16), _placeholder.with_args(dtype=dtypes.float16)
)
float_qparams_weight_only_qconfig = QConfig(_placeholder, observers.default_float_qparams_observer)
float_qparams_weight_only_qconfig_4bit = QConfig(_placeholder, observers.default_float_qparams_observer_4bit)
default_qat_qconfig = QConfig(fakes.default_fake_quant, fakes.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(fakes.default_dynamic_fake_quant, fakes.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(Identity, fakes.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(fakes.default_fake_quant, Identity)
default_qat_qconfig_v2 = QConfig(fakes.default_fused_act_fake_quant, fakes.default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(observers.default_reuse_input_observer, observers.NoopObserver)
default_quint8_weight_qconfig = QConfig(HistogramObserver, observers.MinMaxObserver)
default_embedding_qat_qconfig = QConfig(
    observers.NoopObserver.with_args(dtype=dtypes.float32), fakes.default_embedding_fake_quant
)
default_embedding_qat_qconfig_4bit = QConfig(
    observers.NoopObserver.with_args(dtype=dtypes.float32), fakes.default_embedding_fake_quant_4bit
)
_HALVES: dict[str, Any] = {"dtype": dtypes.qint8, "reduce_range": False, "eps": 2**-12}
_FUSED = fakes.FusedMovingAvgObsFakeQuantize.with_args(
    observer=observers.MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, **_HALVES
)
default_symmetric_qnnpack_qconfig = QConfig(
    HistogramObserver.with_args(**_HALVES), observers.weight_observer_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    HistogramObserver.with_args(**_HALVES), observers.per_channel_weight_observer_range_neg_127_to_127
)
default_symmetric_qnnpack_qat_qconfig = QConfig(_FUSED, fakes.fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _FUSED, fakes.fused_per_channel_wt_fake_quant_range_neg_127_to_127
)

_BACKENDS = ("fbgemm", "x86", "qnnpack", "onednn")


def _demand(function: str, backend: str, version: int, versions: tuple[int, ...]) -> None:
    if version not in versions:
        raise AssertionError(
            f"Version number: {version} in {function} is not supported. Version number must be "
            f"{' or '.join(map(str, versions))}"
        )
    if backend not in _BACKENDS:
        raise AssertionError(f"backend: {backend} not supported. backend must be one of {[*_BACKENDS]}")


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """The setting of post-training quantization for a backend: ``x86``, ``fbgemm``, ``qnnpack`` or ``onednn``."""
    _demand("get_default_qconfig", backend, version, (0,))
    uniform = backend == "qnnpack"
    weights = observers.default_weight_observer if uniform else observers.default_per_channel_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=backend in ("x86", "fbgemm")), weights)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """The setting of training that is aware of quantization; ``version`` 1 has fused modules."""
    _demand("get_default_qat_qconfig", backend, version, (0, 1))
    reduces = {} if backend == "onednn" else {"reduce_range": backend in ("x86", "fbgemm")}
    kind = fakes.FusedMovingAvgObsFakeQuantize if version else fakes.FakeQuantize
    weights = {
        (0, True): fakes.default_weight_fake_quant, (0, False): fakes.default_per_channel_weight_fake_quant,
        (1, True): fakes.default_fused_wt_fake_quant, (1, False): fakes.default_fused_per_channel_wt_fake_quant,
    }  # fmt: skip
    activation = kind.with_args(observer=observers.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **reduces)
    return QConfig(activation, weights[version, backend == "qnnpack"])


def get_default_qconfig_dict(backend: str = "x86", version: int = 0) -> dict[str, Any]:
    """As PyTorch's dicts of settings were, with the default setting for all modules."""
    raise NotImplementedError("get_default_qconfig_dict(): it is for graph mode; use get_default_qconfig()")


def qconfig_equals(q1: Any, q2: Any) -> bool:
    """Whether two settings have the same constructors with the same arguments."""
    if q1 is None or q2 is None:
        return q1 is q2
    return all(_same(a, b) for a, b in zip(q1, q2, strict=True))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, observers._PartialWrapper) and isinstance(b, observers._PartialWrapper):
        return a.p.func is b.p.func and a.p.args == b.p.args and _alike(a.p.keywords, b.p.keywords)
    return bool(a == b)


def _alike(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)


def _activation_is_memoryless(qconfig: Any) -> bool:
    """Whether activations are quantized by what they are themselves, each time."""
    made = qconfig.activation()
    watches = getattr(made, "activation_post_process", made)
    return getattr(watches, "averaging_constant", None) == 1 or getattr(watches, "is_dynamic", False)
