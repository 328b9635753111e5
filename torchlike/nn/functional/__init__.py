"""The functions behind the layers: ``torch.nn.functional``."""

from torchlike._jit_internal import BroadcastingList1 as BroadcastingList1
from torchlike._jit_internal import BroadcastingList2 as BroadcastingList2
from torchlike._jit_internal import BroadcastingList3 as BroadcastingList3
from torchlike.nn.functional._above import __getattr__ as __getattr__
from torchlike.nn.functional._all import *  # noqa: F403
from torchlike.nn.functional._all import threshold as _threshold  # noqa: F401  (its name in graphs of torch.fx)
from torchlike.nn.functional._helpers import _canonical_mask as _canonical_mask
from torchlike.nn.functional._helpers import _get_softmax_dim as _get_softmax_dim
from torchlike.nn.functional._helpers import _in_projection as _in_projection
from torchlike.nn.functional._helpers import _in_projection_packed as _in_projection_packed
from torchlike.nn.functional._helpers import _mha_shape_check as _mha_shape_check
from torchlike.nn.functional._helpers import _none_or_dtype as _none_or_dtype
from torchlike.nn.functional._helpers import _verify_batch_size as _verify_batch_size
from torchlike.nn.functional._replaced import watch as _watch
from torchlike.nn.functional.scaled import ScalingType as ScalingType
from torchlike.nn.functional.scaled import SwizzleType as SwizzleType
from torchlike.nn.functional.vision import GRID_SAMPLE_INTERPOLATION_MODES as GRID_SAMPLE_INTERPOLATION_MODES
from torchlike.nn.functional.vision import GRID_SAMPLE_PADDING_MODES as GRID_SAMPLE_PADDING_MODES

_watch()
del _watch
