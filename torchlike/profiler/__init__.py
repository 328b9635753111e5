"""torch.profiler: where the time of a program goes, step by step."""

from torchlike.autograd.profiler import kineto_available as kineto_available
from torchlike.autograd.profiler import record_function as record_function
from torchlike.interop.lazy import on_first_use
from torchlike.profiler.profiler import DeviceType as DeviceType
from torchlike.profiler.profiler import ExecutionTraceObserver as ExecutionTraceObserver
from torchlike.profiler.profiler import ProfilerAction as ProfilerAction
from torchlike.profiler.profiler import ProfilerActivity as ProfilerActivity
from torchlike.profiler.profiler import profile as profile
from torchlike.profiler.profiler import schedule as schedule
from torchlike.profiler.profiler import supported_activities as supported_activities
from torchlike.profiler.profiler import tensorboard_trace_handler as tensorboard_trace_handler

__getattr__, __dir__ = on_first_use(__name__)
