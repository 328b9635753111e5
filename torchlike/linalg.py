"""Linear algebra: ``torch.linalg``."""

from torchlike._core.overrides.torch_function import publish as _publish
from torchlike._functions._install import FUNCTIONS as _FUNCTIONS
from torchlike._functions.linalg import cond as cond
from torchlike._functions.linalg import diagonal as diagonal
from torchlike._functions.linalg import linalg as _operators
from torchlike._functions.linalg import lstsq as lstsq
from torchlike._functions.linalg import matrix_norm as matrix_norm
from torchlike._functions.linalg import matrix_rank as matrix_rank
from torchlike._functions.linalg import norm as norm
from torchlike._functions.linalg import pinv as pinv
from torchlike._functions.linalg import tensorinv as tensorinv
from torchlike._functions.linalg import tensorsolve as tensorsolve
from torchlike._ops._square import _LinAlgError as LinAlgError
from torchlike.interop.alias import missing_names

# The functions that are one operator each: cholesky, det, eigh, inv, qr, solve, svd and their like.
globals().update({name: f for name, f in vars(_operators).items() if name not in globals()})
matmul = _FUNCTIONS["matmul"]
globals().update(_publish("torch.linalg", {n: f for n, f in globals().items() if n != "missing_names"}))

__all__ = [
    "LinAlgError", "cond", "diagonal", "lstsq", "matmul", "matrix_norm", "matrix_rank", "norm", "pinv",
    "tensorinv", "tensorsolve", *vars(_operators),
]  # fmt: skip

__getattr__ = missing_names(__name__)
