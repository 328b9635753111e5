"""Batch normalisation layers."""

import importlib
import sys
from typing import Any

from torchlike._base.dtypes import bfloat16, float16, float64, int64
from torchlike._base.state import no_grad
from torchlike._core.conversion.factories import empty, ones, tensor, zeros
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn import functional as F
from torchlike.nn.modules._start import scale_and_shift
from torchlike.nn.modules.lazy import LazyModuleMixin
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
    "SyncBatchNorm",
]  # fmt: skip


class _NormBase(Module):
    """What batch and instance normalisation share: parameters and running statistics."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device=None, dtype=None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            new = Parameter(empty(num_features, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, new)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype) if tracked else None)
        count = tensor(0, dtype=int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the variance to 1 and the count of batches to 0."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set the running statistics to their start, the weight to 1 and the bias to 0."""
        self.reset_running_stats()
        if self.affine:
            scale_and_shift(self.weight, self.bias)

    def _check_input_dim(self, input):
        raise NotImplementedError(f"{type(self).__name__} does not say which inputs it takes")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            # checkpoints of version 1 did not count batches
            own = self.num_batches_tracked
            state_dict[key] = own if own is not None and not own.is_meta else tensor(0, dtype=int64)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                count = self.num_batches_tracked  # stays on the device: the average of all batches
                wide = self.running_mean is not None and self.running_mean.dtype is float64
                momentum = 1.0 / (count.double() if wide else count)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input, self.running_mean if keep else None, self.running_var if keep else None, self.weight,
            self.bias, by_batch, momentum, self.eps,
        )  # fmt: skip


def _expect(input, *ranks):
    if input.dim() not in ranks:
        wanted = " or ".join(f"{n}D" for n in ranks)
        raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """Normalizes every channel of [N, C] or [N, C, L] over the batch and the positions.

    Args:
        momentum: how far the running statistics move to each batch's; None for the average of all batches.
        affine: whether there is a learned ``weight`` and ``bias``.
        track_running_stats: whether there are ``running_mean`` and ``running_var``, which evaluation
            mode uses.

    Raises:
        ValueError: an input of another rank, or training on one value per channel.

    >>> import torchlike as torch
    >>> m = torch.nn.BatchNorm1d(3)
    >>> m(torch.ones(5, 3)).shape, m.num_batches_tracked.item()
    (torch.Size([5, 3]), 1)
    """

    def _check_input_dim(self, input):
        _expect(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalizes every channel of [N, C, H, W]; see :class:`BatchNorm1d`.

    >>> import torchlike as torch
    >>> torch.nn.BatchNorm2d(3)(torch.ones(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    def _check_input_dim(self, input):
        _expect(input, 4)


class BatchNorm3d(_BatchNorm):
    """Normalizes every channel of [N, C, D, H, W]; see :class:`BatchNorm1d`.

    >>> import torchlike as torch
    >>> torch.nn.BatchNorm3d(3)(torch.ones(2, 3, 2, 2, 2)).shape
    torch.Size([2, 3, 2, 2, 2])
    """

    def _check_input_dim(self, input):
        _expect(input, 5)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes of a group, by default all of ``torch.distributed``.

    In training with several processes mean and variance are those of all batches, two collectives forward and two in
    backward; the gradients of weight and bias are this process's, which ``DistributedDataParallel`` averages.

    >>> import torchlike as torch
    >>> net = torch.nn.Sequential(torch.nn.BatchNorm2d(3))
    >>> torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)[0]
    SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group=None, device=None, dtype=None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """``input`` normalised, [N, C, *], with the statistics of all processes where it is trained by several."""
        batch = self.training or self.running_mean is None
        if not (batch and _processes(self.process_group) > 1):
            return super().forward(input)
        self._check_input_dim(input)
        return self._over_processes(input)

    def _over_processes(self, input: Tensor) -> Tensor:
        x = input.float() if input.dtype in (float16, bfloat16) else input
        kept = [d for d in range(input.dim()) if d != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        own = F.pad(x.sum(kept), [0, 1], value=float(input.numel() // input.shape[1]))  # and of how many numbers
        whole = _summed(own, self.process_group)
        count = whole[-1].detach()
        mean = whole[:-1] / count
        away = x - mean.view(shape)
        var = _summed((away * away).sum(kept), self.process_group) / count
        self._note(mean.detach(), var.detach() * (count / (count - 1)))
        y = away * (var + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            y = y * self.weight.view(shape)
        if self.bias is not None:
            y = y + self.bias.view(shape)
        return y.to(input.dtype)

    def _note(self, mean: Tensor, var: Tensor) -> None:
        """Let the running statistics follow."""
        if not (self.training and self.track_running_stats and self.running_mean is not None):
            return
        with no_grad():
            self.num_batches_tracked.add_(1)
            follow = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), follow)
            self.running_var.lerp_(var.to(self.running_var.dtype), follow)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group=None) -> Module:
        """``module`` with every BatchNorm layer in it replaced by a SyncBatchNorm with its parameters."""
        new = module
        if isinstance(module, _BatchNorm):
            new = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group,
            )  # fmt: skip
            if module.affine:
                new.weight, new.bias = module.weight, module.bias
            new.running_mean, new.running_var = module.running_mean, module.running_var
            new.num_batches_tracked = module.num_batches_tracked
            new.training = module.training
        for name, child in module.named_children():
            new.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return new


def _processes(group: Any) -> int:
    """How many processes ``group`` has. torch.distributed is large: before it is imported there is one."""
    if "torchlike.distributed" not in sys.modules:
        return 1
    distributed = importlib.import_module("torchlike.distributed")
    return distributed.get_world_size(group) if distributed.is_initialized() else 1


def _summed(own: Tensor, group: Any) -> Tensor:
    """The sum over processes. Its gradient is the sum of those of all, which the hook makes of this one's."""
    all_reduce = importlib.import_module("torchlike.distributed").all_reduce
    whole = own.detach().clone()
    all_reduce(whole, group=group)
    if not own.requires_grad:
        return whole

    def everybodys(grad: Tensor) -> Tensor:
        grad = grad.detach().clone()
        all_reduce(grad, group=group)
        return grad

    own.register_hook(everybodys)
    return own + (whole - own.detach())


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """What lazy normalisations share: the channels are those of the first input."""

    def __init__(
        self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *, bias=True
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype)  # without tensors
        self.affine = affine
        self.track_running_stats = track_running_stats
        kind = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**kind)
            if bias:
                self.bias = UninitializedParameter(**kind)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**kind)
            self.running_var = UninitializedBuffer(**kind)
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def reset_parameters(self) -> None:
        """Set parameters and statistics to their start, if they have shapes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Take the sizes from ``input``."""
        if not self.has_uninitialized_params():
            return  # there are none, or they were loaded
        self.num_features = input.shape[1]
        for unset in (self.weight, self.bias, self.running_mean, self.running_var):
            if unset is not None:
                unset.materialize((self.num_features,))  # type: ignore[attr-defined]
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A :class:`BatchNorm1d` whose ``num_features`` is the second dimension of the first input."""

    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A :class:`BatchNorm2d` whose ``num_features`` is the second dimension of the first input."""

    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A :class:`BatchNorm3d` whose ``num_features`` is the second dimension of the first input."""

    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim
