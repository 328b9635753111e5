"""What the pointwise families share: dtype demands, wide arithmetic, tables of declarations."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim

from torchlike._base.bits import X64, widest
from torchlike._base.dims import broadcast_shapes
from torchlike._base.dtypes import from_np, get_default_dtype
from torchlike._decl import rules
from torchlike._decl.op import pointwise
from torchlike._decl.words import aten

_KIND_NAMES = {"b": "bool", "i": "integer", "f": "floating point", "c": "complex"}


def kind(x):
    """``b``, ``i``, ``f`` or ``c``: what the elements of an array are."""
    if x.dtype == np.bool_:
        return "b"
    if jnp.issubdtype(x.dtype, np.integer):
        return "i"
    return "c" if jnp.issubdtype(x.dtype, np.complexfloating) else "f"


def scalar_name(x):
    """PyTorch's name of an array's dtype in messages: ``Long``, ``Float``..."""
    return from_np(x.dtype).scalar_name


def broadcast(name, *arrays):
    """The arrays in their common shape; RuntimeError where PyTorch finds that they have none."""
    shapes = [a.shape for a in arrays]
    if all(s == shapes[0] for s in shapes):
        return arrays
    try:
        shape = broadcast_shapes(*shapes)
    except RuntimeError as error:
        given = ", ".join(str(list(s)) for s in shapes)
        raise RuntimeError(f"{error} ({name}() got shapes {given}, which do not broadcast)") from None
    return tuple(_expanded(a, shape) for a in arrays)


def _expanded(a, shape):
    return a if a.shape == shape else jnp.broadcast_to(a, shape)


def once(x):
    """``1 * x`` as PyTorch's sums multiply complex numbers: an infinite part makes the other one NaN."""
    if kind(x) != "c":
        return x
    return x + lax.stop_gradient(lax.complex(-x.imag * 0, x.real * 0))


def demand(name, x, kinds):
    """NotImplementedError unless the elements of ``x`` are of one of the kinds."""
    if kind(x) not in kinds:
        allowed = " or ".join(_KIND_NAMES[k] for k in kinds)
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{scalar_name(x)}': it takes {allowed} tensors; "
            "convert the input with .to(dtype)"
        )


def demand_no_bools(what, x):
    """RuntimeError for bools, of which PyTorch takes no ``-x`` ("Negation") and no ``x - y`` ("Subtraction")."""
    if x.dtype == np.bool_:
        raise RuntimeError(f"{what}, the `-` operator, on a bool tensor is not supported; convert it with .to(dtype)")


def demand_real(x, *numbers):
    """RuntimeError where a number is complex that is to be one of ``x``, which is not."""
    if kind(x) != "c" and any([kind(n) == "c" for n in numbers if hasattr(n, "dtype")]):
        raise RuntimeError(f"value cannot be converted to type {from_np(x.dtype)} without overflow: it is complex")


def at_cuts(f):
    """A function with a branch cut along the real axis, where XLA takes -0 for 0: its values below are conjugates."""

    def kernel(x):
        if kind(x) != "c":
            return f(x)
        below = jnp.signbit(x.imag)
        value = f(jnp.where(below, jnp.conj(x), x))
        return jnp.where(below, jnp.conj(value), value)

    return kernel


def on_complex(real, complex_, tangent):
    """``real`` of real numbers, ``complex_`` of others, which jax differentiates by ``tangent(x, y, dot)``.

    A function that puts signs of zeros right by their parts is no derivative's, where these are taken apart.
    """

    @jax.custom_jvp
    def whole(x):
        return complex_(x)

    @whole.defjvp
    def _(primals, dots):
        y = whole(*primals)
        return y, tangent(*primals, y, *dots)

    return lambda x: whole(x) if kind(x) == "c" else real(x)


def is_reduced(x):
    """Whether the dtype is a 16-bit float, in which PyTorch stores but does not compute."""
    return jnp.issubdtype(x.dtype, np.floating) and x.dtype.itemsize == 2


def is_large(x, least):
    """Whether a longer program for many elements, which takes types of 64 bits, is worth its compilation."""
    return X64 and not any(map(is_symbolic_dim, x.shape)) and x.size >= least


def demand_wide(name, x):
    """NotImplementedError unless ``x`` is float32 or float64, for functions that need the precision."""
    if x.dtype not in (np.float32, np.float64):
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{scalar_name(x)}'; convert the input with .to(torch.float32)"
        )


def wide_dtype(x):
    """The dtype that PyTorch computes ``x`` in: float32 for 16-bit floats, its own for anything else."""
    return np.dtype(np.float32) if is_reduced(x) else x.dtype


def wide(x):
    """``x`` in the dtype that PyTorch computes it in; results are rounded once, at the end."""
    return x.astype(wide_dtype(x))


def widely(f, *arrays):
    """``f`` computed in float32 where the arrays are 16-bit floats, rounded once at the end."""
    if not is_reduced(arrays[0]):
        return f(*arrays)
    out = f(*(a.astype(np.float32) for a in arrays))
    return out.astype(arrays[0].dtype) if out.dtype == np.float32 else out


def per(total, n):
    """``total / n``, rounded once: XLA multiplies by the inverse of a number that it knows, or that is broadcast."""
    if total.dtype.kind != "f":
        return total / n
    return total / lax.optimization_barrier(jnp.full(total.shape, n, total.dtype))


def in_64_bits(f, *arrays):
    """``f`` computed in float64, where there is one, and rounded to the arrays' own dtype."""
    exact = widest(np.float64)
    return f(*(a.astype(exact) for a in arrays)).astype(arrays[0].dtype)


def fused(a, b, c):
    """``a + b * c``, of float32 rounded once, as PyTorch has it from one instruction; XLA may round the product."""
    if a.dtype != np.float32:
        return a + b * c
    exact = widest(np.float64)
    return (a.astype(exact) + b.astype(exact) * c.astype(exact)).astype(np.float32)


def round_to(x, dtype):
    """A float32 array rounded to a 16-bit ``dtype`` and back, which XLA would otherwise skip."""
    bits = jnp.finfo(dtype)
    rounded = lax.reduce_precision(x, bits.nexp, bits.nmant)
    if bits.nexp == jnp.finfo(x.dtype).nexp:
        return rounded
    # reduce_precision makes zeros of numbers below the least normal one, which lie on an even grid
    grid = float(bits.smallest_subnormal)
    even = jnp.round(x / grid) * grid
    small = (jnp.abs(x) < float(bits.smallest_normal)) & (even != 0)  # zeros keep their sign
    return jnp.where(small, x + lax.stop_gradient(even - x), rounded)


def rounded_product(a, b):
    """``a * b`` rounded before it is added to anything: some processors have both of float16 in one instruction."""
    if a.dtype != np.float16:
        return a * b
    return round_to(a.astype(np.float32) * b.astype(np.float32), np.float16).astype(np.float16)


def precise_log1p(x):
    """``log(1 + x)``; XLA's of 64 bits loses two digits from -0.5 to -0.29, where the plain logarithm has them."""
    return jnp.where(x < -0.29, lax.log(1 + x), lax.log1p(x)) if x.dtype == np.float64 else lax.log1p(x)


def conj(x):
    return jnp.conj(x) if jnp.iscomplexobj(x) else x


def inexact(x):
    """Integers as the default dtype."""
    return x.astype(get_default_dtype().np) if kind(x) == "i" else x


def modulus(x):
    """The absolute value."""
    if kind(x) == "c":  # an infinite part counts beside NaN too
        infinite = jnp.isinf(x.real) | jnp.isinf(x.imag)
        return jnp.where(infinite, jnp.inf, lax.abs(jnp.where(infinite, 0, x)))
    return x if jnp.issubdtype(x.dtype, np.unsignedinteger) else lax.abs(x)


def direction(x):
    """The sign of real numbers, 0 for NaN; ``x / |x|`` of complex ones, 0 at 0."""
    if kind(x) == "c":
        size = lax.abs(x)
        least = jnp.where(size == 0, 1, size)
        return jnp.where(size == 0, 0, lax.complex(x.real / least, x.imag / least))
    if kind(x) == "b":
        return x
    return jnp.where((x > 0) | (x < 0), lax.sign(x), jnp.zeros((), x.dtype))


def ties_share(loses, wins):
    """The formulas of a larger or smaller of two: equal operands take half each; beside a NaN both take all."""

    def share(grad, self, other, lost):
        half = grad / 2
        kept = aten["where.self"](self == other, half, grad)
        lost = lost(self, other)
        return aten["masked_fill_.Scalar"](kept, lost, 0)

    return {
        "other": lambda grad, self, other: share(grad, self, other, wins),
        "self": lambda grad, self, other: share(grad, self, other, loses),
    }


def no_derivative(name):
    """The formula of an operator that PyTorch records but cannot differentiate."""
    return rules.undefined(RuntimeError(f"derivative for aten::{name} is not implemented; call it on x.detach()"))


_TYPES = {"same": "The dtype stays.", "int_to_float": "Integers and bools are computed in the default dtype."}


def _described(name, doc, dtype, kinds, shows):
    """The public documentation of a function of one tensor; ``shows`` is ``input -> result``."""
    public = name.replace("special_", "special.")
    x, result = shows.split(" -> ")
    types = "The result is bool." if result in ("True", "False") else _TYPES[dtype]
    missing = " and ".join(_KIND_NAMES[k] for k in "bifc" if k not in kinds)
    refusal = f" NotImplementedError for {missing} tensors." if missing else ""
    return f"""{doc}

    Of every element, whatever the shape. {types}{refusal}

    >>> import torchlike as torch
    >>> torch.{public}(torch.tensor({x}))
    tensor({result})
    """


def unary(name, f, vjp=None, *, dtype="int_to_float", kinds="bifc", doc="", shows="", half=True, **options):
    """Declare a function of one tensor; ``vjp`` is its formula, or {}; ``half``: whether 16-bit floats go."""

    def kernel(self):
        demand(name, self, kinds)
        if not half:
            demand_wide(name, self)
        return widely(f, self)

    kernel.__doc__ = _described(name, doc, dtype, kinds, shows)
    formulas = vjp if vjp is None or isinstance(vjp, dict) else {"self": vjp}
    schema = f"{name}(Tensor self) -> Tensor"
    return pointwise(schema, dtype=dtype, vjp=formulas, numbers="", **options)(kernel)


def demand_factor(name, x, factor, what="alpha"):
    """PyTorch's checks of the type of a number that ``x``, of the result's dtype, is multiplied by."""
    if isinstance(factor, int):
        return
    given, own = kind(factor), kind(x)
    if given == "b" and own != "b":
        raise RuntimeError(
            f"Boolean {what} only supported for Boolean results; {name}() has {x.dtype} ones: use {what}=1"
        )
    if given in "fc" and own in "bi":
        raise RuntimeError(
            f"For integral input tensors, argument {what} must not be a floating point number in {name}(); "
            "convert the tensors first with .to(torch.float32)"
        )
    if given == "c" and own != "c":
        raise RuntimeError(
            f"For non-complex input tensors, argument {what} must not be a complex number in {name}(); "
            "convert the tensors first with .to(torch.complex64)"
        )
