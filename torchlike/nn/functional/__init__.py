"""The functions behind the layers: ``torch.nn.functional``."""

from torchlike.nn.functional._all import *  # noqa: F403
from torchlike.nn.functional._all import threshold as _threshold  # noqa: F401  (its name in graphs of torch.fx)
from torchlike.nn.functional.scaled import ScalingType as ScalingType
from torchlike.nn.functional.scaled import SwizzleType as SwizzleType
