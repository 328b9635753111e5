"""torch.ao.quantization.quantization_mappings: which module becomes which."""

from __future__ import annotations

import copy
from typing import Any

from torchlike import nn
from torchlike.ao.nn import intrinsic as nni
from torchlike.ao.nn import qat as nnqat
from torchlike.ao.nn import quantized as nnq
from torchlike.ao.nn.intrinsic import fused
from torchlike.ao.nn.intrinsic import qat as nniqat
from torchlike.ao.nn.intrinsic import quantized as nniq
from torchlike.ao.nn.quantized import dynamic as nnqd
from torchlike.ao.quantization.fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from torchlike.ao.quantization.stubs import DeQuantStub, QuantStub
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "this mapping is not supported; those of static, dynamic and aware quantization are")

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    QuantStub: nnq.Quantize, DeQuantStub: nnq.DeQuantize, nn.BatchNorm2d: nnq.BatchNorm2d,
    nn.BatchNorm3d: nnq.BatchNorm3d, nn.Dropout: nnq.Dropout, nn.Conv1d: nnq.Conv1d, nn.Conv2d: nnq.Conv2d,
    nn.Conv3d: nnq.Conv3d, nn.ConvTranspose1d: nnq.ConvTranspose1d, nn.ConvTranspose2d: nnq.ConvTranspose2d,
    nn.ConvTranspose3d: nnq.ConvTranspose3d, nn.ELU: nnq.ELU, nn.Embedding: nnq.Embedding,
    nn.EmbeddingBag: nnq.EmbeddingBag, nn.GroupNorm: nnq.GroupNorm, nn.Hardswish: nnq.Hardswish,
    nn.InstanceNorm1d: nnq.InstanceNorm1d, nn.InstanceNorm2d: nnq.InstanceNorm2d,
    nn.InstanceNorm3d: nnq.InstanceNorm3d, nn.LayerNorm: nnq.LayerNorm, nn.LeakyReLU: nnq.LeakyReLU,
    nn.modules.linear.NonDynamicallyQuantizableLinear: nnq.Linear, nn.Linear: nnq.Linear, nn.ReLU6: nnq.ReLU6,
    nn.PReLU: nnq.PReLU, nnq.FloatFunctional: nnq.QFunctional, nni.BNReLU2d: nniq.BNReLU2d,
    nni.BNReLU3d: nniq.BNReLU3d, nni.ConvReLU1d: nniq.ConvReLU1d, nni.ConvReLU2d: nniq.ConvReLU2d,
    nni.ConvReLU3d: nniq.ConvReLU3d, nni.LinearReLU: nniq.LinearReLU, nni.LinearLeakyReLU: nniq.LinearLeakyReLU,
    nni.LinearTanh: nniq.LinearTanh, nniqat.ConvBn1d: nnq.Conv1d, nniqat.ConvBn2d: nnq.Conv2d,
    nniqat.ConvBn3d: nnq.Conv3d, nniqat.ConvBnReLU1d: nniq.ConvReLU1d, nniqat.ConvBnReLU2d: nniq.ConvReLU2d,
    nniqat.ConvBnReLU3d: nniq.ConvReLU3d, nniqat.ConvReLU2d: nniq.ConvReLU2d, nniqat.ConvReLU3d: nniq.ConvReLU3d,
    nniqat.LinearReLU: nniq.LinearReLU, nniqat.LinearBn1d: nnq.Linear, nnqat.Linear: nnq.Linear,
    nnqat.Conv2d: nnq.Conv2d, nnqat.Conv3d: nnq.Conv3d,
}  # fmt: skip
DEFAULT_QAT_MODULE_MAPPINGS: dict[Any, Any] = {
    nn.Conv2d: nnqat.Conv2d, nn.Conv3d: nnqat.Conv3d, nn.Linear: nnqat.Linear,
    nn.modules.linear.NonDynamicallyQuantizableLinear: nnqat.Linear, nni.ConvBn1d: nniqat.ConvBn1d,
    nni.ConvBn2d: nniqat.ConvBn2d, nni.ConvBn3d: nniqat.ConvBn3d, nni.ConvBnReLU1d: nniqat.ConvBnReLU1d,
    nni.ConvBnReLU2d: nniqat.ConvBnReLU2d, nni.ConvBnReLU3d: nniqat.ConvBnReLU3d, nni.ConvReLU2d: nniqat.ConvReLU2d,
    nni.ConvReLU3d: nniqat.ConvReLU3d, nni.LinearReLU: nniqat.LinearReLU, nni.LinearBn1d: nniqat.LinearBn1d,
}  # fmt: skip
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    nn.GRUCell: nnqd.GRUCell, nn.Linear: nnqd.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear: nnqd.Linear,
    nn.LSTM: nnqd.LSTM, nn.GRU: nnqd.GRU, nn.LSTMCell: nnqd.LSTMCell, nn.RNNCell: nnqd.RNNCell,
    nn.EmbeddingBag: nnq.EmbeddingBag, nn.Embedding: nnq.Embedding,
}  # fmt: skip
DEFAULT_MODULE_TO_ACT_POST_PROCESS: dict[Any, Any] = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}
_OBSERVED = {
    *DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, *DEFAULT_QAT_MODULE_MAPPINGS, *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    *[v for v in vars(fused).values() if isinstance(v, type) and issubclass(v, fused._FusedModule)], nn.Sequential,
}  # fmt: skip


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """A copy of the mapping of :func:`convert`."""
    return copy.copy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings() -> dict[Any, Any]:
    """A copy of the mapping of :func:`prepare_qat`."""
    return copy.copy(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """A copy of the mapping of :func:`quantize_dynamic`."""
    return copy.copy(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)


def get_default_qconfig_propagation_list() -> set[Any]:
    """The modules whose results are observed where they have a setting."""
    return set(_OBSERVED)


def get_static_quant_module_class(float_module_class: Any, additional_static_quant_mapping: Any = None) -> Any:
    """What a class of modules becomes."""
    found = {**DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, **(additional_static_quant_mapping or {})}
    if float_module_class not in found:
        raise AssertionError(f"Floating point module class {float_module_class} does not have a quantized module class")
    return found[float_module_class]


def get_dynamic_quant_module_class(float_module_class: Any, additional_dynamic_quant_mapping: Any = None) -> Any:
    """What a class of modules becomes when it is quantized dynamically."""
    found = {**DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, **(additional_dynamic_quant_mapping or {})}
    if float_module_class not in found:
        raise AssertionError(f"Floating point module class {float_module_class} does not have a quantized module class")
    return found[float_module_class]


def no_observer_set() -> set[Any]:
    """Modules that are never observed: none here."""
    return set()
