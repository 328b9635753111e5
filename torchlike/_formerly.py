"""Names of ``torch`` that PyTorch keeps for programs written for its earlier versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from torchlike._base.frames import warn
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS as _F
from torchlike.interop.root_names import FORMERLY as _NAMES

__all__ = list(_NAMES)
has_lapack = has_mkl = has_openmp = has_spectral = True  # what they promise of PyTorch's build, XLA has too


def _removed(name: str, instead: str) -> Callable[..., NoReturn]:
    def removed(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"torch.{name}: This function was deprecated since version 1.9 and is now removed: {instead}"
        )

    removed.__name__ = removed.__qualname__ = name
    removed.__doc__ = f"RuntimeError, as in PyTorch, which removed it: {instead}."
    return removed


eig = _removed("eig", "torch.linalg.eig gives complex eigenvalues and eigenvectors")
lstsq = _removed("lstsq", "torch.linalg.lstsq(A, B).solution takes its arguments the other way round")
matrix_rank = _removed("matrix_rank", "torch.linalg.matrix_rank, where `symmetric` is called `hermitian`")
solve = _removed("solve", "torch.linalg.solve(A, B) takes its arguments the other way round")
symeig = _removed("symeig", "torch.linalg.eigh(A, UPLO='U'), or eigvalsh for the eigenvalues alone")


def dsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The matrix product ``torch.mm``, under its name for a sparse matrix with a dense one.

    >>> import torchlike as torch
    >>> torch.dsmm(torch.eye(2).to_sparse(), torch.ones(2, 1)).tolist()
    [[1.0], [1.0]]
    """
    return _F["mm"](input, mat2)


def is_vulkan_available() -> bool:
    """False: jax does not compute by Vulkan."""
    return False


def set_vital(vital: str, attr: str, value: str) -> None:
    """Accepted with a warning: PyTorch reports vital signs of programs no longer."""
    warn("'set_vital' is deprecated, please do not call")


def set_flush_denormal(mode: bool) -> bool:
    """Whether it is now as ``mode`` says: True for True, since XLA takes denormal numbers for 0 on CPUs in any case.

    TypeError if ``mode`` is no bool.

    >>> import torchlike as torch
    >>> torch.set_flush_denormal(True), torch.set_flush_denormal(False)
    (True, False)
    """
    if not isinstance(mode, bool):
        raise TypeError(f"set_flush_denormal expects a bool, but got {type(mode).__name__}")
    return mode


def to_dlpack(input: Tensor) -> Any:
    """The DLPack capsule of a tensor's value, as ``torch.utils.dlpack.to_dlpack`` makes it."""
    return input.detach().__dlpack__()
