"""Activation functions of ``torch.nn.functional``."""

import warnings
from functools import partial

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base.frames import warn
from torchlike._base.state import state
from torchlike._core.conversion.convert import host as values_of
from torchlike._core.conversion.numbers import demand_held, fitting
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.dispatch.out import call_out
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import bools
from torchlike._functions import host_samples as host
from torchlike._functions._install import function
from torchlike._functions.generator import draw, place_of
from torchlike._ops import activation as ops
from torchlike._ops import unary

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]


def _run(op, input, numbers, inplace=False):
    if op.held:
        demand_held(op, (input, *numbers))
    if inplace:
        return call_inplace(op.inplace, (input, *numbers), ())
    return call(op, (input, *numbers), ())


def _sloped(op, input, numbers, inplace):
    """As ``_run``; in place a negative first number makes a result from whose sign the input's is not known."""
    out = _run(op, input, numbers, inplace)
    if inplace and numbers[0] < 0 and state.grad and out.requires_grad:
        out.grad_fn.register_prehook(_refuse(op.name, numbers[0]))
    return out


def _refuse(name, slope):
    def refuse(grads):
        kind = "leakyReLu" if "relu" in name else "elu"
        raise RuntimeError(
            f"In-place {kind} backward calculation is triggered with a negative slope which is not supported: "
            f"{name}_ was given {slope}, please call out-of-place version instead."
        )

    return refuse


def _native(op, inputs, static=(), out=None):
    """A function that takes ``out`` as PyTorch's own ones do."""
    demand_held(op, inputs)
    return call(op, inputs, static) if out is None else call_out(op, inputs, static, out)


def _number(name, argument, x):
    return x if x.__class__ is float or x.__class__ is int else arguments.as_runtime_number(name, argument, x)


def _fitting(name, input, numbers):
    """``numbers`` as an integer dtype holds them."""
    dtype = arguments.as_tensor_arg(name, "input", input).dtype
    return numbers if dtype.is_floating_point or dtype.is_complex else [fitting(dtype, x) for x in numbers]


def relu(input, inplace=False):
    """``max(x, 0)``; the derivative at 0 is 0.

    >>> import torchlike as torch
    >>> torch.nn.functional.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if inplace:
        return call_inplace(unary.relu.inplace, (input,), ())
    return call(unary.relu, (input,), ())


@function("relu_")
def relu_(input):
    """:func:`relu` in place."""
    return relu(input, True)


def relu6(input, inplace=False):
    """``min(max(x, 0), 6)``; the derivative at both bounds is 0."""
    return _run(ops.relu6, input, (), inplace)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """``x`` where positive, else ``negative_slope * x``; the derivative at 0 is ``negative_slope``.

    >>> import torchlike as torch
    >>> torch.nn.functional.leaky_relu(torch.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.5000,  2.0000])
    """
    return _sloped(ops.leaky_relu, input, (_number("leaky_relu", "negative_slope", negative_slope),), inplace)


def leaky_relu_(input, negative_slope=0.01):
    """:func:`leaky_relu` in place."""
    return leaky_relu(input, negative_slope, True)


def elu(input, alpha=1.0, inplace=False):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""
    return _sloped(ops.elu, input, (_number("elu", "alpha", alpha), None, None), inplace)


def elu_(input, alpha=1.0):
    """:func:`elu` in place."""
    return elu(input, alpha, True)


def selu(input, inplace=False):
    """The scaled :func:`elu` that keeps mean 0 and variance 1 from layer to layer."""
    return _run(ops.selu, input, (), inplace)


@function("selu_")
def selu_(input):
    """:func:`selu` in place."""
    return selu(input, True)


@function("celu")
def _celu(input, alpha=1.0):
    """:func:`torch.nn.functional.celu` without its ``inplace``."""
    return celu(input, alpha)


def celu(input, alpha=1.0, inplace=False):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``. RuntimeError for ``alpha`` 0."""
    alpha = _number("celu", "alpha", alpha)
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _sloped(ops.celu, input, (alpha,), inplace)


@function("celu_")
def celu_(input, alpha=1.0):
    """:func:`celu` in place."""
    return celu(input, alpha, True)


def gelu(input, *, approximate="none", out=None):
    """``x`` times the normal distribution function at ``x``, exact or by ``approximate="tanh"``.

    Raises:
        RuntimeError: another ``approximate``. NotImplementedError: not a floating point dtype.

    >>> import torchlike as torch
    >>> torch.nn.functional.gelu(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8413])
    """
    return _native(ops.gelu, (input,), (approximate,), out)


def silu(input, inplace=False):
    """``x * sigmoid(x)``."""
    return _run(ops.silu, input, (), inplace)


def mish(input, inplace=False):
    """``x * tanh(softplus(x))``."""
    return _run(ops.mish, input, (), inplace)


def softplus(input, beta=1, threshold=20, *, out=None):
    """``log(1 + exp(beta * x)) / beta``, and ``x`` itself where ``beta * x > threshold``."""
    numbers = _number("softplus", "beta", beta), _number("softplus", "threshold", threshold)
    return _native(ops.softplus, (input, *numbers), (), out)


def softsign(input):
    """``x / (1 + |x|)``."""
    return call(ops.softsign, (input,), ())


def softshrink(input, lambd=0.5, *, out=None):
    """``x`` moved by ``lambd`` towards 0, and 0 within. RuntimeError for a negative ``lambd``."""
    lambd = _number("softshrink", "lambd", lambd)
    dtype = arguments.as_tensor_arg("softshrink", "input", input).dtype
    if dtype.is_floating_point and not 0 <= lambd <= dtypes.finfo(dtype).max:
        raise RuntimeError(
            f"softshrink: lambda must be in range [0, {dtypes.finfo(dtype).max:.6g}] for input dtype {dtype}, but "
            f"found {lambd:.6g}"
        )
    return _native(ops.softshrink, (input, lambd), (), out)


def hardshrink(input, lambd=0.5, *, out=None):
    """``x`` where its absolute value is above ``lambd``, else 0."""
    return _native(ops.hardshrink, (input, _number("hardshrink", "lambd", lambd)), (), out)


def tanhshrink(input):
    """``x - tanh(x)``."""
    return call(ops.tanhshrink, (input,), ())


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """``x`` kept within [min_val, max_val]; the derivative at both is 0. ValueError if they are reversed."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val cannot be greater than max_val, got {min_val} and {max_val}")
    return _hardtanh(input, min_val, max_val, inplace)


def _hardtanh(input, min_val, max_val, inplace):
    numbers = _number("hardtanh", "min_val", min_val), _number("hardtanh", "max_val", max_val)
    given = arguments.as_tensor_arg("hardtanh", "input", input)
    if min(numbers) < 0 and not given.is_quantized and given.dtype.np.kind == "u":
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return _run(ops.hardtanh, input, _fitting("hardtanh", input, numbers), inplace)


def hardtanh_(input, min_val=-1.0, max_val=1.0):
    """:func:`hardtanh` in place; reversed bounds give ``max_val``."""
    return _hardtanh(input, min_val, max_val, True)


def hardsigmoid(input, inplace=False):
    """``x / 6 + 1/2`` kept within [0, 1]; the derivative at both ends is 0."""
    return _run(ops.hardsigmoid, input, (), inplace)


def hardswish(input, inplace=False):
    """``x * hardsigmoid(x)``."""
    return _run(ops.hardswish, input, (), inplace)


def prelu(input, weight):
    """``x`` where positive, else ``weight * x``: one weight, or one for each channel (dimension 1).

    Raises:
        RuntimeError: as many weights as neither 1 nor the channels, or another dtype than ``input``.
    """
    return call(ops.prelu, (input, weight), ())


@function("rrelu")
def _rrelu(input, lower=1 / 8, upper=1 / 3, training=False, generator=None):
    return _slopes(input, lower, upper, training, False, generator)


def rrelu(input, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    """:func:`leaky_relu` whose slopes are drawn from [lower, upper) in training, and their mean otherwise.

    RuntimeError if ``lower > upper``.
    """
    bools("rrelu", training=training)
    return _slopes(input, lower, upper, training, inplace, None)


@function("rrelu_")
def rrelu_(input, lower=1 / 8, upper=1 / 3, training=False, generator=None):
    """:func:`rrelu` in place."""
    return _slopes(input, lower, upper, training, True, generator)


def _slopes(input, lower, upper, training, inplace, generator):
    lower, upper = _number("rrelu", "lower", lower), _number("rrelu", "upper", upper)
    if not lower <= upper:
        raise RuntimeError(
            f"rrelu: Lower bound should be less than or equal to the upper bound, got {lower} and {upper}"
        )
    if not training:
        return _sloped(ops.rrelu, input, ((lower + upper) / 2,), inplace)
    words = draw("rrelu", generator, place_of(input), partial(_slopes_of, input, lower, upper))
    result, noise = call(ops.rrelu_with_noise, (input, words, lower, upper), ())
    return input.mul_(noise) if inplace else result


def _slopes_of(input, lower, upper, engine):
    """Slopes for the elements that are not positive, the only ones for which PyTorch draws."""
    if not input.dtype.is_floating_point:
        return None
    negative = values_of(input) <= 0
    slopes = np.ones(negative.shape)
    slopes[negative] = host.samples.uniform(engine, int(negative.sum()), slopes.dtype, lower, upper)
    return slopes


def glu(input, dim=-1):
    """The first half of ``dim`` times the sigmoid of the second. RuntimeError if its length is odd."""
    return call(ops.glu, (input,), (arguments.as_int("glu", "dim", dim),))


def logsigmoid(input, *, out=None):
    """``log(sigmoid(x))``, without overflow."""
    return _native(ops.log_sigmoid, (input,), (), out)


def sigmoid(input):
    """``1 / (1 + exp(-x))``."""
    return FUNCTIONS["sigmoid"](input)


def tanh(input):
    """Hyperbolic tangent."""
    return FUNCTIONS["tanh"](input)


def threshold(input, threshold, value, inplace=False):
    """``x`` where it is above ``threshold``, else ``value``."""
    numbers = _number("threshold", "threshold", threshold), _number("threshold", "value", value)
    return _run(unary.threshold, input, _fitting("threshold", input, numbers), inplace)


@function("threshold_")
def threshold_(input, threshold, value):
    """:func:`threshold` in place."""
    numbers = _number("threshold", "threshold", threshold), _number("threshold", "value", value)
    return _run(unary.threshold, input, _fitting("threshold", input, numbers), True)


# ----- along a dimension -----


def _dim(name, dim, ndim, stacklevel):
    if dim is None:
        warnings.warn(
            f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as "
            "an argument.",
            stacklevel=stacklevel + 1,
        )
        return 0 if ndim in (0, 1, 3) else 1
    return dim if dim.__class__ is int else arguments.as_int(name, "dim", dim)


def _dtype(name, dtype):
    return None if dtype is None else arguments.as_dtype(name, "dtype", dtype)


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """``exp(x)`` along ``dim``, scaled to sum 1; cast to ``dtype`` before if given.

    A row of -inf gives NaN. Without ``dim`` it warns and takes the last or the second dimension as PyTorch
    does.

    >>> import torchlike as torch
    >>> torch.nn.functional.softmax(torch.zeros(1, 2), dim=1)
    tensor([[0.5000, 0.5000]])
    """
    return call(ops.softmax, (input,), (_dim("softmax", dim, input.ndim, _stacklevel), _dtype("softmax", dtype)))


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """:func:`softmax` of ``-x``."""
    return call(ops.softmin, (input,), (_dim("softmin", dim, input.ndim, _stacklevel), _dtype("softmin", dtype)))


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """``log(softmax(x))``, computed without overflow."""
    return call(
        ops.log_softmax,
        (input,),
        (_dim("log_softmax", dim, input.ndim, _stacklevel), _dtype("log_softmax", dtype)),
    )


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """Samples of the Gumbel-softmax distribution; one-hot with the gradient of the soft ones if ``hard``.

    Args:
        logits: unnormalized log probabilities. tau: temperature. eps: no longer used, as in PyTorch.

    >>> import torchlike as torch
    >>> torch.nn.functional.gumbel_softmax(torch.zeros(2, 3), hard=True).sum(-1)
    tensor([1., 1.])
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    place = host.Place(logits.shape, logits.dtype)
    words = draw("gumbel_softmax", None, place_of(logits), partial(host.exponential, place))
    noise = call(ops.gumbel, (logits.detach(), words), ())
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    return call(ops.one_hot_argmax, (soft.detach(),), (dim,)) - soft.detach() + soft
