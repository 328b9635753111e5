"""Pointwise functions that choose among operators, Python's operators, and other names of functions."""

import numpy as np

import torchlike._base.dtypes as dtypes
import torchlike._ops.arithmetic as arithmetic
import torchlike._ops.binary as binary
import torchlike._ops.bitwise as bitwise
import torchlike._ops.compare as compare
import torchlike._ops.special as special
import torchlike._ops.ternary as ternary
from torchlike._core import bind
from torchlike._core.arguments import as_number
from torchlike._core.dispatch import call
from torchlike._core.inplace import call_inplace
from torchlike._core.out import call_out
from torchlike._core.tensor import Tensor
from torchlike._functions._install import FUNCTIONS, both, function, method

_NUMBERS = (int, float, complex, np.number, np.bool_)


def _run(op, inputs, static, out):
    return call(op, inputs, static) if out is None else call_out(op, inputs, static, out)


def _write(op, inputs, static):
    return call_inplace(op.inplace, inputs, static)


def _wrong(name, position, given):
    raise TypeError(
        f"{name}(): argument '{position}' must be Tensor or Number, not {type(given).__name__}; "
        "convert it with torch.as_tensor()"
    )


_abs_ = Tensor.abs_


@method()
def abs_(self):
    """``abs`` in place. RuntimeError for complex tensors, whose moduli are real."""
    if self.dtype.is_complex:
        raise RuntimeError("In-place abs is not supported for complex tensors; use abs(), which gives a real tensor")
    return _abs_(self)


# -- powers --------------------------------------------------------------------------------------


def _power(base, exponent):
    """The operator that fits ``base ** exponent``, its inputs and static arguments; None for other types."""
    if isinstance(exponent, Tensor):
        if isinstance(base, Tensor):
            return binary.pow_tensor, (base, exponent), ()
        return (binary.pow_from, (base, exponent), ()) if isinstance(base, _NUMBERS) else None
    if not isinstance(exponent, _NUMBERS) or not isinstance(base, Tensor):
        return None
    dtype = base.dtype
    if dtype.is_floating_point or dtype.is_complex:
        if exponent in binary.SPECIAL_EXPONENTS:
            return binary.pow_special, (base,), (float(exponent),)
    elif isinstance(exponent, int) and exponent < 0:
        raise RuntimeError(
            f"Integers to negative integer powers are not allowed: {dtype} ** {exponent}; "
            "convert the base with .to(torch.float32)"
        )
    return binary.pow_scalar, (base, exponent), ()


@function()
def pow(input, exponent, *, out=None):
    """Elementwise ``input ** exponent``; either may be a number. Shapes broadcast, dtypes promote.

    RuntimeError for an integer tensor with a negative integer exponent given as a number.

    >>> import torchlike as torch
    >>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    found = _power(input, exponent)
    if found is None:
        _wrong("pow", "exponent" if isinstance(input, Tensor) else "input", exponent)
    return _run(*found, out)


@method("pow")
def _method_pow(self, exponent):
    """Elementwise ``self ** exponent``; see torch.pow."""
    return pow(self, exponent)


@method("pow_")
def pow_(self, exponent):
    """``pow`` in place."""
    return _write(*(_power(self, exponent) or _wrong("pow_", "exponent", exponent)))


@method()
def __pow__(self, exponent):
    found = _power(self, exponent)
    return NotImplemented if found is None else call(*found)


@method()
def __ipow__(self, exponent):
    found = _power(self, exponent)
    return NotImplemented if found is None else _write(*found)


@both()
def square(input, *, out=None):
    """Elementwise ``input * input``; bools become int64.

    >>> import torchlike as torch
    >>> torch.square(torch.tensor([-2.0, 3.0]))
    tensor([4., 9.])
    """
    return pow(input, 2, out=out)


@method()
def square_(self):
    """``square`` in place."""
    return pow_(self, 2)


def _doubled(x, other):
    """An operand of float_power: float64, or complex128 if either is complex."""
    wide = dtypes.complex128 if _is_complex(x) or _is_complex(other) else dtypes.float64
    if isinstance(x, Tensor):
        return x if x.dtype is wide else x.to(wide)
    return complex(x) if wide is dtypes.complex128 else float(x)


def _is_complex(x):
    return x.dtype.is_complex if isinstance(x, Tensor) else isinstance(x, complex)


@function()
def float_power(input, exponent, *, out=None):
    """``input ** exponent`` computed in float64 (complex128 if either is complex).

    RuntimeError if ``out`` has another dtype.

    >>> import torchlike as torch
    >>> torch.float_power(torch.tensor([2, 3]), 2)
    tensor([4., 9.], dtype=torch.float64)
    """
    wide = dtypes.complex128 if _is_complex(input) or _is_complex(exponent) else dtypes.float64
    if out is not None and out.dtype is not wide:
        raise RuntimeError(f"float_power(): the output has dtype {out.dtype} but the operation's result is {wide}")
    return pow(_doubled(input, exponent), _doubled(exponent, input), out=out)


@method("float_power")
def _method_float_power(self, exponent):
    """``self ** exponent`` in float64; see torch.float_power."""
    return float_power(self, exponent)


@method()
def float_power_(self, exponent):
    """``float_power`` in place; RuntimeError unless the tensor has the result's dtype."""
    wide = dtypes.complex128 if _is_complex(self) or _is_complex(exponent) else dtypes.float64
    if self.dtype is not wide:
        raise RuntimeError(f"float_power_(): the base has dtype {self.dtype} but the operation's result is {wide}")
    return pow_(self, _doubled(exponent, self))


# -- clamping ------------------------------------------------------------------------------------


def _limits(low, high):
    """The operator that fits the bounds, and the bounds as it takes them."""
    if isinstance(low, Tensor | None) and isinstance(high, Tensor | None):
        return ternary.clamp_tensor, (low, high)
    bounds = (("min", low), ("max", high))
    return ternary.clamp, tuple(None if b is None else as_number("clamp", n, b) for n, b in bounds)


@function("clamp", "clip")
def clamp(input, min=None, max=None, *, out=None):
    """The elements limited to ``[min, max]``; the bounds are numbers or tensors, one may be None.

    RuntimeError if both are None. At a bound the derivative is 1.

    >>> import torchlike as torch
    >>> torch.clamp(torch.tensor([-1.0, 0.5, 2.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    op, bounds = _limits(min, max)
    return _run(op, (input, *bounds), (), out)


@method("clamp", "clip")
def _method_clamp(self, min=None, max=None):
    """The elements limited to ``[min, max]``; see torch.clamp."""
    op, bounds = _limits(min, max)
    return call(op, (self, *bounds), ())


@method("clamp_", "clip_")
def clamp_(self, min=None, max=None):
    """``clamp`` in place."""
    op, bounds = _limits(min, max)
    return _write(op, (self, *bounds), ())


# -- Python's operators ----------------------------------------------------------------------------


def _modulo(self, other, runner):
    if isinstance(other, Tensor):
        return runner(arithmetic.remainder, (self, other), ())
    return runner(arithmetic.remainder_scalar, (self, other), ()) if isinstance(other, _NUMBERS) else NotImplemented


@method()
def __mod__(self, other):
    return _modulo(self, other, call)


@method()
def __imod__(self, other):
    return _modulo(self, other, _write)


def _reflected(name, of_number, of_tensor):
    """Install ``__r...__``: each operator is a function of (the tensor, what stood on its left)."""

    def reflected(self, other):
        if isinstance(other, Tensor):
            return of_tensor(self, other)
        return of_number(self, other) if isinstance(other, _NUMBERS) else NotImplemented

    reflected.__name__, reflected.__qualname__ = name, f"Tensor.{name}"
    setattr(Tensor, name, reflected)


def _swapped(op):
    return lambda self, other: call(op, (other, self), ())


_reflected("__rsub__", lambda self, other: call(arithmetic.rsub_scalar, (self, other, None), ()),
           lambda self, other: call(arithmetic.rsub, (self, other, None), ()))  # fmt: skip
_reflected("__rtruediv__", _swapped(arithmetic.over), _swapped(arithmetic.div))
_reflected("__rdiv__", _swapped(arithmetic.over), _swapped(arithmetic.div))
_reflected("__rpow__", _swapped(binary.pow_from), _swapped(binary.pow_tensor))
_reflected("__rmod__", _swapped(arithmetic.remainder_from), _swapped(arithmetic.remainder))
_reflected("__rfloordiv__", _swapped(arithmetic.floor_divide), _swapped(arithmetic.floor_divide))
_reflected("__rlshift__", _swapped(bitwise.bitwise_left_shift), _swapped(bitwise.bitwise_left_shift))
_reflected("__rrshift__", _swapped(bitwise.bitwise_right_shift), _swapped(bitwise.bitwise_right_shift))


@both()
def positive(input):
    """The tensor itself. RuntimeError for bool tensors."""
    if input.dtype is dtypes.bool:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported; convert it with .to(torch.int64)")
    return input


method("__pos__")(positive)


@method()
def __invert__(self):
    if self.dtype.is_floating_point or self.dtype.is_complex:
        raise TypeError(f"~ (operator.invert) is only implemented on integer and Boolean-type tensors, not {self.dtype}")
    return call(bitwise.bitwise_not, (self,), ())


# -- selection and comparison ------------------------------------------------------------------------


@function()
def where(condition, input=None, other=None, *, out=None):
    """``input`` where the condition holds, ``other`` elsewhere; the three shapes broadcast.

    With the condition alone: a tuple of the indices where it holds, one tensor per dimension.

    >>> import torchlike as torch
    >>> x = torch.tensor([-1.0, 2.0])
    >>> torch.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if input is None and other is None:
        return FUNCTIONS["nonzero"](condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError("where() takes a condition alone, or a condition, input and other")
    return _run(ternary.where, (condition, input, other), (), out)


@method("where")
def _method_where(self, condition, other):
    """``self`` where the condition holds, ``other`` elsewhere; see torch.where."""
    return call(ternary.where, (condition, self, other), ())


@both()
def equal(input, other):
    """Whether two tensors have the same shape and elements; a bool.

    >>> import torchlike as torch
    >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
    True
    """
    if not isinstance(other, Tensor):
        raise TypeError(f"equal(): argument 'other' must be Tensor, not {type(other).__name__}")
    if input.shape != other.shape:
        return False
    return bool(call(compare.all_equal, (input, other), ()))


def _demand_tolerances(name, rtol, atol):
    for what, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(f"{name}(): {what} must be greater than or equal to zero, but got {value}")


@both()
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether ``|input - other| <= atol + rtol * |other|`` elementwise; infinities equal themselves.

    RuntimeError if the dtypes differ, or for a negative tolerance.

    >>> import torchlike as torch
    >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0 + 1e-7, 2.1]))
    tensor([ True, False])
    """
    _demand_tolerances("isclose", rtol, atol)
    return call(compare.isclose, (input, other, rtol, atol), (equal_nan,))


@both()
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether ``isclose`` holds for all elements; a bool. RuntimeError if the dtypes differ."""
    _demand_tolerances("allclose", rtol, atol)
    return bool(call(compare.all_close, (input, other, rtol, atol), (equal_nan,)))


@method("polygamma")
def _method_polygamma(self, n):
    """The ``n``-th derivative of ``digamma``; see torch.polygamma."""
    return call(special.polygamma, (self,), (n,))


@method()
def polygamma_(self, n):
    """``polygamma`` in place."""
    return _write(special.polygamma, (self,), (n,))


# -- other names -----------------------------------------------------------------------------------

FUNCTIONS["true_divide"] = bind.front([arithmetic.div], "function")
Tensor.true_divide = bind.front([arithmetic.div], "method")
Tensor.true_divide_ = bind.front([arithmetic.div], "inplace")

_ALIASES = """absolute abs, arccos acos, arccosh acosh, arcsin asin, arcsinh asinh, arctan atan, arctan2 atan2,
arctanh atanh, divide div, fix trunc, greater gt, greater_equal ge, less lt, less_equal le, multiply mul,
negative neg, not_equal ne, subtract sub"""

for _pair in _ALIASES.split(","):
    _name, _source = _pair.split()
    FUNCTIONS[_name] = FUNCTIONS[_source]
    for _suffix in ("", "_"):
        setattr(Tensor, _name + _suffix, getattr(Tensor, _source + _suffix))
Tensor.__div__, Tensor.__idiv__ = Tensor.__truediv__, Tensor.__itruediv__
