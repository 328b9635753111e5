"""Linear algebra: ``torch.linalg``."""

from torchlike._functions import linalg as _functions
from torchlike._ops._square import _LinAlgError as LinAlgError
from torchlike._functions.linalg import cond as cond
from torchlike._functions.linalg import diagonal as diagonal
from torchlike._functions.linalg import lstsq as lstsq
from torchlike._functions.linalg import matrix_norm as matrix_norm
from torchlike._functions.linalg import matrix_rank as matrix_rank
from torchlike._functions.linalg import norm as norm
from torchlike._functions.linalg import pinv as pinv
from torchlike._functions.linalg import tensorinv as tensorinv
from torchlike._functions.linalg import tensorsolve as tensorsolve

_one = _functions.linalg
cholesky, cholesky_ex, cross, det, eig, eigh = (
    _one.cholesky,
    _one.cholesky_ex,
    _one.cross,
    _one.det,
    _one.eig,
    _one.eigh,
)
eigvals, eigvalsh, householder_product = _one.eigvals, _one.eigvalsh, _one.householder_product
inv, inv_ex, lu, lu_factor, lu_factor_ex = _one.inv, _one.inv_ex, _one.lu, _one.lu_factor, _one.lu_factor_ex
lu_solve, matrix_exp, matrix_power, multi_dot, qr = (
    _one.lu_solve,
    _one.matrix_exp,
    _one.matrix_power,
    _one.multi_dot,
    _one.qr,
)
slogdet, solve, solve_ex, solve_triangular = _one.slogdet, _one.solve, _one.solve_ex, _one.solve_triangular
svd, svdvals, vander, vecdot, vector_norm = _one.svd, _one.svdvals, _one.vander, _one.vecdot, _one.vector_norm
matmul = _functions.FUNCTIONS["matmul"]
