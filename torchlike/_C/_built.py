"""What a build of PyTorch holds, asked of what computes here."""

import torchlike.backends.cuda as cuda
from torchlike._formerly import has_lapack as has_lapack
from torchlike._formerly import has_mkl as has_mkl
from torchlike._formerly import has_openmp as has_openmp
from torchlike._formerly import has_spectral as has_spectral

# Libraries that XLA does not call, and devices that jax does not compute on.
_has_cudnn = _has_cusparselt = _has_eigen_sparse = _has_kleidiai = _has_magma = False
_has_mkldnn = _has_mkldnn_acl = _has_mps = _has_xpu = False


def __getattr__(name: str) -> bool:
    if name == "_has_cuda":  # asks jax, which takes its devices then
        return cuda.is_built()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
