"""torch.ao.quantization.observer: modules that watch tensors and choose the integers to stand for them."""

from torchlike.ao.quantization.observer.histogram import HistogramObserver as HistogramObserver
from torchlike.ao.quantization.observer.histogram import default_histogram_observer as default_histogram_observer
from torchlike.ao.quantization.observer.running import FixedQParamsObserver as FixedQParamsObserver
from torchlike.ao.quantization.observer.running import MinMaxObserver as MinMaxObserver
from torchlike.ao.quantization.observer.running import MovingAverageMinMaxObserver as MovingAverageMinMaxObserver
from torchlike.ao.quantization.observer.running import (
    MovingAveragePerChannelMinMaxObserver as MovingAveragePerChannelMinMaxObserver,
)
from torchlike.ao.quantization.observer.running import NoopObserver as NoopObserver
from torchlike.ao.quantization.observer.running import ObserverBase as ObserverBase
from torchlike.ao.quantization.observer.running import PerChannelMinMaxObserver as PerChannelMinMaxObserver
from torchlike.ao.quantization.observer.running import PlaceholderObserver as PlaceholderObserver
from torchlike.ao.quantization.observer.running import RecordingObserver as RecordingObserver
from torchlike.ao.quantization.observer.running import ReuseInputObserver as ReuseInputObserver
from torchlike.ao.quantization.observer.running import (
    UniformQuantizationObserverBase as UniformQuantizationObserverBase,
)
from torchlike.ao.quantization.observer.running import _is_activation_post_process as _is_activation_post_process
from torchlike.ao.quantization.observer.running import _PartialWrapper as _PartialWrapper
from torchlike.ao.quantization.observer.running import _with_args as _with_args
from torchlike.ao.quantization.observer.running import _with_callable_args as _with_callable_args
from torchlike.ao.quantization.observer.running import (
    default_affine_fixed_qparams_observer as default_affine_fixed_qparams_observer,
)
from torchlike.ao.quantization.observer.running import default_debug_observer as default_debug_observer
from torchlike.ao.quantization.observer.running import default_dynamic_quant_observer as default_dynamic_quant_observer
from torchlike.ao.quantization.observer.running import (
    default_fixed_qparams_range_0to1_observer as default_fixed_qparams_range_0to1_observer,
)
from torchlike.ao.quantization.observer.running import (
    default_fixed_qparams_range_neg1to1_observer as default_fixed_qparams_range_neg1to1_observer,
)
from torchlike.ao.quantization.observer.running import default_float_qparams_observer as default_float_qparams_observer
from torchlike.ao.quantization.observer.running import (
    default_float_qparams_observer_4bit as default_float_qparams_observer_4bit,
)
from torchlike.ao.quantization.observer.running import default_observer as default_observer
from torchlike.ao.quantization.observer.running import (
    default_per_channel_weight_observer as default_per_channel_weight_observer,
)
from torchlike.ao.quantization.observer.running import default_placeholder_observer as default_placeholder_observer
from torchlike.ao.quantization.observer.running import default_reuse_input_observer as default_reuse_input_observer
from torchlike.ao.quantization.observer.running import (
    default_symmetric_fixed_qparams_observer as default_symmetric_fixed_qparams_observer,
)
from torchlike.ao.quantization.observer.running import default_weight_observer as default_weight_observer
from torchlike.ao.quantization.observer.running import get_observer_state_dict as get_observer_state_dict
from torchlike.ao.quantization.observer.running import load_observer_state_dict as load_observer_state_dict
from torchlike.ao.quantization.observer.running import (
    per_channel_weight_observer_range_neg_127_to_127 as per_channel_weight_observer_range_neg_127_to_127,
)
from torchlike.ao.quantization.observer.running import (
    weight_observer_range_neg_127_to_127 as weight_observer_range_neg_127_to_127,
)
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "this observer is not supported; MinMaxObserver and its like are")
