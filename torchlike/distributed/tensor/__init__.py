"""torch.distributed.tensor: tensors over a mesh of devices."""

from torchlike.distributed.device_mesh import DeviceMesh as DeviceMesh
from torchlike.distributed.device_mesh import init_device_mesh as init_device_mesh
from torchlike.distributed.tensor._dtensor import DTensor as DTensor
from torchlike.distributed.tensor._dtensor import distribute_tensor as distribute_tensor
from torchlike.distributed.tensor._dtensor_spec import DTensorSpec as _DTensorSpec  # noqa: F401
from torchlike.distributed.tensor._factories import empty as empty
from torchlike.distributed.tensor._factories import full as full
from torchlike.distributed.tensor._factories import ones as ones
from torchlike.distributed.tensor._factories import rand as rand
from torchlike.distributed.tensor._factories import randn as randn
from torchlike.distributed.tensor._factories import zeros as zeros
from torchlike.distributed.tensor._modules import distribute_module as distribute_module
from torchlike.distributed.tensor.placement_types import Partial as Partial
from torchlike.distributed.tensor.placement_types import Placement as Placement
from torchlike.distributed.tensor.placement_types import Replicate as Replicate
from torchlike.distributed.tensor.placement_types import Shard as Shard
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
