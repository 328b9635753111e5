"""torch.utils.benchmark: how long statements take, and tables that compare them."""

from torchlike.interop.lazy import on_first_use
from torchlike.utils.benchmark.utils.common import Measurement as Measurement
from torchlike.utils.benchmark.utils.common import TaskSpec as TaskSpec
from torchlike.utils.benchmark.utils.common import ordered_unique as ordered_unique
from torchlike.utils.benchmark.utils.common import select_unit as select_unit
from torchlike.utils.benchmark.utils.common import set_torch_threads as set_torch_threads
from torchlike.utils.benchmark.utils.common import trim_sigfig as trim_sigfig
from torchlike.utils.benchmark.utils.common import unit_to_english as unit_to_english
from torchlike.utils.benchmark.utils.compare import Colorize as Colorize
from torchlike.utils.benchmark.utils.compare import Compare as Compare
from torchlike.utils.benchmark.utils.timer import Language as Language
from torchlike.utils.benchmark.utils.timer import Timer as Timer
from torchlike.utils.benchmark.utils.timer import timer as timer

__getattr__, __dir__ = on_first_use(__name__)
