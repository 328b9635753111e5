"""Weight normalisation: a tensor as a direction and a length."""

from torchlike._base.dims import wrap_dim
from torchlike._core.dispatch.bind import front
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.op import REGISTRY
from torchlike._functions._install import function
from torchlike._functions.reduce import norm

_fused = front([REGISTRY["_weight_norm_interface"]], "function")


def _tensor(name: str, what: str, position: int, value: object) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}(): argument '{what}' (position {position}) must be Tensor, not {type(value).__name__}")
    return value


@function()
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The ``pow``-norm over all dimensions but ``dim``, which stay with length 1; over all where ``dim`` is -1.

    >>> import torchlike as torch
    >>> torch.norm_except_dim(torch.tensor([[3., 4.], [0., 1.]]))
    tensor([[5.],
            [1.]])
    """
    _tensor("norm_except_dim", "v", 1, v)
    if dim == -1:
        return norm(v, pow)
    if dim == 0:
        return norm(v.contiguous().view(v.size(0), -1), pow, 1).view((v.size(0),) + (1,) * (v.dim() - 1))
    if dim == v.dim() - 1:
        return norm(v.contiguous().view(-1, v.size(-1)), pow, 0).view((1,) * (v.dim() - 1) + (v.size(-1),))
    return norm_except_dim(v.transpose(0, wrap_dim(dim, v.dim())), pow, 0).transpose(0, dim)


@function()
def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """``v`` with its norm over all dimensions but ``dim`` made ``g``."""
    _tensor("_weight_norm", "v", 1, v)
    _tensor("_weight_norm", "g", 2, g)
    v, g = v.contiguous(), g.contiguous()
    if dim in (0, v.dim() - 1):
        return _fused(v, g, dim)[0]
    return v * (g / norm_except_dim(v, 2, dim))
