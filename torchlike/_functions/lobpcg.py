"""``torch.lobpcg``: some eigenpairs of symmetric matrices."""

import math

from torchlike._base.state import state
from torchlike._core.tensor.tensor import strided
from torchlike._functions._install import function
from torchlike._functions.linalg import linalg
from torchlike._functions.random import randn


@function("lobpcg")
def lobpcg(
    A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None, tracker=None,
    ortho_iparams=None, ortho_fparams=None, ortho_bparams=None,
):  # fmt: skip
    """(E, X): the ``k`` largest eigenvalues of symmetric ``A`` [..., m, m], or the smallest, and their eigenvectors.

    With ``B``, positive definite, those of ``A @ x = e * B @ x``; the columns of X are orthonormal, in the product with
    B. Computed directly, not by iteration: ``X`` and ``n`` tell how many there are where ``k`` does not, while ``iK``,
    ``niter``, ``tol`` and the parameters of orthogonalisation change nothing. k is at most m / 3. Sparse matrices are
    made dense.

    Raises:
        ValueError: fewer than 3 * k rows; gradients of a sparse matrix are recorded. RuntimeError: not float32 or
            float64. NotImplementedError: a ``tracker``, which would be called after each iteration.

    >>> import torchlike as torch
    >>> torch.lobpcg(torch.diag(torch.tensor([1., 5., 3.])))[0]
    tensor([5.])
    """
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise AssertionError(f"A must be square, got shape {tuple(A.shape)}")
    if not A.dtype.is_floating_point:
        raise RuntimeError(f"lobpcg(): expected a real floating point matrix, but got {A.dtype}")
    if tracker is not None:
        raise NotImplementedError("lobpcg(tracker=...) is not supported: eigenpairs are computed without iteration")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg(): method is 'basic' or 'ortho', not {method!r}")
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    if m < 3 * max(k, n or 0) or k < 1:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of "
            f"requested eigenpairs (={max(k, n or 0)})"
        )
    for _ in range(math.prod(A.shape[:-2]) if X is None else 0):  # what PyTorch starts from; later draws are its too
        randn((m, k if n is None else n), dtype=A.dtype, device=A.device)
    A, B = _dense(A), None if B is None else _dense(B)
    A = (A + A.mT) / 2  # eigh reads one triangle, but the gradient is to be that of a function of both
    values, vectors = linalg.eigh(A) if B is None else _generalized(A, (B + B.mT) / 2)
    if not (largest is None or largest):
        return values[..., :k], vectors[..., :k]
    return values[..., -k:].flip(-1), vectors[..., -k:].flip(-1)


def _dense(matrix):
    if matrix.layout is strided:
        return matrix
    if state.grad and matrix.requires_grad:
        raise ValueError("lobpcg.backward does not support sparse input: pass matrix.to_dense(), or matrix.detach()")
    return matrix.to_dense()


def _generalized(A, B):
    """As eigh, of ``A x = e B x``: those of ``L^-1 A L^-T`` with the Cholesky factor L of B."""
    low = linalg.cholesky(B)
    half = linalg.solve_triangular(low, A, upper=False)
    values, vectors = linalg.eigh(linalg.solve_triangular(low, half.mT, upper=False))
    return values, linalg.solve_triangular(low.mT, vectors, upper=True)
