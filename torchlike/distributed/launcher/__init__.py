"""torch.distributed.launcher: processes for a function or a command, started from Python."""

from torchlike.distributed.launcher.api import LaunchConfig as LaunchConfig
from torchlike.distributed.launcher.api import elastic_launch as elastic_launch
from torchlike.distributed.launcher.api import launch_agent as launch_agent
