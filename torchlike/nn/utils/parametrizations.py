"""Parametrizations that are often used: weight and spectral normalisation, orthogonal matrices."""

from enum import Enum, auto
from typing import Any

from torchlike._base.dims import wrap_dim
from torchlike._base.dtypes import finfo
from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS
from torchlike._functions.linalg import linalg
from torchlike._functions.weight_norm import _weight_norm, norm_except_dim
from torchlike.nn import functional as F
from torchlike.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from torchlike.nn.modules.module import Module
from torchlike.nn.utils import parametrize as parametrize
from torchlike.nn.utils.parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

cat, eye, geqrf, where = (FUNCTIONS[name] for name in ("cat", "eye", "geqrf", "where"))


def _tensor_of(module: Module, name: str) -> Tensor:
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return found


# -- weight normalisation --------------------------------------------------------------------------


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return _weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Make ``module.name`` a length times a direction, each a parameter.

    Args:
        dim: the dimension over which lengths are independent; None for one length in all.

    ``parametrizations.<name>.original0`` holds the lengths, ``original1`` the directions. State that the
    older ``torch.nn.utils.weight_norm`` saved can be loaded.

    Raises:
        ValueError: there is no such tensor.

    >>> import torchlike as torch
    >>> m = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(20, 40))
    >>> m.parametrizations.weight.original0.shape, m.parametrizations.weight.original1.shape
    (torch.Size([40, 1]), torch.Size([40, 20]))
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, *others):
        length, direction = f"{prefix}{name}_g", f"{prefix}{name}_v"
        if length in state_dict and direction in state_dict:
            stored = f"{prefix}parametrizations.{name}.original"
            state_dict[stored + "0"] = state_dict.pop(length)
            state_dict[stored + "1"] = state_dict.pop(direction)

    module._register_load_state_dict_pre_hook(rename)
    return module


# -- spectral normalisation ------------------------------------------------------------------------


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = wrap_dim(dim, weight.ndim)
        self.eps = eps
        if weight.ndim == 1:
            return
        self.n_power_iterations = n_power_iterations
        matrix = self._reshape_weight_to_matrix(weight)
        for vector, size in zip(("_u", "_v"), matrix.shape, strict=True):
            drawn = matrix.detach().new_empty(size).normal_(0, 1)
            self.register_buffer(vector, F.normalize(drawn, dim=0, eps=eps))
        self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    @no_grad()
    def _power_method(self, weight_mat: Tensor, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):  # a transform lets a function write what is not recorded by out= alone
            F.normalize(weight_mat.mv(self._v), dim=0, eps=self.eps, out=self._u)
            F.normalize(weight_mat.mH.mv(self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # copies, since the next forward writes into what backward is going to read
        u, v = self._u.clone(), self._v.clone()
        return weight / u.vdot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value  # the largest singular value is not known: what is assigned is normalized when it is read


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide ``module.name`` by its largest singular value, which power iterations estimate.

    Args:
        n_power_iterations: how many each read in training mode makes; evaluation mode makes none.
        eps: least length of a vector that is normalized.
        dim: the dimension of the outputs, the rows of the matrix; 1 for transposed convolutions, else 0.

    Raises:
        ValueError: there is no such tensor, or ``n_power_iterations`` is not positive.

    >>> import torchlike as torch
    >>> m = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(20, 40))
    >>> list(m.state_dict())[2:]
    ['parametrizations.weight.0._u', 'parametrizations.weight.0._v']
    """
    weight = _tensor_of(module, name)
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module


# -- orthogonal matrices ---------------------------------------------------------------------------


def _is_orthogonal(Q: Tensor, eps: float | None = None) -> bool:
    n, k = Q.size(-2), Q.size(-1)
    eps = 10.0 * n * finfo(Q.dtype).eps if eps is None else eps
    unit = eye(k, dtype=Q.dtype, device=Q.device)
    return bool(((Q.mH @ Q - unit).abs() <= eps + 1e-5 * unit.abs()).all())


def _make_orthogonal(A: Tensor) -> Tensor:
    """The Q of ``A = Q R`` where R has a diagonal that is not negative."""
    X, tau = geqrf(A)
    Q = linalg.householder_product(X, tau)
    return Q * X.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.size(-2) < X.size(-1)
        X = X.mT if wide else X
        if self.orthogonal_map == _OrthMaps.householder:
            A = X.tril(-1)
            tau = 2.0 / (1.0 + (A * A).sum(-2))
            Q = linalg.householder_product(A, tau) * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            Q = self._of_skew(X.tril())
        base = self._buffers.get("base")
        Q = Q if base is None else base @ Q
        return Q.mT if wide else Q

    def _of_skew(self, X: Tensor) -> Tensor:
        """The first columns of the rotation that the lower triangle ``X`` gives."""
        n, k = X.size(-2), X.size(-1)
        if n != k:
            X = cat([X, X.new_zeros((*X.shape[:-2], n, n - k))], dim=-1)
        A = X - X.mH
        if self.orthogonal_map == _OrthMaps.matrix_exp:
            Q = linalg.matrix_exp(A)
        else:
            unit = eye(n, dtype=A.dtype, device=A.device)
            Q = linalg.solve(unit.sub(A, alpha=0.5), unit.add(A, alpha=0.5))
        return Q[..., :k] if n != k else Q

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        given, wide = Q, Q.size(-2) < Q.size(-1)
        Q = Q.mT if wide else Q
        if "base" in self._buffers:
            self.base = self._completed(Q)
            negative = given.new_zeros(given.shape)
            negative.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return negative
        if self.orthogonal_map != _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        A, tau = geqrf(Q)
        signs = A.diagonal(dim1=-2, dim2=-1)
        # a reflection of scale 0 is the identity; forward takes the vector 0 for one that turns the sign
        signs.copy_(where(tau == 0, -signs.sign(), signs.sign()))
        return A.mT if wide else A

    def _completed(self, Q: Tensor) -> Tensor:
        """A square orthogonal matrix whose first columns are those of ``Q``, or as near as they can be."""
        n, k = Q.size(-2), Q.size(-1)
        if n != k:
            drawn = Q.new_empty((*Q.shape[:-2], n, n - k)).normal_()
            return _make_orthogonal(cat([Q, drawn], dim=-1))
        return Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Make ``module.name`` a matrix (or a batch of them) with orthonormal columns, or rows if it is wide.

    Args:
        orthogonal_map: "matrix_exp", "cayley" or "householder" (real matrices only). By default the
            first for square or complex matrices, else the last.
        use_trivialization: keep a ``base`` which the map is applied to, so that values may be assigned.

    Raises:
        ValueError: no such tensor, no matrix, or another map.

    >>> import torchlike as torch
    >>> m = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 5))
    >>> torch.allclose(m.weight.T @ m.weight, torch.eye(3), atol=1e-5)
    True
    """
    weight: Any = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    chosen = _OrthMaps.__members__.get(orthogonal_map)
    if chosen is None:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    map_ = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    register_parametrization(module, name, map_, unsafe=True)
    return module
