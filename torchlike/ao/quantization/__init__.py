"""torch.ao.quantization: integers in the place of floats, in eager mode."""

from torchlike.ao.quantization import fake_quantize as fake_quantize
from torchlike.ao.quantization import observer as observer
from torchlike.ao.quantization import qconfig as qconfig
from torchlike.ao.quantization.fake_quantize import FakeQuantize as FakeQuantize
from torchlike.ao.quantization.fake_quantize import FakeQuantizeBase as FakeQuantizeBase
from torchlike.ao.quantization.fake_quantize import FixedQParamsFakeQuantize as FixedQParamsFakeQuantize
from torchlike.ao.quantization.fake_quantize import FusedMovingAvgObsFakeQuantize as FusedMovingAvgObsFakeQuantize
from torchlike.ao.quantization.fake_quantize import (
    default_affine_fixed_qparams_fake_quant as default_affine_fixed_qparams_fake_quant,
)
from torchlike.ao.quantization.fake_quantize import default_dynamic_fake_quant as default_dynamic_fake_quant
from torchlike.ao.quantization.fake_quantize import default_embedding_fake_quant as default_embedding_fake_quant
from torchlike.ao.quantization.fake_quantize import (
    default_embedding_fake_quant_4bit as default_embedding_fake_quant_4bit,
)
from torchlike.ao.quantization.fake_quantize import default_fake_quant as default_fake_quant
from torchlike.ao.quantization.fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant as default_fixed_qparams_range_0to1_fake_quant,
)
from torchlike.ao.quantization.fake_quantize import (
    default_fixed_qparams_range_neg1to1_fake_quant as default_fixed_qparams_range_neg1to1_fake_quant,
)
from torchlike.ao.quantization.fake_quantize import default_fused_act_fake_quant as default_fused_act_fake_quant
from torchlike.ao.quantization.fake_quantize import (
    default_fused_per_channel_wt_fake_quant as default_fused_per_channel_wt_fake_quant,
)
from torchlike.ao.quantization.fake_quantize import default_fused_wt_fake_quant as default_fused_wt_fake_quant
from torchlike.ao.quantization.fake_quantize import default_histogram_fake_quant as default_histogram_fake_quant
from torchlike.ao.quantization.fake_quantize import (
    default_per_channel_weight_fake_quant as default_per_channel_weight_fake_quant,
)
from torchlike.ao.quantization.fake_quantize import (
    default_symmetric_fixed_qparams_fake_quant as default_symmetric_fixed_qparams_fake_quant,
)
from torchlike.ao.quantization.fake_quantize import default_weight_fake_quant as default_weight_fake_quant
from torchlike.ao.quantization.fake_quantize import disable_fake_quant as disable_fake_quant
from torchlike.ao.quantization.fake_quantize import disable_observer as disable_observer
from torchlike.ao.quantization.fake_quantize import enable_fake_quant as enable_fake_quant
from torchlike.ao.quantization.fake_quantize import enable_observer as enable_observer
from torchlike.ao.quantization.fake_quantize import (
    fused_per_channel_wt_fake_quant_range_neg_127_to_127 as fused_per_channel_wt_fake_quant_range_neg_127_to_127,
)
from torchlike.ao.quantization.fake_quantize import (
    fused_wt_fake_quant_range_neg_127_to_127 as fused_wt_fake_quant_range_neg_127_to_127,
)
from torchlike.ao.quantization.fuse_modules import fuse_modules as fuse_modules
from torchlike.ao.quantization.fuse_modules import fuse_modules_qat as fuse_modules_qat
from torchlike.ao.quantization.observer import FixedQParamsObserver as FixedQParamsObserver
from torchlike.ao.quantization.observer import HistogramObserver as HistogramObserver
from torchlike.ao.quantization.observer import MinMaxObserver as MinMaxObserver
from torchlike.ao.quantization.observer import MovingAverageMinMaxObserver as MovingAverageMinMaxObserver
from torchlike.ao.quantization.observer import (
    MovingAveragePerChannelMinMaxObserver as MovingAveragePerChannelMinMaxObserver,
)
from torchlike.ao.quantization.observer import NoopObserver as NoopObserver
from torchlike.ao.quantization.observer import ObserverBase as ObserverBase
from torchlike.ao.quantization.observer import PerChannelMinMaxObserver as PerChannelMinMaxObserver
from torchlike.ao.quantization.observer import PlaceholderObserver as PlaceholderObserver
from torchlike.ao.quantization.observer import RecordingObserver as RecordingObserver
from torchlike.ao.quantization.observer import ReuseInputObserver as ReuseInputObserver
from torchlike.ao.quantization.observer import UniformQuantizationObserverBase as UniformQuantizationObserverBase
from torchlike.ao.quantization.observer import (
    default_affine_fixed_qparams_observer as default_affine_fixed_qparams_observer,
)
from torchlike.ao.quantization.observer import default_debug_observer as default_debug_observer
from torchlike.ao.quantization.observer import default_dynamic_quant_observer as default_dynamic_quant_observer
from torchlike.ao.quantization.observer import (
    default_fixed_qparams_range_0to1_observer as default_fixed_qparams_range_0to1_observer,
)
from torchlike.ao.quantization.observer import (
    default_fixed_qparams_range_neg1to1_observer as default_fixed_qparams_range_neg1to1_observer,
)
from torchlike.ao.quantization.observer import default_float_qparams_observer as default_float_qparams_observer
from torchlike.ao.quantization.observer import (
    default_float_qparams_observer_4bit as default_float_qparams_observer_4bit,
)
from torchlike.ao.quantization.observer import default_histogram_observer as default_histogram_observer
from torchlike.ao.quantization.observer import default_observer as default_observer
from torchlike.ao.quantization.observer import (
    default_per_channel_weight_observer as default_per_channel_weight_observer,
)
from torchlike.ao.quantization.observer import default_placeholder_observer as default_placeholder_observer
from torchlike.ao.quantization.observer import default_reuse_input_observer as default_reuse_input_observer
from torchlike.ao.quantization.observer import (
    default_symmetric_fixed_qparams_observer as default_symmetric_fixed_qparams_observer,
)
from torchlike.ao.quantization.observer import default_weight_observer as default_weight_observer
from torchlike.ao.quantization.observer import get_observer_state_dict as get_observer_state_dict
from torchlike.ao.quantization.observer import load_observer_state_dict as load_observer_state_dict
from torchlike.ao.quantization.observer import (
    per_channel_weight_observer_range_neg_127_to_127 as per_channel_weight_observer_range_neg_127_to_127,
)
from torchlike.ao.quantization.observer import (
    weight_observer_range_neg_127_to_127 as weight_observer_range_neg_127_to_127,
)
from torchlike.ao.quantization.qconfig import QConfig as QConfig
from torchlike.ao.quantization.qconfig import QConfigAny as QConfigAny
from torchlike.ao.quantization.qconfig import default_activation_only_qconfig as default_activation_only_qconfig
from torchlike.ao.quantization.qconfig import default_debug_qconfig as default_debug_qconfig
from torchlike.ao.quantization.qconfig import default_dynamic_qat_qconfig as default_dynamic_qat_qconfig
from torchlike.ao.quantization.qconfig import default_dynamic_qconfig as default_dynamic_qconfig
from torchlike.ao.quantization.qconfig import default_embedding_qat_qconfig as default_embedding_qat_qconfig
from torchlike.ao.quantization.qconfig import default_embedding_qat_qconfig_4bit as default_embedding_qat_qconfig_4bit
from torchlike.ao.quantization.qconfig import default_per_channel_qconfig as default_per_channel_qconfig
from torchlike.ao.quantization.qconfig import (
    default_per_channel_symmetric_qnnpack_qat_qconfig as default_per_channel_symmetric_qnnpack_qat_qconfig,
)
from torchlike.ao.quantization.qconfig import (
    default_per_channel_symmetric_qnnpack_qconfig as default_per_channel_symmetric_qnnpack_qconfig,
)
from torchlike.ao.quantization.qconfig import default_qat_qconfig as default_qat_qconfig
from torchlike.ao.quantization.qconfig import default_qat_qconfig_v2 as default_qat_qconfig_v2
from torchlike.ao.quantization.qconfig import default_qconfig as default_qconfig
from torchlike.ao.quantization.qconfig import default_quint8_weight_qconfig as default_quint8_weight_qconfig
from torchlike.ao.quantization.qconfig import default_reuse_input_qconfig as default_reuse_input_qconfig
from torchlike.ao.quantization.qconfig import (
    default_symmetric_qnnpack_qat_qconfig as default_symmetric_qnnpack_qat_qconfig,
)
from torchlike.ao.quantization.qconfig import default_symmetric_qnnpack_qconfig as default_symmetric_qnnpack_qconfig
from torchlike.ao.quantization.qconfig import default_weight_only_qconfig as default_weight_only_qconfig
from torchlike.ao.quantization.qconfig import float16_dynamic_qconfig as float16_dynamic_qconfig
from torchlike.ao.quantization.qconfig import float16_static_qconfig as float16_static_qconfig
from torchlike.ao.quantization.qconfig import float_qparams_weight_only_qconfig as float_qparams_weight_only_qconfig
from torchlike.ao.quantization.qconfig import (
    float_qparams_weight_only_qconfig_4bit as float_qparams_weight_only_qconfig_4bit,
)
from torchlike.ao.quantization.qconfig import get_default_qat_qconfig as get_default_qat_qconfig
from torchlike.ao.quantization.qconfig import get_default_qconfig as get_default_qconfig
from torchlike.ao.quantization.qconfig import get_default_qconfig_dict as get_default_qconfig_dict
from torchlike.ao.quantization.qconfig import per_channel_dynamic_qconfig as per_channel_dynamic_qconfig
from torchlike.ao.quantization.qconfig import qconfig_equals as qconfig_equals
from torchlike.ao.quantization.quantization_mappings import (
    DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS as DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
)
from torchlike.ao.quantization.quantization_mappings import (
    DEFAULT_MODULE_TO_ACT_POST_PROCESS as DEFAULT_MODULE_TO_ACT_POST_PROCESS,
)
from torchlike.ao.quantization.quantization_mappings import DEFAULT_QAT_MODULE_MAPPINGS as DEFAULT_QAT_MODULE_MAPPINGS
from torchlike.ao.quantization.quantization_mappings import (
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS as DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
)
from torchlike.ao.quantization.quantization_mappings import (
    get_default_dynamic_quant_module_mappings as get_default_dynamic_quant_module_mappings,
)
from torchlike.ao.quantization.quantization_mappings import (
    get_default_qat_module_mappings as get_default_qat_module_mappings,
)
from torchlike.ao.quantization.quantization_mappings import (
    get_default_qconfig_propagation_list as get_default_qconfig_propagation_list,
)
from torchlike.ao.quantization.quantization_mappings import (
    get_default_static_quant_module_mappings as get_default_static_quant_module_mappings,
)
from torchlike.ao.quantization.quantization_mappings import (
    get_dynamic_quant_module_class as get_dynamic_quant_module_class,
)
from torchlike.ao.quantization.quantization_mappings import (
    get_static_quant_module_class as get_static_quant_module_class,
)
from torchlike.ao.quantization.quantization_mappings import no_observer_set as no_observer_set
from torchlike.ao.quantization.quantize import add_quant_dequant as add_quant_dequant
from torchlike.ao.quantization.quantize import convert as convert
from torchlike.ao.quantization.quantize import prepare as prepare
from torchlike.ao.quantization.quantize import prepare_qat as prepare_qat
from torchlike.ao.quantization.quantize import propagate_qconfig_ as propagate_qconfig_
from torchlike.ao.quantization.quantize import quantize as quantize
from torchlike.ao.quantization.quantize import quantize_dynamic as quantize_dynamic
from torchlike.ao.quantization.quantize import quantize_qat as quantize_qat
from torchlike.ao.quantization.quantize import swap_module as swap_module
from torchlike.ao.quantization.stubs import DeQuantStub as DeQuantStub
from torchlike.ao.quantization.stubs import QuantStub as QuantStub
from torchlike.ao.quantization.stubs import QuantWrapper as QuantWrapper
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike quantizes in eager mode only: prepare, convert and quantize_dynamic")
