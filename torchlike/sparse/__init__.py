"""Functions of sparse tensors."""

from torchlike.interop.alias import missing_names
from torchlike.sparse._functions import addmm as addmm
from torchlike.sparse._functions import log_softmax as log_softmax
from torchlike.sparse._functions import mm as mm
from torchlike.sparse._functions import sampled_addmm as sampled_addmm
from torchlike.sparse._functions import softmax as softmax
from torchlike.sparse._functions import spdiags as spdiags
from torchlike.sparse._functions import spsolve as spsolve
from torchlike.sparse._functions import sum as sum
from torchlike.sparse._invariants import check_sparse_tensor_invariants as check_sparse_tensor_invariants
from torchlike.sparse._typed import TYPED

globals().update(TYPED)
__all__ = [
    "addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "spsolve",
    "sum", *TYPED,
]  # fmt: skip

__getattr__ = missing_names(__name__)
