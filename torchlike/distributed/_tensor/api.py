"""torch.distributed._tensor.api: ``torch.distributed.tensor._api`` under its older name."""

from torchlike.distributed.tensor._api import DTensor as DTensor
from torchlike.distributed.tensor._api import distribute_module as distribute_module
from torchlike.distributed.tensor._api import distribute_tensor as distribute_tensor
from torchlike.distributed.tensor._api import empty as empty
from torchlike.distributed.tensor._api import full as full
from torchlike.distributed.tensor._api import ones as ones
from torchlike.distributed.tensor._api import rand as rand
from torchlike.distributed.tensor._api import randn as randn
from torchlike.distributed.tensor._api import zeros as zeros
