"""Pointwise functions that choose among operators, Python's operators, and other names of functions."""

import numpy as np

import torchlike._base.dtypes as dtypes
import torchlike._ops.arithmetic as arithmetic
import torchlike._ops.compare as compare
import torchlike._ops.power as power
import torchlike._ops.special as special
import torchlike._ops.ternary as ternary
from torchlike._base.dtypes import uint8
from torchlike._base.frames import warn
from torchlike._base.once import warn_once
from torchlike._base.state import state
from torchlike._core.conversion.numbers import demand_held
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.dispatch.out import call_out
from torchlike._core.tensor.arguments import as_number, as_runtime_number, bools, stands_for_number
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.op import exact
from torchlike._executor.level import dynamic_shape, mapped
from torchlike._functions._install import FUNCTIONS, both, function, method

NUMBERS = (int, float, complex, np.number, np.bool_)


def run(op, inputs, static, out):
    return call(op, inputs, static) if out is None else call_out(op, inputs, static, out)


def write(op, inputs, static):
    return call_inplace(op.inplace, inputs, static)


def _wrong(name, position, given):
    raise TypeError(
        f"{name}(): argument '{position}' must be Tensor or Number, not {type(given).__name__}; "
        "convert it with torch.as_tensor()"
    )


# -- sums and fused products: PyTorch still takes the factor as a number before the tensors -------------


def _factored(name, op, tensors, value):
    """The tensors and their factor as the operator takes them: None for 1."""
    if value.__class__ is int and value == 1:
        return *tensors, None
    inputs = *tensors, as_runtime_number(name, "alpha" if name in ("add", "sub") else "value", value)
    demand_held(op, inputs)
    return inputs


def _before(name, arguments, count):
    """The arguments of the deprecated form, (factor, *tensors), as (*tensors, factor)."""
    number, *tensors = arguments
    kinds = (Tensor, *NUMBERS) if count == 1 else Tensor
    numbers = isinstance(number, NUMBERS) or (isinstance(number, Tensor) and not (number.ndim or number.requires_grad))
    if len(tensors) != count or not numbers or not all(isinstance(t, kinds) for t in tensors):
        given = ", ".join(type(a).__name__ for a in arguments)
        raise TypeError(f"{name}() takes {count} positional arguments after the first tensor but got ({given})")
    what = "alpha" if count == 1 else "value"
    warn(f"This overload of {name} is deprecated: the number stands before the tensors; give it as {what}=")
    return *tensors, number


def _sum(name, op):
    def function(input, other, *rest, alpha=1, out=None):
        if rest:
            other, alpha = _before(name, (other, *rest), 1)
        return run(op, _factored(name, op, (input, other), alpha), (), out)

    def method(self, other, *rest, alpha=1):
        if rest:
            other, alpha = _before(name, (other, *rest), 1)
        return call(op, _factored(name, op, (self, other), alpha), ())

    def inplace(self, other, *rest, alpha=1):
        if rest:
            other, alpha = _before(name, (other, *rest), 1)
        return call_inplace(op.inplace, _factored(name, op, (self, other), alpha), ())

    _install(name, op, function, method, inplace)


def _fused(name, op):
    def function(input, tensor1, tensor2, *rest, value=1, out=None):
        if rest:
            tensor1, tensor2, value = _before(name, (tensor1, tensor2, *rest), 2)
        return run(op, _factored(name, op, (input, tensor1, tensor2), value), (), out)

    def method(self, tensor1, tensor2, *rest, value=1):
        if rest:
            tensor1, tensor2, value = _before(name, (tensor1, tensor2, *rest), 2)
        return call(op, _factored(name, op, (self, tensor1, tensor2), value), ())

    def inplace(self, tensor1, tensor2, *rest, value=1):
        if rest:
            tensor1, tensor2, value = _before(name, (tensor1, tensor2, *rest), 2)
        return call_inplace(op.inplace, _factored(name, op, (self, tensor1, tensor2), value), ())

    _install(name, op, function, method, inplace)


def _install(name, op, function, method, inplace):
    """Register the three forms under the names and with the documentation of the operator."""
    for form, public in ((function, name), (method, name), (inplace, name + "_")):
        form.__name__, form.__module__, form.__doc__ = public, "torch", op.kernel.__doc__
        form.__qualname__ = public if form is function else f"Tensor.{public}"
    FUNCTIONS[name] = function
    setattr(Tensor, name, method)
    setattr(Tensor, name + "_", inplace)


_sum("add", arithmetic.add)
_sum("sub", arithmetic.sub)
_fused("addcmul", ternary.addcmul)
_fused("addcdiv", ternary.addcdiv)

_abs_ = Tensor.abs_


@method()
def abs_(self):
    """``abs`` in place. RuntimeError for complex tensors, whose moduli are real."""
    if self.dtype.is_complex:
        raise RuntimeError("In-place abs is not supported for complex tensors; use abs(), which gives a real tensor")
    return _abs_(self)


# -- powers --------------------------------------------------------------------------------------


def power_call(base, exponent):
    """The operator that fits ``base ** exponent``, its inputs and static arguments; None for other types."""
    if isinstance(exponent, Tensor):
        if stands_for_number(exponent):
            return power.pow_scalar, (base, exponent), ()
        if stands_for_number(base):
            return power.pow_from, (base, exponent), ()
        if isinstance(base, Tensor):
            return power.pow_tensor, (base, exponent), ()
        return (power.pow_from, (base, exponent), ()) if isinstance(base, NUMBERS) else None
    if not isinstance(exponent, NUMBERS) or not isinstance(base, Tensor):
        return None
    dtype = base.dtype
    if dtype.is_floating_point or dtype.is_complex:
        if exponent in power.SPECIAL_EXPONENTS:
            exponent = exponent.item() if isinstance(exponent, np.generic) else exponent
            return power.pow_special, (base,), (exponent, exact(exponent))
    elif isinstance(exponent, int) and exponent < 0:
        raise RuntimeError(
            f"Integers to negative integer powers are not allowed: {dtype} ** {exponent}; "
            "convert the base with .to(torch.float32)"
        )
    demand_held(power.pow_scalar, (base, exponent))
    return power.pow_scalar, (base, exponent), ()


_conj_physical = FUNCTIONS["conj_physical"]


@both()
def conj_physical(input, *, out=None):
    """Elementwise complex conjugate, as a new tensor; a real tensor itself.

    >>> import torchlike as torch
    >>> torch.conj_physical(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    if out is None and isinstance(input, Tensor) and not input.dtype.is_complex:
        return input
    return _conj_physical(input) if out is None else _conj_physical(input, out=out)


@function()
def pow(input, exponent, *, out=None):
    """Elementwise ``input ** exponent``; either may be a number. Shapes broadcast, dtypes promote.

    RuntimeError for an integer tensor with a negative integer exponent given as a number.

    >>> import torchlike as torch
    >>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    found = power_call(input, exponent)
    if found is None:
        _wrong("pow", "exponent" if isinstance(input, Tensor) else "input", exponent)
    return run(*found, out)


@method("pow")
def _method_pow(self, exponent):
    """Elementwise ``self ** exponent``; see torch.pow."""
    return pow(self, exponent)


@method("pow_")
def pow_(self, exponent):
    """``pow`` in place."""
    return write(*(power_call(self, exponent) or _wrong("pow_", "exponent", exponent)))


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
        return x if x.dtype is wide else Tensor.to(x, wide)
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
        _refuse_power("output given to float_power", out.dtype, wide)
    return pow(_doubled(input, exponent), _doubled(exponent, input), out=out)


def _refuse_power(what, dtype, wide):
    raise RuntimeError(
        f"the {what} has dtype {dtype.scalar_name} but the operation's result requires dtype {wide.scalar_name}"
    )


@method("float_power")
def _method_float_power(self, exponent):
    """``self ** exponent`` in float64; see torch.float_power."""
    return float_power(self, exponent)


@method()
def float_power_(self, exponent):
    """``float_power`` in place; RuntimeError unless the tensor has the result's dtype."""
    wide = dtypes.complex128 if _is_complex(self) or _is_complex(exponent) else dtypes.float64
    if self.dtype is not wide:
        _refuse_power("base given to float_power_", self.dtype, wide)
    return pow_(self, _doubled(exponent, self))


# -- clamping ------------------------------------------------------------------------------------


def _limits(input, low, high):
    """The operator that fits the bounds, and what it takes."""
    if isinstance(low, Tensor | None) and isinstance(high, Tensor | None) and not _are_numbers(low, high):
        return ternary.clamp_tensor, (input, low, high)
    bounds = (("min", low), ("max", high))
    inputs = input, *[None if b is None else as_number("clamp", n, b) for n, b in bounds]
    if isinstance(input, Tensor) and not input.dtype.is_complex:
        demand_held(ternary.clamp, inputs)
    return ternary.clamp, inputs


def _are_numbers(*bounds):
    return any([stands_for_number(b) for b in bounds])


@function("clamp", "clip")
def clamp(input, min=None, max=None, *, out=None):
    """The elements limited to ``[min, max]``; the bounds are numbers or tensors, one may be None.

    RuntimeError if both are None. At a bound the derivative is 1.

    >>> import torchlike as torch
    >>> torch.clamp(torch.tensor([-1.0, 0.5, 2.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    op, inputs = _limits(input, min, max)
    return run(op, inputs, (), out)


@method("clamp", "clip")
def _method_clamp(self, min=None, max=None):
    """The elements limited to ``[min, max]``; see torch.clamp."""
    op, inputs = _limits(self, min, max)
    return call(op, inputs, ())


@method("clamp_", "clip_")
def clamp_(self, min=None, max=None):
    """``clamp`` in place."""
    op, inputs = _limits(self, min, max)
    return write(op, inputs, ())


_complex = FUNCTIONS["complex"]


@function("complex")
def complex_(real, imag, *, out=None):
    """Complex numbers from their real and imaginary parts, both float32 or both float64.

    RuntimeError for other dtypes, and for an ``out`` of another dtype than the result's.

    >>> import torchlike as torch
    >>> torch.complex(torch.tensor([1.0]), torch.tensor([2.0]))
    tensor([1.+2.j])
    """
    _demand_complex(out, real, imag)
    return _complex(real, imag, out=out)


_polar = FUNCTIONS["polar"]


@function()
def polar(abs, angle, *, out=None):
    """Complex numbers from their moduli and angles, both float32 or both float64.

    RuntimeError for other dtypes, and for an ``out`` of another dtype than the result's.

    >>> import torchlike as torch
    >>> torch.polar(torch.tensor([2.0]), torch.tensor([0.0]))
    tensor([2.+0.j])
    """
    _demand_complex(out, abs, angle)
    return _polar(abs, angle, out=out)


def _demand_complex(out, first, second):
    kinds = [getattr(x, "dtype", None) for x in (first, second)]
    if out is None or kinds[0] is None or kinds[0] is not kinds[1] or not kinds[0].is_floating_point:
        return  # or refused by the operator
    wanted = first.dtype.to_complex()
    if out.dtype is not wanted:
        raise RuntimeError(
            f"Expected object of scalar type {wanted.scalar_name} but got scalar type {out.dtype.scalar_name} for "
            "argument 'out'"
        )


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
        if mapped(condition):
            raise dynamic_shape("where")
        return FUNCTIONS["nonzero"](condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError("where() takes a condition alone, or a condition, input and other")
    inputs = condition, input, other
    _demand_mask(condition)
    demand_held(ternary.where, inputs)
    return run(ternary.where, inputs, (), out)


def _demand_mask(condition):
    if condition.__class__ is Tensor and condition.dtype is uint8:
        warn_once(
            "where received a uint8 condition tensor. This behavior is deprecated and may be removed; give a boolean "
            "condition."
        )


@method("where")
def _method_where(self, condition, other):
    """``self`` where the condition holds, ``other`` elsewhere; see torch.where."""
    inputs = condition, self, other
    _demand_mask(condition)
    demand_held(ternary.where, inputs)
    return call(ternary.where, inputs, ())


@both()
def equal(input, other):
    """Whether two tensors have the same shape and elements; a bool.

    >>> import torchlike as torch
    >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
    True
    """
    if not isinstance(other, Tensor):
        raise TypeError(f"equal(): argument 'other' must be Tensor, not {type(other).__name__}")
    if mapped(input) or mapped(other):
        raise RuntimeError(
            "Batching rule not implemented for aten::equal. We could not generate a fallback: the answer is one bool, "
            "and examples may differ; use (a == b).all()"
        )
    if input.shape != other.shape and not state.dispatch_modes:
        return False
    return bool(call(compare.all_equal, (input, other), ()))


def _demand_tolerances(name, rtol, atol):
    for what, value in (("rtol", rtol), ("atol", atol)):
        if not as_number(name, what, value) >= 0:
            raise RuntimeError(f"{name}(): {what} must be greater than or equal to zero, but got {value}")


@both()
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether ``|input - other| <= atol + rtol * |other|`` elementwise; infinities equal themselves.

    RuntimeError if the dtypes differ, or for a negative tolerance.

    >>> import torchlike as torch
    >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0 + 1e-7, 2.1]))
    tensor([ True, False])
    """
    bools("isclose", equal_nan=equal_nan)
    _demand_tolerances("isclose", rtol, atol)
    return call(compare.isclose, (input, other, rtol, atol), (equal_nan,))


@both()
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether ``isclose`` holds for all elements; a bool. RuntimeError if the dtypes differ."""
    bools("allclose", equal_nan=equal_nan)
    _demand_tolerances("allclose", rtol, atol)
    if mapped(input) or isinstance(other, Tensor) and mapped(other):
        raise RuntimeError(
            "vmap over torch.allclose isn't supported yet: the answer is one bool, and examples may differ; use "
            "torch.isclose(a, b).all()"
        )
    return bool(call(compare.all_close, (input, other, rtol, atol), (equal_nan,)))


@method("polygamma")
def _method_polygamma(self, n):
    """The ``n``-th derivative of ``digamma``; see torch.polygamma."""
    return call(special.polygamma, (self,), (n,))


@method()
def polygamma_(self, n):
    """``polygamma`` in place."""
    return write(special.polygamma, (self,), (n,))
