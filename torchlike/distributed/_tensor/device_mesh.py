"""torch.distributed._tensor.device_mesh: ``torch.distributed.device_mesh`` under its older name."""

from torchlike.distributed.device_mesh import DeviceMesh as DeviceMesh
from torchlike.distributed.device_mesh import init_device_mesh as init_device_mesh
