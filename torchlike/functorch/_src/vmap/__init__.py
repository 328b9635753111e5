"""What programs took from functorch's ``_src.vmap``."""

from torchlike._functorch.vmap import Tensor as Tensor
from torchlike._functorch.vmap import _add_batch_dim as _add_batch_dim
from torchlike._functorch.vmap import _broadcast_to_and_flatten as _broadcast_to_and_flatten
from torchlike._functorch.vmap import _create_batched_inputs as _create_batched_inputs
from torchlike._functorch.vmap import _get_name as _get_name
from torchlike._functorch.vmap import _process_batched_inputs as _process_batched_inputs
from torchlike._functorch.vmap import _remove_batch_dim as _remove_batch_dim
from torchlike._functorch.vmap import _unwrap_batched as _unwrap_batched
from torchlike._functorch.vmap import _validate_and_get_batch_size as _validate_and_get_batch_size
from torchlike._functorch.vmap import tree_flatten as tree_flatten
from torchlike._functorch.vmap import tree_unflatten as tree_unflatten
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
