"""torch.distributed.tensor.device_mesh: meshes under their older name."""

from torchlike.distributed.device_mesh import DeviceMesh as DeviceMesh
from torchlike.distributed.device_mesh import init_device_mesh as init_device_mesh
