"""The functions behind the layers: ``torch.nn.functional``."""

from torchlike._jit_internal import BroadcastingList1 as BroadcastingList1
from torchlike._jit_internal import BroadcastingList2 as BroadcastingList2
from torchlike._jit_internal import BroadcastingList3 as BroadcastingList3
from torchlike.nn.functional._all import *  # noqa: F403
from torchlike.nn.functional._all import threshold as _threshold  # noqa: F401  (its name in graphs of torch.fx)
from torchlike.nn.functional.scaled import ScalingType as ScalingType
from torchlike.nn.functional.scaled import SwizzleType as SwizzleType
from torchlike.nn.functional.vision import GRID_SAMPLE_INTERPOLATION_MODES as GRID_SAMPLE_INTERPOLATION_MODES
from torchlike.nn.functional.vision import GRID_SAMPLE_PADDING_MODES as GRID_SAMPLE_PADDING_MODES
