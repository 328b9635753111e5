"""torch.distributions.utils: helpers of distributions, which other libraries use too."""

from functools import update_wrapper
from numbers import Number
from typing import Any

from torchlike._base.state import enable_grad, state
from torchlike._core.autograd.composed import composed, unseen
from torchlike.distributions._torch import F, torch
from torchlike.interop.alias import missing_names
from torchlike.overrides import is_tensor_like

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip

__getattr__ = missing_names(__name__)

euler_constant = 0.57721566490153286060  # noqa: RUF100


def broadcast_all(*values: Any) -> tuple:
    """Numbers and tensors as tensors of one shape; numbers get the dtype and device of the first tensor.

    Raises:
        ValueError: a value is neither. RuntimeError: shapes that do not fit.

    >>> import torchlike as torch
    >>> torch.distributions.utils.broadcast_all(torch.zeros(2), 1.0)[1]
    tensor([1., 1.])
    """
    if not all(is_tensor_like(v) or isinstance(v, Number) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    if not all(is_tensor_like(v) for v in values):
        options: dict[str, Any] = {"dtype": torch.get_default_dtype()}
        for value in values:
            if isinstance(value, torch.Tensor):
                options = {"dtype": value.dtype, "device": value.device}
                break
        values = tuple(v if is_tensor_like(v) else torch.tensor(v, **options) for v in values)
    if all(v.shape == values[0].shape for v in values):
        return tuple(values)
    return tuple(torch.broadcast_tensors(*values))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    return torch.randn(shape, dtype=dtype, device=device)


def expanded(t: Any, shape: Any) -> Any:
    """``t.expand(shape)``; a tensor of that shape itself where nobody sees the difference."""
    same = unseen(t) and t.shape == shape and not (t._rg and state.grad)
    return t if same else t.expand(shape)


@composed("SumBackward1")
def _sum_last(value: Any) -> Any:
    return value.reshape(value.shape[:-1] + (-1,)).sum(-1)


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last ``dim`` dimensions."""
    if dim == 1:
        return _sum_last(value)
    return value if dim == 0 else value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities of log-odds, or of unnormalised log-probabilities in the last dimension."""
    return torch.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities away from 0 and 1, so that their logarithms are finite."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Log-odds of probabilities, or log-probabilities; finite also at 0 and 1."""
    kept = clamp_probs(probs)
    return torch.log(kept) - torch.log1p(-kept) if is_binary else torch.log(kept)


class lazy_property:  # noqa: N801
    """A method whose result, computed at the first look, is the attribute from then on."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):  # noqa: N801
    """What a class shows of a lazy property: a property, for those who read documentation."""

    def __init__(self, wrapped: Any) -> None:
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The entries of the lower triangle, up to diagonal ``diag``, of matrices [..., n, n], row by row.

    Raises ValueError for a diagonal outside [-n, n).
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = torch.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Matrices [..., n, n] whose lower triangle, up to diagonal ``diag``, has the entries ``vec``, row by row.

    Raises ValueError for a number of entries that no triangle has.
    """
    size = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * size + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > torch.finfo(vec.dtype).eps or n - round(n) > torch.finfo(vec.dtype).eps:
        raise ValueError(f"The size of last dimension is {size} which cannot be expressed as the lower triangular "
                         "part of a square D x D matrix.")  # fmt: skip
    n = round(n)
    rows, columns = torch.tril_indices(n, n, diag, device=vec.device)
    matrix = torch.zeros(vec.shape[:-1] + (n, n), dtype=vec.dtype, device=vec.device)
    matrix[..., rows, columns] = vec
    return matrix
