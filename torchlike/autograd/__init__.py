"""torch.autograd: gradients, grad modes, the graph and its hooks."""

from typing import TYPE_CHECKING

from torchlike._base.state import enable_grad as enable_grad
from torchlike._base.state import inference_mode as inference_mode
from torchlike._base.state import is_multithreading_enabled as is_multithreading_enabled
from torchlike._base.state import no_grad as no_grad
from torchlike._base.state import set_grad_enabled as set_grad_enabled
from torchlike._base.state import set_multithreading_enabled as set_multithreading_enabled
from torchlike._core.autograd.anomaly import detect_anomaly as detect_anomaly
from torchlike._core.autograd.anomaly import set_detect_anomaly as set_detect_anomaly
from torchlike._core.autograd.backward import backward as backward
from torchlike._core.autograd.backward import grad as grad
from torchlike._core.autograd.saved_tensors import SavedTensor as SavedTensor
from torchlike._core.autograd.view_tracking import _force_original_view_tracking as _force_original_view_tracking
from torchlike._core.autograd.view_tracking import _unsafe_preserve_version_counter as _unsafe_preserve_version_counter
from torchlike._core.autograd.view_tracking import is_view_replay_enabled as is_view_replay_enabled
from torchlike.autograd import anomaly_mode as anomaly_mode
from torchlike.autograd import forward_ad as forward_ad
from torchlike.autograd import function as function
from torchlike.autograd import grad_mode as grad_mode
from torchlike.autograd import graph as graph
from torchlike.autograd import variable as variable
from torchlike.autograd.function import Function as Function
from torchlike.autograd.function import NestedIOFunction as NestedIOFunction
from torchlike.autograd.gradcheck import gradcheck as gradcheck
from torchlike.autograd.gradcheck import gradgradcheck as gradgradcheck
from torchlike.autograd.variable import Variable as Variable
from torchlike.autograd.variable import _is_checkpoint_valid as _is_checkpoint_valid
from torchlike.interop.lazy import on_first_use

if TYPE_CHECKING:  # what is imported when it is first used
    from torchlike.autograd import functional as functional
    from torchlike.autograd import profiler as profiler
    from torchlike.autograd._recording import _disable_profiler as _disable_profiler
    from torchlike.autograd._recording import _profiler_enabled as _profiler_enabled
    from torchlike.autograd.profiler import kineto_available as kineto_available

_LATER = {"_disable_profiler": "_recording", "_profiler_enabled": "_recording", "kineto_available": "profiler"}
__getattr__, __dir__ = on_first_use(__name__, _LATER)

__all__ = [
    "Function", "SavedTensor", "Variable", "anomaly_mode", "backward", "detect_anomaly", "enable_grad", "forward_ad",
    "function", "functional", "grad", "grad_mode", "gradcheck", "gradgradcheck", "graph", "inference_mode",
    "is_multithreading_enabled", "is_view_replay_enabled", "no_grad", "set_detect_anomaly", "set_grad_enabled",
    "set_multithreading_enabled", "variable",
]  # fmt: skip
