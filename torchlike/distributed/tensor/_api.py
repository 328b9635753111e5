"""torch.distributed.tensor._api: DTensor and what makes it, under an inner name that programs import."""

from torchlike.distributed.tensor._dtensor import DTensor as DTensor
from torchlike.distributed.tensor._dtensor import distribute_tensor as distribute_tensor
from torchlike.distributed.tensor._factories import empty as empty
from torchlike.distributed.tensor._factories import full as full
from torchlike.distributed.tensor._factories import ones as ones
from torchlike.distributed.tensor._factories import rand as rand
from torchlike.distributed.tensor._factories import randn as randn
from torchlike.distributed.tensor._factories import zeros as zeros
from torchlike.distributed.tensor._modules import distribute_module as distribute_module
