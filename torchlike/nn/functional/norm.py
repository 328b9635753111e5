"""Normalisation."""

import math

import numpy as np

from torchlike._base.state import UNUSUAL, no_grad, state
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import KIND, as_float, bools
from torchlike._core.tensor.statistics import move_statistic
from torchlike._core.tensor.storage import CAPTURES
from torchlike._executor.pending import Array
from torchlike._functions._install import function
from torchlike._ops import distance
from torchlike._ops import norm as ops
from torchlike.nn.functional._replaced import PUBLIC, REPLACED

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
]


def _normalized_by_itself(input, weight, bias, running_mean, running_var, momentum, eps, instances):
    inputs = (input, weight, bias, running_mean, running_var, momentum, eps)
    try:
        out, _, _, *moments = call(ops.batch_norm_training, inputs, (instances,))
    except BaseException:  # a hook of saved tensors may have ended the call, as a checkpoint's second run does
        if state.pack is not None and state.grad and not instances and not state.dispatch_modes:
            with no_grad():
                _, _, _, *moments = call(ops.batch_norm_training, inputs, (instances,))
            _move_statistics(running_mean, running_var, moments, instances)
        raise
    _move_statistics(running_mean, running_var, moments, instances)
    return out


def _move_statistics(running_mean, running_var, moments, instances):
    for running, moment in zip((running_mean, running_var), moments, strict=True):
        move_statistic(running, moment, not instances)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05):
    """Normalize every channel of [N, C, ...] over the batch and the positions.

    Args:
        running_mean, running_var: [C], used if not ``training``, else moved by ``momentum`` towards the
            batch's statistics (the variance unbiased); None for none.
        weight, bias: [C], applied to the normalized values.

    Raises:
        ValueError: training on one value per channel, or with an ``eps`` that is not positive.

    >>> import torchlike as torch
    >>> x = torch.tensor([[1.0], [3.0]])
    >>> torch.nn.functional.batch_norm(x, None, None, training=True).round()
    tensor([[-1.],
            [ 1.]])
    """
    if training:
        _demand_several(input)
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


def _demand_several(input):
    shape = input.shape
    if shape[0] == 1 and math.prod(shape[2:]) == 1 or math.prod(shape[2:]) * shape[0] == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {shape}")


@function("batch_norm")
def _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=False):
    """See :func:`torch.nn.functional.batch_norm`."""
    bools("batch_norm", training=training)
    momentum = as_float("batch_norm", "momentum", momentum)
    if training:
        return _normalized_by_itself(input, weight, bias, running_mean, running_var, momentum, eps, False)
    for name, statistic in (("running_mean", running_mean), ("running_var", running_var)):
        if statistic is None:
            raise RuntimeError(f"{name} must be defined in evaluation mode")
    return call(ops.batch_norm_eval, (input, weight, bias, running_mean, running_var, eps), ())


def instance_norm(
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-05,
):
    """Normalize every channel of every element of [N, C, ...] over the positions.

    Arguments as in :func:`batch_norm`; the running statistics move towards the mean over the batch.

    >>> import torchlike as torch
    >>> torch.nn.functional.instance_norm(torch.tensor([[[1.0, 3.0]]]), eps=0.0)
    tensor([[[-1.,  1.]]])
    """
    bools("instance_norm", use_input_stats=use_input_stats)
    if use_input_stats:
        if math.prod(input.shape[2:]) == 1:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    return _instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)


@function("instance_norm")
def _instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=False):
    """See :func:`torch.nn.functional.instance_norm`."""
    if use_input_stats:
        return _normalized_by_itself(input, weight, bias, running_mean, running_var, momentum, eps, True)
    if running_mean is None or running_var is None:
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    return call(ops.batch_norm_eval, (input.contiguous(), weight, bias, running_mean, running_var, eps), ())


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    """Normalize over the last dimensions, whose sizes are ``normalized_shape``.

    Args:
        weight, bias: of that shape, applied to the normalized values.

    >>> import torchlike as torch
    >>> torch.nn.functional.layer_norm(torch.tensor([1.0, 3.0]), (2,), eps=0.0)
    tensor([-1.,  1.])
    """
    if normalized_shape.__class__ is not tuple or any([n.__class__ is not int for n in normalized_shape]):
        normalized_shape = arguments.as_ints("layer_norm", "normalized_shape", normalized_shape)
    return call(ops.layer_norm, (input, weight, bias, eps), (normalized_shape,))[0]


@function("layer_norm")
def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True):
    """See :func:`torch.nn.functional.layer_norm`."""
    return layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05):
    """Normalize [N, C, ...] over ``num_groups`` groups of channels and the positions.

    >>> import torchlike as torch
    >>> torch.nn.functional.group_norm(torch.tensor([[1.0, 3.0, 5.0, 5.0]] * 2), 2, eps=0.1)[0].tolist()[2:]
    [0.0, 0.0]
    """
    shape = input.shape
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    if math.prod(shape[2:]) * (shape[0] * shape[1] // num_groups) == 1:
        size = [shape[0] * shape[1] // num_groups, num_groups, *shape[2:]]
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")
    return _group_norm(input, num_groups, weight, bias, eps)


@function("group_norm")
def _group_norm(input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=True):
    """See :func:`torch.nn.functional.group_norm`."""
    num_groups = arguments.as_int("group_norm", "num_groups", num_groups)
    return call(ops.group_norm, (input, weight, bias, eps), (num_groups,))[0]


@function()
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """The input over its root mean square in the last dimensions, times ``weight``.

    ``eps`` is added to the mean square (default: the machine epsilon of the computation).

    >>> import torchlike as torch
    >>> torch.nn.functional.rms_norm(torch.tensor([3.0, 3.0]), (2,), eps=0.0)
    tensor([1., 1.])
    """
    if normalized_shape.__class__ is not tuple or any([n.__class__ is not int for n in normalized_shape]):
        normalized_shape = arguments.as_ints("rms_norm", "normalized_shape", normalized_shape)
    return call(ops.rms_norm, (input, weight, eps), (normalized_shape,))[0]


def local_response_norm(input, size, alpha=0.0001, beta=0.75, k=1.0):
    """Divide by a power of the mean square of ``size`` neighbouring channels of [N, C, ...].

    ``input / (k + alpha * mean) ** beta`` (Krizhevsky et al. 2012, with a mean for the sum).

    >>> import torchlike as torch
    >>> torch.nn.functional.local_response_norm(torch.ones(1, 1, 1), 1, alpha=3.0, beta=1.0)
    tensor([[[0.2500]]])
    """
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if not input.numel():
        return input
    size = arguments.as_int("local_response_norm", "size", size)
    if size <= 0:
        raise RuntimeError(f"local_response_norm(): kernel size should be greater than zero, but got size={size}")
    if REPLACED and not REPLACED.isdisjoint(("pad", "avg_pool2d", "avg_pool3d")):
        return input / _means_by_functions(input, size).mul(alpha).add(k).pow(beta)
    return call(ops.local_response_norm, (input, alpha, beta, k), (size,))


def _means_by_functions(input, size):
    """Mean squares of neighbouring channels, by what a program has put into ``torch.nn.functional``."""
    squares = input.mul(input).unsqueeze(1)
    n = 2 if input.dim() == 3 else 3
    if n == 3:
        squares = squares.view(input.shape[0], 1, input.shape[1], input.shape[2], -1)
    padded = PUBLIC["pad"](squares, (0, 0) * (n - 1) + (size // 2, (size - 1) // 2))
    return PUBLIC[f"avg_pool{n}d"](padded, (size,) + (1,) * (n - 1), stride=1).squeeze(1).view(input.shape)


def _fits_one_kernel(input, dim, eps):
    """Whether nobody sees the calls of which normalize is made, and one kernel has the same numbers and strides."""
    if UNUSUAL or CAPTURES or KIND.get(input.__class__) != 1 or dim.__class__ is not int or eps.__class__ is not float:
        return False
    form = input._storage.form
    if form.__class__ is not Array or form.dtype not in _PRECISE or not -input.ndim <= dim < input.ndim:
        return False
    return input._view is None or (input._view.dtype is None and input.is_contiguous())


_PRECISE = (np.float32, np.float64)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """The input over the larger of its p-norm along ``dim`` and ``eps``.

    >>> import torchlike as torch
    >>> torch.nn.functional.normalize(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    if out is None and p == 2 and _fits_one_kernel(input, dim, eps):
        return call(distance.normalize, (input, eps), (dim,))
    scale = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / scale if out is None else FUNCTIONS["div"](input, scale, out=out)
