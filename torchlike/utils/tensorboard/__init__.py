"""torch.utils.tensorboard: what a run reports, as files that tensorboard shows. It needs the package tensorboard."""

from torchlike.interop.lazy import on_first_use
from torchlike.utils.tensorboard.writer import SummaryWriter as SummaryWriter

__getattr__, __dir__ = on_first_use(__name__)
