"""Initial values for parameters. Every function fills a tensor in place, unrecorded, and returns it."""

import functools
import math
import warnings
from collections.abc import Callable

import numpy as np

from torchlike._base.rng import Generator
from torchlike._base.state import no_grad
from torchlike._core.conversion.factories import as_tensor
from torchlike._core.overrides.torch_function import publish as _publish
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.generator import from_torch, place_of
from torchlike._functions.like import empty_like
from torchlike._functions.random import randperm
from torchlike.interop.alias import missing_names

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal", "kaiming_normal_",
    "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal", "orthogonal_", "sparse",
    "sparse_", "trunc_normal_", "uniform", "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform",
    "xavier_uniform_", "zeros_",
]  # fmt: skip

_LINEAR = ("linear", "sigmoid") + tuple(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights should be larger to keep variance through ``nonlinearity``.

    1 for linear, convolutions and sigmoid; 5/3 for tanh; sqrt(2) for relu; sqrt(2 / (1 + param**2))
    for leaky_relu with slope ``param`` (0.01); 3/4 for selu.

    >>> import torchlike as torch
    >>> torch.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        elif isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + param**2))
    known = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity not in known:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return known[nonlinearity]


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output of the weight sums over, and how many outputs an input goes to."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    modes = ["fan_in", "fan_out"]
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with samples of the uniform distribution over [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with samples of the normal distribution."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with samples of the normal distribution, none of them outside [a, b].

    What PyTorch's stream gives is drawn until it is inside, from the normal distribution or, where that would seldom
    be inside, from the uniform one. Elsewhere (see ``torchlike.set_rng``) the distribution function is inverted, which
    is inexact where ``mean`` is more than two ``std`` away from the interval: that warns.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=3,
        )
    low, high = (math.erf((end - mean) / std / math.sqrt(2.0)) for end in (a, b))
    if from_torch(generator, place_of(tensor)):
        return (_drawn_inside if high - low > 2 * _OFTEN else _accepted)(tensor, mean, std, a, b, generator)
    tensor.uniform_(low, high, generator=generator)
    return tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(min=a, max=b)


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Generator | None = None) -> Tensor:
    """:func:`uniform_`, under the name that programs of before it was public use."""
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Generator | None = None) -> Tensor:
    return normal_(tensor, mean, std, generator)


def _no_grad_trunc_normal_(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None = None
) -> Tensor:
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    return constant_(tensor, val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    return zeros_(tensor)


_OFTEN = 0.3  # a probability of being inside from which on normal samples are drawn again


def _drawn_inside(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None) -> Tensor:
    """Normal samples; those that are outside are taken from further draws for the whole tensor."""
    a, b = (as_tensor(end, dtype=tensor.dtype).item() for end in (a, b))
    tensor.normal_(mean, std, generator=generator)
    while True:
        outside = (tensor < a) | (tensor > b)
        if not outside.any():
            return tensor
        tensor.copy_(empty_like(tensor).normal_(mean, std, generator=generator).where(outside, tensor))


def _accepted(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None) -> Tensor:
    """Uniform samples, each accepted with a probability in proportion to the density."""
    highest = -0.5 * ((min(max(mean, a), b) - mean) / std) ** 2
    refused = None
    while refused is None or refused.any():
        drawn = empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(drawn if refused is None else drawn.where(refused, tensor))
        density = tensor.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(highest)
        over = empty_like(tensor).uniform_(generator=generator).log_() > density
        refused = over if refused is None else refused & over
    return tensor


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    return tensor.fill_(val)


@no_grad()
def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return tensor.fill_(1.0)


@no_grad()
def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return tensor.zero_()


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Fill a 2-dimensional tensor with the identity, ones on the main diagonal."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(as_tensor(np.eye(*tensor.shape), dtype=tensor.dtype))


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight so that it passes on as many input channels as it can.

    Args:
        tensor: of 3, 4 or 5 dimensions. groups: of the convolution; each passes on its own channels.
    """
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *field = tensor.shape
    if outputs % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    kernel = np.zeros(tuple(tensor.shape))
    middle = tuple(n // 2 for n in field)
    per_group = outputs // groups
    for g in range(groups):
        for d in range(min(per_group, inputs)):
            kernel[(g * per_group + d, d, *middle)] = 1
    return tensor.copy_(as_tensor(kernel, dtype=tensor.dtype))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with uniform samples of variance ``gain**2 * 2 / (fan_in + fan_out)``.

    See Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    with no_grad():
        return tensor.uniform_(-bound, bound, generator=generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal samples of variance ``gain**2 * 2 / (fan_in + fan_out)``; see :func:`xavier_uniform_`."""
    std = _xavier_std(tensor, gain)
    with no_grad():
        return tensor.normal_(0.0, std, generator=generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill with uniform samples of variance ``gain**2 / fan``.

    Args:
        a: the slope where ``nonlinearity`` is "leaky_relu".
        mode: "fan_in" keeps the variance of the forward pass, "fan_out" that of the backward pass.
        nonlinearity: what :func:`calculate_gain` gives the gain of.

    See He and others, "Delving deep into rectifiers", 2015.
    """
    if 0 in tensor.shape:
        return _nothing_to_do(tensor)
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    with no_grad():
        return tensor.uniform_(-bound, bound, generator=generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill with normal samples of variance ``gain**2 / fan``; see :func:`kaiming_uniform_`."""
    if 0 in tensor.shape:
        return _nothing_to_do(tensor)
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    with no_grad():
        return tensor.normal_(0, std, generator=generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _nothing_to_do(tensor: Tensor) -> Tensor:
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return tensor


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill with ``gain`` times a (semi-)orthogonal matrix; dimensions after the first are taken as one.

    The Q factor of a normal matrix, its signs chosen so that the distribution is uniform (Mezzadri, "How to
    generate random matrices from the classical compact groups", 2007).

    Raises:
        ValueError: fewer than two dimensions. NotImplementedError: a complex tensor.

    >>> import torchlike as torch
    >>> w = torch.nn.init.orthogonal_(torch.empty(2, 3, dtype=torch.float64))
    >>> bool(((w @ w.T - torch.eye(2)).abs() < 1e-9).all())
    True
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.is_complex():
        raise NotImplementedError("orthogonal_ does not support complex tensors")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    tensor.normal_(0, 1, generator=generator)
    normal = tensor.detach().to("cpu").numpy().reshape(rows, -1)
    wide = normal.shape[1] > rows
    exact = normal.astype(np.float64)
    q, r = np.linalg.qr(exact.T if wide else exact)
    q = q * np.sign(np.diag(r))
    values = (q.T if wide else q).reshape(tuple(tensor.shape))
    return tensor.copy_(as_tensor(values, dtype=tensor.dtype)).mul_(gain)


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a 2-dimensional tensor with normal samples, and a fraction ``sparsity`` of each column with zeros."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    mask = np.zeros((rows, columns), bool)
    for column in range(columns):
        mask[randperm(rows).numpy()[:zeros], column] = True
    return tensor.masked_fill_(as_tensor(mask).to(tensor.device), 0)


def _former(function: Callable) -> Callable:
    """The name without the underscore, which warns."""
    name = function.__name__

    @functools.wraps(function)
    def former(*args, **kwargs):
        warnings.warn(
            f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    former.__name__ = former.__qualname__ = name[:-1]
    former.__doc__ = f"The former name of :func:`{name}`."
    return former


uniform = _former(uniform_)
normal = _former(normal_)
constant = _former(constant_)
eye = _former(eye_)
dirac = _former(dirac_)
xavier_uniform = _former(xavier_uniform_)
xavier_normal = _former(xavier_normal_)
kaiming_uniform = _former(kaiming_uniform_)
kaiming_normal = _former(kaiming_normal_)
orthogonal = _former(orthogonal_)
sparse = _former(sparse_)

globals().update(_publish("torch.nn.init", globals()))
_OWN = {name: f for name, f in globals().items() if callable(f)}  # for layers that PyTorch has imported by then

__getattr__ = missing_names(__name__)
