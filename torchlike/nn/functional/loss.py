"""Losses of ``torch.nn.functional``."""

import math

from torchlike._base import dtypes
from torchlike._base.frames import warn
from torchlike._base.state import state
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import as_float, bools
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import function
from torchlike._functions.like import ones_like
from torchlike._ops import cross_entropy as classes
from torchlike._ops import loss as ops
from torchlike.nn._reduction import NUMBERS, legacy_get_string, number_of
from torchlike.nn.functional.misc import linear

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "linear_cross_entropy",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
]


def _reduction(reduction, size_average=None, reduce=None):
    """0, 1 or 2 for ``none``, ``mean``, ``sum``; the two deprecated flags win over the name."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce, stacklevel=5)
    return number_of(reduction, 5)


def _tensors(name, **given):
    for position, (argument, x) in enumerate(given.items(), 1):
        if not isinstance(x, Tensor):
            given_type = type(x).__name__
            raise TypeError(f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {given_type}")


def _subtracted(name, *tensors):
    """Refuse bool tensors, as PyTorch's subtraction does."""
    if any([getattr(x, "dtype", None) is dtypes.bool for x in tensors]):
        raise RuntimeError(
            f"Subtraction, the `-` operator, with a bool tensor is not supported ({name}); convert it to numbers"
        )


def _logits(name, x):
    """Refuse logits that are no floating point numbers."""
    if not x.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{x.dtype.scalar_name}': it takes floating point tensors; convert the "
            "input with .to(dtype)"
        )


def _frozen(function, **given):
    """Refuse arguments that PyTorch has no gradient of and that require one."""
    given = {argument: x for argument, x in given.items() if x is not None}
    _tensors(function, **given)
    for argument, x in given.items():
        if x.requires_grad and state.grad:
            raise RuntimeError(
                f"The function '{function}' is not differentiable with respect to argument '{argument}'. This input "
                "cannot have requires_grad True."
            )


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Minus the input at each target class: [N, C, ...] log probabilities and [N, ...] indices.

    Args:
        weight: a weight for each class; the mean is over the weights. ignore_index: a target that counts for
            nothing.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.

    Raises:
        IndexError: a target outside [0, C). ValueError: batch sizes that differ, an unknown reduction.
        RuntimeError: other shapes that do not match, or a target that is not int64 or uint8.

    >>> import torchlike as torch
    >>> torch.nn.functional.nll_loss(torch.tensor([[-1.0, -2.0]]), torch.tensor([1]))
    tensor(2.)
    """
    _tensors("nll_loss", input=input, target=target)
    _frozen("nll_loss_forward" if input.ndim <= 2 else "nll_loss2d_forward", weight=weight)
    static = (
        _reduction(reduction, size_average, reduce),
        arguments.as_int("nll_loss", "ignore_index", ignore_index),
    )
    return call(classes.nll_loss2d if input.ndim > 2 else classes.nll_loss, (input, target, weight), static)


def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """Cross entropy of logits [N, C, ...] (or [C]) with class indices [N, ...] or probabilities [N, C, ...].

    Args:
        weight: a weight for each class. ignore_index: a target index that counts for nothing.
        label_smoothing: the part of each target that is spread evenly over the classes, in [0, 1].
        reduction: ``'none'``, ``'mean'`` (over the weights of the targets) or ``'sum'``.

    Raises:
        IndexError: a target outside [0, C). ValueError: batch sizes that differ, an unknown reduction.
        RuntimeError: other shapes that do not match, an integer target that is not int64 or uint8,
            ``ignore_index`` with probabilities.

    >>> import torchlike as torch
    >>> torch.nn.functional.cross_entropy(torch.zeros(1, 4), torch.tensor([2]))
    tensor(1.3863)
    """
    _tensors("cross_entropy_loss", input=input, target=target)
    mode = _reduction(reduction, size_average, reduce)
    if label_smoothing > 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    smoothing = max(as_float("cross_entropy", "label_smoothing", label_smoothing), 0.0)
    ignore_index = arguments.as_int("cross_entropy", "ignore_index", ignore_index)
    if input._layout.shape == target._layout.shape:
        return _with_probabilities(input, target, weight, mode, ignore_index, smoothing)
    _frozen("nll_loss_forward" if input.ndim <= 2 else "nll_loss2d_forward", weight=weight)
    if smoothing:
        return call(classes.cross_entropy_smooth, (input, target, weight, smoothing), (mode, ignore_index))
    op = classes.cross_entropy if input.ndim <= 2 else classes.cross_entropy2d
    return call(op, (input, target, weight), (mode, ignore_index))


def _with_probabilities(input, target, weight, mode, ignore_index, smoothing):
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            "Expected floating point type for target with class probabilities, got "
            f"{target.dtype.scalar_name} (input and "
            "target of cross_entropy have the same shape)"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    _logits("log_softmax_lastdim_kernel_impl", input)
    return call(classes.cross_entropy_prob[mode], (input, target, weight, smoothing), ())


def linear_cross_entropy(
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction="mean",
    ignore_index=None,
    label_smoothing=0.0,
    options=None,
):
    """:func:`cross_entropy` of ``input @ linear_weight.T + linear_bias``.

    Args:
        input: [N, D] or [D]. linear_weight: [C, ..., D]; linear_bias: [C, ...]. target: as for cross_entropy.
        options: how PyTorch cuts the computation into chunks; accepted, and left to XLA.

    RuntimeError for shapes that do not fit.
    """
    if input.dim() not in (1, 2):
        raise RuntimeError(f"linear_cross_entropy: expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"linear_cross_entropy: expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    if input.size(-1) != linear_weight.size(-1):
        raise RuntimeError(
            "linear_cross_entropy: expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.size(-1)} and {linear_weight.size(-1)}, respectively"
        )
    outputs = tuple(linear_weight.shape[:-1])
    if len(outputs) > 1 and input.dim() != 2:
        raise RuntimeError(
            "linear_cross_entropy: K-dimensional loss defined by linear_weight shape "
            f"{tuple(linear_weight.shape)} requires "
            f"batched input, (N, {input.size(-1)}), got {tuple(input.shape)}"
        )
    if linear_bias is not None and tuple(linear_bias.shape) != outputs:
        raise RuntimeError(
            f"linear_cross_entropy: expected linear_bias shape {outputs}, got {tuple(linear_bias.shape)}"
        )
    if ignore_index is not None and target.dtype.is_floating_point:
        raise RuntimeError("linear_cross_entropy: ignore_index cannot be specified when target contains probabilities")
    flat = (
        linear_weight if len(outputs) == 1 else linear_weight.reshape(-1, linear_weight.size(-1)),
        linear_bias if linear_bias is None or len(outputs) == 1 else linear_bias.reshape(-1),
    )
    logits = linear(input, *flat).reshape(*input.shape[:-1], *outputs)
    ignore_index = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


# ----- between tensors of one shape -----


def _warn_shapes(input, target):
    if target.size() != input.size():
        warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
            "This will likely "
            "lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        )


def _weighted(losses, weight, input, mode, divide_by_weights=True):
    """The reduction of losses times weights, after the check of the weights' shape."""
    if weight.size() != input.size():
        raise ValueError(
            f"Weights and input must have the same size, got {list(weight.size())} and {list(input.size())}."
        )
    weighted = losses * weight
    if mode == 0:
        return weighted
    if mode == 2:
        return weighted.sum()
    return weighted.sum() / weight.sum() if divide_by_weights else weighted.mean()


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Squared differences. With ``weight`` (of the input's shape) the mean is over the weights.

    Warns where the shapes differ. NotImplementedError for dtypes that are not floating point.

    >>> import torchlike as torch
    >>> torch.nn.functional.mse_loss(torch.zeros(2), torch.tensor([1.0, 3.0]))
    tensor(5.)
    """
    _warn_shapes(input, target)
    mode = _reduction(reduction, size_average, reduce)
    if weight is None:
        return call(ops.mse_loss, (input, target), (mode,))
    return _weighted(call(ops.mse_loss, (input, target), (0,)), weight, input, mode)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Absolute differences; the derivative where they are equal is 0. Arguments as :func:`mse_loss`."""
    _warn_shapes(input, target)
    _subtracted("l1_loss", input, target)
    mode = _reduction(reduction, size_average, reduce)
    if weight is None:
        return call(ops.l1_loss[mode], (input, target), ())
    return _weighted(call(ops.l1_loss[0], (input, target), ()), weight, input, mode)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """``d**2 / (2 beta)`` for differences below ``beta``, else ``|d| - beta / 2``. RuntimeError for a
    negative ``beta``.
    """
    _warn_shapes(input, target)
    mode = _reduction(reduction, size_average, reduce)
    if beta == 0.0:
        return call(ops.l1_loss[mode], (input, target), ())
    if not beta >= 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}.")
    return call(ops.smooth_l1_loss, (input, target, as_float("smooth_l1_loss", "beta", beta)), (mode,))


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """``d**2 / 2`` for differences up to ``delta``, else ``delta * (|d| - delta / 2)``.

    RuntimeError unless ``delta > 0``.
    """
    _warn_shapes(input, target)
    mode = _reduction(reduction)
    if isinstance(delta, complex):
        raise TypeError(f"delta must be a float or int, got: {type(delta)}")
    if not delta > 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}.")
    if weight is None:
        return call(ops.huber_loss, (input, target, as_float("huber_loss", "delta", delta)), (mode,))
    return _weighted(
        call(ops.huber_loss, (input, target, as_float("huber_loss", "delta", delta)), (0,)), weight, input, mode, False
    )


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Cross entropy of probabilities with probabilities; each logarithm is at least -100.

    Raises:
        ValueError: shapes that differ. RuntimeError: dtypes that differ, numbers outside [0, 1].
    """
    mode = _reduction(reduction, size_average, reduce)
    _frozen("binary_cross_entropy", weight=weight)
    if weight is not None and state.dispatch_modes:
        weight = weight.expand(input.shape)
    return call(ops.binary_cross_entropy, (input, target, weight), (mode,))


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """:func:`binary_cross_entropy` of ``sigmoid(input)``, without overflow.

    Args:
        weight: broadcast, times each loss. pos_weight: broadcast, times the part of positive targets.

    The result has the dtype of ``target``. ValueError where the shapes of ``input`` and ``target`` differ,
    RuntimeError for a target of integers.

    >>> import torchlike as torch
    >>> torch.nn.functional.binary_cross_entropy_with_logits(torch.zeros(2), torch.ones(2))
    tensor(0.6931)
    """
    mode = _reduction(reduction, size_average, reduce)
    _same_size(input, target)
    _logits("log_sigmoid_cpu", input)
    return _with_logits(input, target, weight, pos_weight, mode)


def _with_logits(input, target, weight, pos_weight, mode):
    """Within ``torch.func`` the weights have gradients."""
    name, weights = "binary_cross_entropy_with_logits", {"weight": weight, "pos_weight": pos_weight}
    if not state.levels:
        _frozen(name, **weights)
    elif any(w is not None and w.requires_grad for w in weights.values()):
        loss = call(ops.binary_cross_entropy_with_logits, (input, target, None, None), (0,))
        if pos_weight is not None:
            positive = call(ops.binary_cross_entropy_with_logits, (input, ones_like(target), None, None), (0,))
            loss = loss + (pos_weight - 1) * target * positive
        loss = loss if weight is None else loss * weight
        return (lambda: loss, loss.mean, loss.sum)[mode]()
    return call(ops.binary_cross_entropy_with_logits, (input, target, weight, pos_weight), (mode,))


def _same_size(input, target):
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """``target * (log(target) - input)``: the divergence of distributions whose first is given as logarithms.

    Args:
        reduction: also ``'batchmean'``, the sum over the batch size (``'mean'`` divides by all elements, and
            warns).
        log_target: whether ``target`` too is given as logarithms.
    """
    bools("kl_div", log_target=log_target)
    if size_average is None and reduce is None and reduction in ("mean", "batchmean"):
        if reduction == "mean":
            warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support size. "
                "'batchmean' divides "
                "only by the batch size, and aligns with the KL div math definition. 'mean' will be changed "
                "to behave the "
                "same as 'batchmean' in the next major release.",
            )
        mode = 2 if reduction == "batchmean" else 1
    else:
        mode = _reduction(reduction, size_average, reduce)
    _tensors("kl_div", input=input, target=target)
    for x in (input, target):
        if not x.dtype.is_floating_point:
            word = "Complex" if x.dtype.is_complex else "Integral"
            raise RuntimeError(f"kl_div: {word} inputs not supported, got {x.dtype}.")
    found = call((ops.kl_div_log if log_target else ops.kl_div)[mode], (input, target), ())
    return found / input.size(0) if reduction == "batchmean" and input.dim() else found


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """``log(1 + exp(-target * input))`` with targets 1 and -1."""
    mode = _reduction(reduction, size_average, reduce)
    _tensors("soft_margin_loss", input=input, target=target)
    if target.requires_grad:
        raise RuntimeError("soft_margin_loss is not differentiable with respect to 'target'; pass target.detach()")
    return call(ops.soft_margin_loss, (input, target), (mode,))


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                     reduction="mean"):  # fmt: skip
    """Negative log likelihood of Poisson counts, without the constant unless ``full`` (Stirling's
    approximation).

    Args:
        log_input: whether ``input`` is the logarithm of the rate. eps: added to a rate before its logarithm.
    """
    _tensors("poisson_nll_loss", input=input, target=target)
    bools("poisson_nll_loss", log_input=log_input, full=full)
    mode = _reduction(reduction, size_average, reduce)
    if not log_input:
        _subtracted("poisson_nll_loss", input)
    if full:
        _subtracted("poisson_nll_loss", target)
        if target.dtype.is_complex:
            raise NotImplementedError(
                f"\"le_cpu\" not implemented for '{target.dtype.scalar_name}': counts of poisson_nll_loss are real"
            )
    return call(
        ops.poisson_nll_loss[bool(log_input), bool(full)][mode],
        (input, target, as_float("poisson_nll_loss", "eps", eps)),
        (),
    )


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log likelihood of normal samples, without the constant unless ``full``.

    Args:
        var: variances, of the input's shape or with a last dimension of 1 (or without it), or one number;
            at least ``eps`` is used, which gradients ignore.

    Raises:
        ValueError: a negative variance, a shape that does not fit, an unknown reduction.
    """
    if reduction not in NUMBERS:
        raise ValueError(f"{reduction} is not valid for gaussian_nll_loss: use 'none', 'mean' or 'sum'")
    if not isinstance(var, Tensor):
        if not isinstance(var, float):
            raise TypeError(f"gaussian_nll_loss(): argument 'var' must be Tensor or float, not {type(var).__name__}")
        if var < 0:
            raise ValueError(f"var has negative entry/entries: {var}")
        var = input.new_full(input.size(), float(var)) if input.dtype.is_floating_point else input.new_tensor(var)
    _demand_variances(var)
    var = _variances(input, var)
    mode = NUMBERS[reduction]
    _subtracted("gaussian_nll_loss", input, target)
    if not full:
        return call(ops.gaussian_nll_loss[mode], (input, target, var, as_float("gaussian_nll_loss", "eps", eps)), ())
    found = call(
        ops.gaussian_nll_loss[0], (input, target, var, as_float("gaussian_nll_loss", "eps", eps)), ()
    ).add_(0.5 * math.log(2 * math.pi))
    return found.mean() if mode == 1 else found.sum() if mode == 2 else found


def _demand_variances(var):
    if not var.dtype.is_floating_point and not var.dtype.is_complex:
        raise RuntimeError(
            f"gaussian_nll_loss: result type Float can't be cast to the desired output type {var.dtype.scalar_name}, "
            "which is the variances'; convert them with .to(input.dtype)"
        )


def _variances(input, var):
    """``var`` with the dimensions of ``input``, after PyTorch's check of its shape."""
    if var.size() == input.size():
        return var
    if input.size()[:-1] == var.size():
        return var.unsqueeze(-1)
    if input.dim() == var.dim() and sum(b for a, b in zip(input.size(), var.size(), strict=True) if a != b) == 1:
        return var
    raise ValueError(f"var is of incorrect size: {list(var.size())} for an input of size {list(input.size())}")


# -- as torch has them: the reduction is a number ------------------------------------------------------------


def _mode(name, reduction):
    mode = arguments.as_int(name, "reduction", reduction)
    if mode not in NUMBERS.values():
        raise ValueError(f"{name}(): reduction is 0 (none), 1 (mean) or 2 (sum), not {mode}")
    return mode


@function("kl_div")
def _kl_div(input, target, reduction=0, *, log_target=False):
    """:func:`torch.nn.functional.kl_div` by the number of its reduction: 0 none, 1 mean, 2 sum."""
    return call((ops.kl_div_log if log_target else ops.kl_div)[_mode("kl_div", reduction)], (input, target), ())


@function("binary_cross_entropy_with_logits")
def _binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=0):
    """:func:`torch.nn.functional.binary_cross_entropy_with_logits` by the number of its reduction."""
    return _with_logits(input, target, weight, pos_weight, _mode("binary_cross_entropy_with_logits", reduction))


@function("poisson_nll_loss")
def _poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """:func:`torch.nn.functional.poisson_nll_loss` by the number of its reduction."""
    mode = _mode("poisson_nll_loss", reduction)
    return call(
        ops.poisson_nll_loss[bool(log_input), bool(full)][mode],
        (input, target, as_float("poisson_nll_loss", "eps", eps)),
        (),
    )
