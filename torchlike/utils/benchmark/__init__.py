"""torch.utils.benchmark: how long statements take."""

from torchlike.interop.lazy import on_first_use
from torchlike.utils.benchmark.timer import Measurement as Measurement
from torchlike.utils.benchmark.timer import Timer as Timer
from torchlike.utils.benchmark.timer import timer as timer

__getattr__, __dir__ = on_first_use(__name__)
