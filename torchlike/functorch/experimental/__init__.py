"""What ``functorch.experimental`` still has."""

from torchlike._functorch.apis import chunk_vmap as chunk_vmap
from torchlike.func import functionalize as functionalize
from torchlike.func import hessian as hessian
from torchlike.func import jacfwd as jacfwd
from torchlike.func import jvp as jvp
from torchlike.func._batch_norm import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
