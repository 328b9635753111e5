"""Python's operators that choose among operators of tensors, and other names of functions."""

import numpy as np

import torchlike._base.dtypes as dtypes
import torchlike._ops.arithmetic as arithmetic
import torchlike._ops.bitwise as bitwise
import torchlike._ops.power as power
from torchlike._core.dispatch import bind
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.arguments import known_number
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS, both, method
from torchlike._functions.pointwise import NUMBERS, power_call, write


@method()
def __pow__(self, exponent):
    found = power_call(self, known_number(exponent))
    return NotImplemented if found is None else call(*found)


@method()
def __ipow__(self, exponent):
    found = power_call(self, exponent)
    return NotImplemented if found is None else write(*found)


def _modulo(self, other, runner):
    if isinstance(other, Tensor):
        return runner(arithmetic.remainder, (self, other), ())
    if isinstance(other, NUMBERS):
        return runner(arithmetic.remainder_scalar, (self, other), ())
    known = known_number(other)
    return NotImplemented if known is other else runner(arithmetic.remainder_scalar, (self, known), ())


@method()
def __mod__(self, other):
    return _modulo(self, other, call)


@method()
def __imod__(self, other):
    return _modulo(self, other, write)


def _reflected(name, of_number, of_tensor, of_array=None):
    """Install ``__r...__``: each operator is a function of (the tensor, what stood on its left)."""

    def reflected(self, other):
        if isinstance(other, Tensor):
            return of_tensor(self, other)
        if isinstance(other, NUMBERS):
            return of_number(self, other)
        if of_array is not None and isinstance(other, np.ndarray):
            return of_array(self, other)
        known = known_number(other)
        return NotImplemented if known is other else of_number(self, known)

    reflected.__name__, reflected.__qualname__ = name, f"Tensor.{name}"
    setattr(Tensor, name, reflected)


def _swapped(op):
    return lambda self, other: call(op, (other, self), ())


_reflected(
    "__rsub__",
    lambda self, other: call(arithmetic.rsub_scalar, (self, other, None), ()),
    lambda self, other: call(arithmetic.rsub, (self, other, None), ()),
)
_reflected("__rtruediv__", _swapped(arithmetic.over), *[lambda t, a: t.reciprocal() * a] * 2)
_reflected("__rdiv__", _swapped(arithmetic.over), *[lambda t, a: t.reciprocal() * a] * 2)
_reflected("__rpow__", _swapped(power.pow_from), _swapped(power.pow_tensor))
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
        raise TypeError(
            f"~ (operator.invert) is only implemented on integer and Boolean-type tensors, not {self.dtype}"
        )
    return call(bitwise.bitwise_not, (self,), ())


# -- other names ---------------------------------------------------------------------------------


def _true_divide(form):
    front = bind.front([arithmetic.div], form)
    front.__name__ = front.__name__.replace("div", "true_divide")
    front.__qualname__ = front.__qualname__.replace("div", "true_divide")
    return front


FUNCTIONS["true_divide"] = _true_divide("function")
Tensor.true_divide, Tensor.true_divide_ = _true_divide("method"), _true_divide("inplace")

_ALIASES = """
absolute abs, arccos acos, arccosh acosh, arcsin asin, arcsinh asinh, arctan atan, arctan2 atan2,
arctanh atanh, divide div, fix trunc, greater gt, greater_equal ge, less lt, less_equal le, multiply
mul, negative neg, not_equal ne, subtract sub
"""

for _pair in _ALIASES.split(","):
    _name, _source = _pair.split()
    FUNCTIONS[_name] = FUNCTIONS[_source]
    for _suffix in ("", "_"):
        setattr(Tensor, _name + _suffix, getattr(Tensor, _source + _suffix))
Tensor.__div__, Tensor.__idiv__ = Tensor.__truediv__, Tensor.__itruediv__

_INPLACE_FUNCTIONS = """
abs acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp
clamp_max clamp_min clip conj_physical cos cosh deg2rad erf erfc exp exp2 expm1 fix floor frac gcd
i0 lcm ldexp log log10 log1p log2 logit nan_to_num neg negative rad2deg reciprocal relu round rsqrt
sigmoid sin sinc sinh sqrt square tan tanh threshold trunc xlogy
"""

for _name in _INPLACE_FUNCTIONS.split():
    FUNCTIONS[_name + "_"] = getattr(Tensor, _name + "_")
