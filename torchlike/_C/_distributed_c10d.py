"""``torch._C._distributed_c10d``: what torch.distributed has of it."""

from torchlike.distributed import BuiltinCommHookType as BuiltinCommHookType
from torchlike.distributed import DebugLevel as DebugLevel
from torchlike.distributed import FileStore as FileStore
from torchlike.distributed import GradBucket as GradBucket
from torchlike.distributed import HashStore as HashStore
from torchlike.distributed import PrefixStore as PrefixStore
from torchlike.distributed import ReduceOp as ReduceOp
from torchlike.distributed import Store as Store
from torchlike.distributed import TCPStore as TCPStore
from torchlike.distributed._calls import Work as Work
from torchlike.distributed.distributed_c10d import ProcessGroup as ProcessGroup
from torchlike.distributed.distributed_c10d import get_debug_level as get_debug_level
from torchlike.distributed.distributed_c10d import set_debug_level as set_debug_level
from torchlike.distributed.distributed_c10d import set_debug_level_from_env as set_debug_level_from_env
from torchlike.interop.alias import missing_names
from torchlike.nn.parallel._reducer import Reducer as Reducer

__getattr__ = missing_names(__name__)
