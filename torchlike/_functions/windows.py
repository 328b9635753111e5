"""Window functions of ``torch``: ``hann_window`` and its like."""

import math

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base.state import state
from torchlike._core.conversion.factories import demand_strided, finish
from torchlike._core.dispatch.observers import made
from torchlike._core.tensor import arguments
from torchlike._functions._install import function

_ABOUT = """

    ``periodic`` (True): for spectra, one period of a window of ``window_length + 1`` points; else it is symmetric.
    RuntimeError for a negative length and for types that are not floating.

    >>> import torchlike as torch
"""


def _window(name, length, numbers, options, values):
    """A window of ``values(i, n)``, i from 0 to n - 1 in its type; those of ``numbers`` given name the overload."""
    dtype, device, requires_grad = options
    length = length if length.__class__ is int else arguments.as_int(name, "window_length", length)
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    given = {k: v for k, v in numbers.items() if v is not ...}
    _demand(name, length, kind, numbers, given)
    if state.dispatch_modes:
        overload = "beta" if name == "kaiser_window" and "beta" in given else "_".join(given)
        return made(f"{name}.{overload or 'default'}", length, *given.values(), dtype=dtype, device=device,
                    requires_grad=requires_grad)  # fmt: skip
    if length < 2:
        value = np.ones(length, kind.np)
    else:
        n = length + (given.get("periodic", True) is True)
        value = values(np.arange(n).astype(kind.np), n)[:length].astype(kind.np)
    return finish(value, dtype, device, requires_grad)


def _demand(name, length, kind, numbers, given):
    periodic = given.get("periodic", True)
    if not isinstance(periodic, bool):
        raise TypeError(f"{name}(): argument 'periodic' (position 2) must be bool, not {type(periodic).__name__}")
    if [*given] != [*numbers][: len(given)]:
        raise TypeError(
            f"{name}() received an invalid combination of arguments: of {[*numbers]} only {[*given]} are given"
        )
    for key, number in [*given.items()][1:]:
        arguments.as_float(name, key, number)
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(f"{name} expects floating point dtypes, got: {kind}")
    if kind.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{kind.scalar_name}'")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")


def _cosines(i, n, *weights):
    """``weights[0] - weights[1] cos(x) + weights[2] cos(2 x)`` and so on, x from 0 to 2 pi."""
    number = i.dtype.type
    total = np.zeros_like(i)
    for k, weight in reversed([*enumerate(weights)]):
        if k:
            total = total + np.cos(i * number(2 * k * math.pi / (n - 1))) * number(-weight if k % 2 else weight)
    return total + number(weights[0])


def _triangle(i, n):
    rising = i * i.dtype.type(2 / (n - 1))
    return np.where(np.arange(n) <= (n - 1) // 2, rising, i.dtype.type(2) - rising)


def _bessel(i, n, beta):
    ratio = 2 * np.arange(n) / (n - 1) - 1
    return np.i0(beta * np.sqrt(np.maximum(1 - ratio * ratio, 0))) / np.i0(beta)


@function()
def hann_window(window_length, periodic=..., *, dtype=None, layout=None, device=None, pin_memory=False,
                requires_grad=False):  # fmt: skip
    """The Hann window, ``(1 - cos(x)) / 2``, of ``window_length`` points.@
    >>> torch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    if layout is not None:
        demand_strided("hann_window", layout)
    options = dtype, device, requires_grad
    return _window("hann_window", window_length, {"periodic": periodic}, options, lambda i, n: _cosines(i, n, 0.5, 0.5))


@function()
def hamming_window(window_length, periodic=..., alpha=..., beta=..., *, dtype=None, layout=None, device=None,
                   pin_memory=False, requires_grad=False):  # fmt: skip
    """The Hamming window, ``alpha - beta cos(x)`` (0.54 and 0.46), of ``window_length`` points.@
    >>> torch.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    if layout is not None:
        demand_strided("hamming_window", layout)
    weights = 0.54 if alpha is ... else alpha, 0.46 if beta is ... else beta
    numbers = {"periodic": periodic, "alpha": alpha, "beta": beta}
    options = dtype, device, requires_grad
    return _window("hamming_window", window_length, numbers, options, lambda i, n: _cosines(i, n, *weights))


@function()
def blackman_window(window_length, periodic=..., *, dtype=None, layout=None, device=None, pin_memory=False,
                    requires_grad=False):  # fmt: skip
    """The Blackman window, ``0.42 - 0.5 cos(x) + 0.08 cos(2 x)``, of ``window_length`` points.@
    >>> torch.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """
    if layout is not None:
        demand_strided("blackman_window", layout)
    options, weights = (dtype, device, requires_grad), (0.42, 0.5, 0.08)
    return _window("blackman_window", window_length, {"periodic": periodic}, options,
                   lambda i, n: _cosines(i, n, *weights))  # fmt: skip


@function()
def bartlett_window(window_length, periodic=..., *, dtype=None, layout=None, device=None, pin_memory=False,
                    requires_grad=False):  # fmt: skip
    """The triangle from 0 to 1 and back, of ``window_length`` points.@
    >>> torch.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    if layout is not None:
        demand_strided("bartlett_window", layout)
    options = dtype, device, requires_grad
    return _window("bartlett_window", window_length, {"periodic": periodic}, options, _triangle)


@function()
def kaiser_window(window_length, periodic=..., beta=..., *, dtype=None, layout=None, device=None, pin_memory=False,
                  requires_grad=False):  # fmt: skip
    """The Kaiser window of shape ``beta`` (12), of ``window_length`` points.@
    >>> torch.kaiser_window(5, False, 4.0)
    tensor([0.0885, 0.6334, 1.0000, 0.6334, 0.0885])
    """
    if layout is not None:
        demand_strided("kaiser_window", layout)
    shape = 12.0 if beta is ... else beta
    numbers = {"periodic": periodic, "beta": beta}
    options = dtype, device, requires_grad
    return _window("kaiser_window", window_length, numbers, options, lambda i, n: _bessel(i, n, shape))


for _function in (hann_window, hamming_window, blackman_window, bartlett_window, kaiser_window):
    _function.__doc__ = (_function.__doc__ or "").replace("@\n", _ABOUT)  # none under python -OO
