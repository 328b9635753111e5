"""How a process tells its launcher why it failed: ``torch.distributed.elastic.multiprocessing.errors``."""

from torchlike.distributed.elastic.multiprocessing.errors._record import ChildFailedError as ChildFailedError
from torchlike.distributed.elastic.multiprocessing.errors._record import ErrorHandler as ErrorHandler
from torchlike.distributed.elastic.multiprocessing.errors._record import ProcessFailure as ProcessFailure
from torchlike.distributed.elastic.multiprocessing.errors._record import get_error_handler as get_error_handler
from torchlike.distributed.elastic.multiprocessing.errors._record import record as record
from torchlike.interop.lazy import on_first_use
from torchlike.interop.refusing import refusing

__getattr__, __dir__ = on_first_use(__name__, missing=refusing(__name__, "not supported"))
