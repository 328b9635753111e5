"""Comparisons, predicates and logic: results are bool and have no derivative."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base.dtypes import get_default_dtype
from torchlike._base.result_layouts import elementwise
from torchlike._decl.op import op, pointwise
from torchlike._ops import _composed
from torchlike._ops._elementwise import broadcast, demand, kind, modulus, unary


def _no_slope(grad):
    return jnp.zeros_like(grad)


_ENDED = {"self": _no_slope, "other": _no_slope}  # used in place, where the result is floating


def _comparison(name, f, sign, kinds, doc):
    def kernel(self, other):
        self, other = broadcast(name, self, other)
        demand(name, self, kinds)
        return f(self, other)

    kernel.__doc__ = doc
    schema = f"{name}.Tensor(Tensor self, Tensor other) -> Tensor"
    return pointwise(schema, dtype="promote", vjp=_ENDED, operator=sign, numbers="other")(kernel)


eq = _comparison("eq", lax.eq, "==", "bifc", "Elementwise ``input == other`` as a bool tensor.")
ne = _comparison("ne", lax.ne, "!=", "bifc", "Elementwise ``input != other`` as a bool tensor.")
lt = _comparison("lt", lax.lt, "<", "bif", "Elementwise ``input < other`` as a bool tensor.")
le = _comparison("le", lax.le, "<=", "bif", "Elementwise ``input <= other`` as a bool tensor.")
gt = _comparison("gt", lax.gt, ">", "bif", "Elementwise ``input > other`` as a bool tensor.")
ge = _comparison("ge", lax.ge, ">=", "bif", "Elementwise ``input >= other`` as a bool tensor.")


def truth(x):
    """What counts as true: everything but zero (NaN too)."""
    return x if x.dtype == np.bool_ else x != 0


def _logical(name, f, doc):
    def kernel(self, other):
        return f(*broadcast(name, truth(self), truth(other)))

    kernel.__doc__ = doc
    schema = f"{name}(Tensor self, Tensor other) -> Tensor"
    return pointwise(schema, vjp={}, numbers="")(kernel)


logical_and = _logical("logical_and", lax.bitwise_and, "Whether both elements are non-zero.")
logical_or = _logical("logical_or", lax.bitwise_or, "Whether either element is non-zero.")
logical_xor = _logical("logical_xor", lax.bitwise_xor, "Whether exactly one of the elements is non-zero.")
logical_not = unary(
    "logical_not",
    lambda x: x == 0 if x.dtype != np.bool_ else ~x,
    {},
    dtype="same",
    doc="Whether the element is zero.",
    shows="0.0 -> True",
)


def _predicate(name, f, doc, variants="function method", kinds="bifc", **options):
    return unary(name, f, {}, dtype="same", doc=doc, variants=variants, kinds=kinds, **options)


def _false(x):
    return jnp.zeros(x.shape, np.bool_)


def _isinf(x):
    return jnp.isinf(jnp.real(x)) | jnp.isinf(jnp.imag(x)) if kind(x) == "c" else jnp.isinf(x)


isnan = _predicate("isnan", lambda x: x != x, "Whether the element is NaN.", shows="torch.nan -> True")
isinf = _predicate(
    "isinf",
    lambda x: _isinf(x) if kind(x) in "fc" else _false(x),
    "Whether the element is infinite (for complex, either part).",
    shows="-torch.inf -> True",
)
isfinite = _predicate(
    "isfinite",
    lambda x: jnp.isfinite(x) if kind(x) in "fc" else ~_false(x),
    "Whether the element is neither infinite nor NaN.",
    shows="2.0 -> True",
    aten={"out": None, "calls": _composed.isfinite},
)
isreal = _predicate(
    "isreal",
    lambda x: jnp.imag(x) == 0 if kind(x) == "c" else ~_false(x),
    "Whether the element has no imaginary part.",
    shows="1 + 2j -> False",
    aten={"out": None, "calls": _composed.isreal},
)


def _signed_inf(name, sign, doc):
    def kernel(self):
        if kind(self) == "c":
            raise RuntimeError(f"{name} does not support complex inputs; use it on .real or .imag")
        return self == sign * np.inf if kind(self) == "f" else _false(self)

    kernel.__doc__ = doc
    return pointwise(f"{name}(Tensor self) -> Tensor", vjp={}, numbers="", variants="function method out", out="exact")(
        kernel
    )


isposinf = _signed_inf("isposinf", 1, "Whether the element is +inf.")
isneginf = _signed_inf("isneginf", -1, "Whether the element is -inf.")


def _signbit(x):
    if kind(x) == "f":
        return jnp.signbit(x)
    return x < 0 if kind(x) == "i" else _false(x)


signbit = _predicate(
    "signbit",
    _signbit,
    "Whether the sign bit is set (-0.0 too).",
    "function method out",
    "bif",
    out="exact",
    shows="-0.0 -> True",
)


def _isclose(name, self, other, rtol, atol, equal_nan):
    if self.dtype != other.dtype:
        raise RuntimeError(f"{name}(): {self.dtype} did not match {other.dtype}; convert one with .to(dtype)")
    self, other = broadcast(name, self, other)
    close = self == other
    if equal_nan and kind(self) in "fc":
        close |= (self != self) & (other != other)
    tolerant = (rtol != 0) | (atol != 0)
    if kind(self) in "bi":  # whose difference may not fit in their dtype
        self, other = (x.astype(get_default_dtype().np) for x in (self, other))
    allowed = atol + modulus(rtol * other)
    gap = lax.abs(self - other)
    return close | (tolerant & jnp.isfinite(gap) & (gap <= allowed))


@op(
    "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
    aten={"out": None, "calls": _composed.isclose},
    vjp={},
    variants="",
    layout=elementwise,
)
def isclose(self, other, rtol, atol, equal_nan):
    return _isclose("isclose", self, other, rtol, atol, equal_nan)


@op(
    "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
    aten={
        "schema": "(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
        "out": None,
    },
    vjp={},
    variants="",
)
def all_close(self, other, rtol, atol, equal_nan):
    return jnp.all(_isclose("allclose", self, other, rtol, atol, equal_nan))


@op(
    "equal(Tensor self, Tensor other) -> Tensor",
    aten={"schema": "(Tensor self, Tensor other) -> bool", "out": None},
    vjp={},
    variants="",
)
def all_equal(self, other):
    return jnp.all(self == other) if self.shape == other.shape else jnp.zeros((), bool)
