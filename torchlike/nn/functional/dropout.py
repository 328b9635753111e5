"""Dropout."""

from functools import partial

from torchlike._base.frames import warn
from torchlike._base.state import state
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.arguments import bools, no_tensor, without_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions import host_samples as host
from torchlike._functions._install import FUNCTIONS, function
from torchlike._functions.generator import draw, place_of
from torchlike._ops import random as ops

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]


def _check(name, p, error=ValueError):
    without_grad(name, "p", p)
    if not 0.0 <= p <= 1.0:
        error = RuntimeError if p != p else error
        raise error(f"dropout probability has to be between 0 and 1, but got {p} ({name})")


def _drops_nothing(name, input, p, training):
    if not isinstance(input, Tensor):
        raise no_tensor(name, "input", 0, input)
    return not training or p == 0 or not input.numel()


def _in_rows(name):
    """Whether a draw for all elements does not go by memory order: inside of torch.func, as PyTorch decomposes it."""
    if name == "native_dropout":
        return any([level.maps and level.randomness == "same" for level in state.levels])
    return any([level.functional for level in state.levels])


def _draw(name, input, p, channels=0):
    """What decides which elements of ``input`` stay."""
    shape = input.shape if not channels else (*input.shape[:channels], *[1] * (input.ndim - channels))
    place = host.Place(shape, input.dtype) if channels or _in_rows(name) else host.Place.like(input)
    return draw(name, None, place_of(input), partial(host.kept, place, p=p))


def _kept(input, p, inplace, channels=0):
    """``input`` with elements (or whole channels) dropped; in place if asked."""
    if p == 1:
        return _erased(input, inplace)
    source = input.detach() if inplace else input
    result, mask = call(ops.dropout, (source, _draw("dropout", input, p, channels), p), (channels,))
    if not inplace:
        return result
    return input.mul_(mask.to(input.dtype) * (1 / (1 - p)))


def _erased(input, inplace):
    nothing = FUNCTIONS["zeros"]((), dtype=input.dtype, device=input.device)
    return input.mul_(nothing) if inplace else input.mul(nothing)


def dropout(input, p=0.5, training=True, inplace=False):
    """Zero each element with probability ``p`` and scale the others by 1 / (1 - p); outside training, and where
    there are no elements, ``input`` itself.

    Raises:
        ValueError: ``p`` outside [0, 1]. RuntimeError: a dtype that is neither floating point nor complex.

    >>> import torchlike as torch
    >>> y = torch.nn.functional.dropout(torch.ones(1000))
    >>> sorted(set(y.tolist()))
    [0.0, 2.0]
    """
    bools("dropout", training=training)
    _check("dropout", p)
    if _drops_nothing("dropout", input, p, training):
        return input
    return _kept(input, p, inplace)


def _of_channels(name, input, p, training, inplace):
    _check(name, p)
    if _drops_nothing(name, input, p, training):
        return input
    if input.ndim < 2:
        raise RuntimeError(
            f"Feature dropout requires at least 2 dimensions in the input ({name} got shape {list(input.shape)})"
        )
    return _kept(input, p, inplace, 2)


def _warn_shape(name, n, input):
    if input.ndim not in (n + 1, n + 2):
        warn(
            f"{name}: Received a {input.ndim}-D input to {name}, which is deprecated and will result in an "
            "error in a "
            f"future release. It drops channels of inputs with {n} spatial dimensions, a channel dimension "
            "and perhaps a "
            f"batch dimension ({n + 1}-D or {n + 2}-D); use dropout for other inputs.",
        )


def _batched(name, n, input, p, training, inplace):
    """Channels of an input that has a batch dimension only if it has n + 2 dimensions."""
    if input.ndim == n + 2:
        return _of_channels(name, input, p, training, inplace)
    if inplace:
        _of_channels(name, input.unsqueeze(0), p, training, True)
        return input
    return _of_channels(name, input.unsqueeze(0), p, training, False).squeeze(0)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of [N, C, L] or [C, L] with probability ``p``, and scale the others.

    Raises:
        ValueError: ``p`` outside [0, 1]. RuntimeError: another number of dimensions.
    """
    bools("dropout1d", training=training)
    _check("dropout1d", p)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input: it is [N, C, L] or [C, L]"
        )
    return _batched("dropout1d", 1, input, p, training, inplace)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of [N, C, H, W] with probability ``p``, and scale the others.

    A 3-D input is taken as [N, C, L], as in PyTorch; other shapes warn.
    """
    bools("dropout2d", training=training)
    _check("dropout2d", p)
    if input.ndim == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired: "
            "input is interpreted as shape (N, C, L), where C is the channel dim. Use dropout1d for [C, L] "
            "or [N, C, L], and a "
            "batch dimension for one image.",
        )
    else:
        _warn_shape("dropout2d", 2, input)
    return _of_channels("dropout2d", input, p, training, inplace)


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of [N, C, D, H, W] or [C, D, H, W] with probability ``p``, and scale the others."""
    bools("dropout3d", training=training)
    _check("dropout3d", p)
    _warn_shape("dropout3d", 3, input)
    return _batched("dropout3d", 3, input, p, training, inplace)


def _alpha(name, input, p, training, inplace, channels):
    _check(name, p)
    if _drops_nothing(name, input, p, training):
        return input
    if channels and input.ndim < 2:
        raise RuntimeError(
            f"Feature dropout requires at least 2 dimensions in the input ({name} got shape {list(input.shape)})"
        )
    if p == 1:
        return _erased(input, inplace)
    if inplace:
        result = call(ops.alpha_dropout, (input.detach(), _draw(name, input, p, channels), p), (channels,))
        scale, shift = result[1:]
        return input.mul_(scale).add_(shift)
    return call(ops.alpha_dropout, (input, _draw(name, input, p, channels), p), (channels,))[0]


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout for :func:`selu` networks: dropped elements take SELU's lower bound, and mean and variance are
    kept.

    ValueError for ``p`` outside [0, 1].
    """
    bools("alpha_dropout", training=training)
    return _alpha("alpha_dropout", input, p, training, inplace, 0)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """:func:`alpha_dropout` of whole channels."""
    bools("feature_alpha_dropout", training=training)
    return _alpha("feature_alpha_dropout", input, p, training, inplace, 2)


# ----- the same under ``torch`` -----


def _torch_form(name, run):
    def form(input, p, train):
        _check(name, p, RuntimeError)
        return run(input, p, train, False)

    def form_(input, p, train):
        _check(name, p, RuntimeError)
        return run(input, p, train, True)

    form.__name__, form.__doc__ = name, f"``{name}(input, p, train)``: see ``torch.nn.functional``."
    form_.__name__, form_.__doc__ = name + "_", f":func:`{name}` in place."
    function(name)(form)
    function(name + "_")(form_)


_torch_form("dropout", dropout)
_torch_form("alpha_dropout", alpha_dropout)
_torch_form("feature_alpha_dropout", feature_alpha_dropout)
_torch_form("feature_dropout", lambda *arguments: _of_channels("feature_dropout", *arguments))


@function("native_dropout")
def _native_dropout(input, p, train):
    """(result, mask) of dropout."""
    if train is False or p == 0:
        return input.clone(), (input == input).logical_or(True)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={1 - p}")
    result, mask = call(ops.dropout, (input, _draw("native_dropout", input, p), p), (0,))
    return result, mask
