"""Instance normalisation layers."""

import warnings

from torchlike._core.tensor.tensor import Tensor
from torchlike.nn import functional as F
from torchlike.nn.modules.batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]  # fmt: skip


class _InstanceNorm(_NormBase):
    _dims: int  # dimensions of the positions

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device=None, dtype=None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input):
        low, high = self._dims + 1, self._dims + 2
        if input.dim() not in (low, high):
            raise ValueError(f"expected {low}D or {high}D input (got {input.dim()}D input)")

    def _normalized(self, input):
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0, self.eps,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channels = input.dim() - self._dims - 1
        if input.size(channels) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channels} to match num_features ({self.num_features}), "
                    f"but got: {input.size(channels)}."
                )
            warnings.warn(
                f"input's size at dim={channels} does not match num_features. You can silence this warning "
                "by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        if channels == 0:
            return self._normalized(input.unsqueeze(0)).squeeze(0)
        return self._normalized(input)


class InstanceNorm1d(_InstanceNorm):
    """Normalizes every channel of every element of [N, C, L] or [C, L] over the positions.

    Arguments as for :class:`BatchNorm1d`, but without learned parameters and running statistics
    unless asked for.

    >>> import torchlike as torch
    >>> torch.nn.InstanceNorm1d(2)(torch.ones(1, 2, 3)).tolist()
    [[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]
    """

    _dims = 1


class InstanceNorm2d(_InstanceNorm):
    """Normalizes every channel of every element of [N, C, H, W] or [C, H, W]; see :class:`InstanceNorm1d`.

    >>> import torchlike as torch
    >>> torch.nn.InstanceNorm2d(2)(torch.ones(1, 2, 3, 3)).shape
    torch.Size([1, 2, 3, 3])
    """

    _dims = 2


class InstanceNorm3d(_InstanceNorm):
    """Normalizes every channel of every element of [N, C, D, H, W] or [C, D, H, W]; see
    :class:`InstanceNorm1d`.

    >>> import torchlike as torch
    >>> torch.nn.InstanceNorm3d(2)(torch.ones(1, 2, 3, 3, 3)).shape
    torch.Size([1, 2, 3, 3, 3])
    """

    _dims = 3


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An :class:`InstanceNorm1d` whose ``num_features`` is the second dimension of the first input."""

    cls_to_become = InstanceNorm1d
    _dims = 1


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An :class:`InstanceNorm2d` whose ``num_features`` is the second dimension of the first input."""

    cls_to_become = InstanceNorm2d
    _dims = 2


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An :class:`InstanceNorm3d` whose ``num_features`` is the second dimension of the first input."""

    cls_to_become = InstanceNorm3d
    _dims = 3
