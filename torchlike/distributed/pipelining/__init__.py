"""Models in stages on several processes: ``torch.distributed.pipelining``."""

from torchlike.distributed.pipelining import microbatch as microbatch
from torchlike.distributed.pipelining._IR import Pipe as Pipe
from torchlike.distributed.pipelining._IR import SplitPoint as SplitPoint
from torchlike.distributed.pipelining._IR import build_stage as build_stage
from torchlike.distributed.pipelining._IR import pipe_split as pipe_split
from torchlike.distributed.pipelining._IR import pipeline as pipeline
from torchlike.distributed.pipelining.schedules import Schedule1F1B as Schedule1F1B
from torchlike.distributed.pipelining.schedules import ScheduleDualPipeV as ScheduleDualPipeV
from torchlike.distributed.pipelining.schedules import ScheduleGPipe as ScheduleGPipe
from torchlike.distributed.pipelining.schedules import ScheduleInterleaved1F1B as ScheduleInterleaved1F1B
from torchlike.distributed.pipelining.schedules import ScheduleInterleavedZeroBubble as ScheduleInterleavedZeroBubble
from torchlike.distributed.pipelining.schedules import ScheduleLoopedBFS as ScheduleLoopedBFS
from torchlike.distributed.pipelining.schedules import ScheduleZBVZeroBubble as ScheduleZBVZeroBubble
from torchlike.distributed.pipelining.stage import PipelineStage as PipelineStage
from torchlike.interop.lazy import on_first_use
from torchlike.interop.refusing import refusing

__getattr__, __dir__ = on_first_use(__name__, missing=refusing(__name__, "not supported"))
