"""torch.distributed.elastic.events: what a launcher and its processes tell of themselves, as lines of a log."""

from torchlike.distributed.elastic.events._records import (
    construct_and_record_rdzv_event as construct_and_record_rdzv_event,
)
from torchlike.distributed.elastic.events._records import get_logging_handler as get_logging_handler
from torchlike.distributed.elastic.events._records import record as record
from torchlike.distributed.elastic.events._records import record_rdzv_event as record_rdzv_event
from torchlike.distributed.elastic.events.api import Event as Event
from torchlike.distributed.elastic.events.api import EventMetadataValue as EventMetadataValue
from torchlike.distributed.elastic.events.api import EventSource as EventSource
from torchlike.distributed.elastic.events.api import NodeState as NodeState
from torchlike.distributed.elastic.events.api import RdzvEvent as RdzvEvent
