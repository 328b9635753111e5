"""torch.utils: data loading and helpers."""

from typing import TYPE_CHECKING

from torchlike.interop.lazy import on_first_use
from torchlike.utils._swap import swap_tensors as swap_tensors

if TYPE_CHECKING:  # what is imported when it is first used
    from torchlike.utils import benchmark as benchmark
    from torchlike.utils import checkpoint as checkpoint
    from torchlike.utils import collect_env as collect_env
    from torchlike.utils import cpp_extension as cpp_extension
    from torchlike.utils import data as data
    from torchlike.utils import deterministic as deterministic
    from torchlike.utils import dlpack as dlpack
    from torchlike.utils import flop_counter as flop_counter
    from torchlike.utils import hooks as hooks
    from torchlike.utils import model_zoo as model_zoo
    from torchlike.utils import module_tracker as module_tracker
    from torchlike.utils import op_profile as op_profile
    from torchlike.utils import tensorboard as tensorboard
    from torchlike.utils import weak as weak

__getattr__, __dir__ = on_first_use(__name__)
