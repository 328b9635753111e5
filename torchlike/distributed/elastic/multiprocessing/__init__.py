"""``torch.distributed.elastic.multiprocessing``: what scripts under a launcher use of it."""

from torchlike.distributed.elastic.multiprocessing.api import RunProcsResult as RunProcsResult
from torchlike.distributed.elastic.multiprocessing.api import SignalException as SignalException
from torchlike.distributed.elastic.multiprocessing.api import Std as Std
from torchlike.distributed.elastic.multiprocessing.api import to_map as to_map
from torchlike.distributed.elastic.multiprocessing.errors import ProcessFailure as ProcessFailure
from torchlike.interop.lazy import on_first_use
from torchlike.interop.refusing import refusing

__getattr__, __dir__ = on_first_use(
    __name__,
    missing=refusing(
        __name__, "not supported; torch.distributed.launcher.elastic_launch and torch.multiprocessing start processes"
    ),
)
