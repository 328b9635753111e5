"""Rules that every declaration shares: dtype policies, un-broadcasting, the conjugate convention."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import promotion
from torchlike._base.dtypes import from_np, get_default_dtype
from torchlike._decl.naming import naming

if TYPE_CHECKING:
    from torchlike._base.dtypes import dtype
    from torchlike._decl.typed import Formula, Tree, Value

    Policy = Callable[[dict[str, Any], Iterable[str], Mapping[str, Any]], None]


def category(x: jax.Array) -> int:
    """0: has dimensions, 1: 0-dim, 2: a Python number (jax marks it as weakly typed)."""
    if getattr(x, "weak_type", False):
        return 2
    return 0 if x.ndim else 1


def number_dtype(x: jax.Array) -> dtype:
    """The torch dtype of a Python number inside a kernel: int64, the default float or complex."""
    kind = x.dtype.kind
    if kind == "f":
        return get_default_dtype()
    return get_default_dtype().to_complex() if kind == "c" else from_np(x.dtype)


def common_dtype(arrays: Iterable[jax.Array]) -> dtype:
    """PyTorch's promoted dtype of the arrays (tracers and Python numbers) of one call."""
    pairs = []
    for x in arrays:
        cat = category(x)
        pairs.append((number_dtype(x) if cat == 2 else from_np(x.dtype), cat))
    return promotion.result_type(pairs)


def unknown_truth(x: Any, dtype: np.dtype) -> Any:
    """``x``, to be cast to ``dtype``. XLA must not see that a float was a bool: it would take ``0 * inf`` for 0."""
    return x.astype(np.int8) if x.dtype == np.bool_ and jnp.issubdtype(dtype, jnp.inexact) else x


def _cast(bound: dict[str, Any], names: Iterable[str], dtype: dtype) -> None:
    for name in names:
        value = bound.get(name)
        if isinstance(value, list):
            bound[name] = [None if v is None else unknown_truth(v, dtype.np).astype(dtype.np) for v in value]
        elif value is not None:
            bound[name] = unknown_truth(value, dtype.np).astype(dtype.np)


def _present(bound: Mapping[str, Any], names: Iterable[str]) -> Iterator[Any]:
    for name in names:
        value = bound.get(name)
        if isinstance(value, list):
            yield from (v for v in value if v is not None)
        elif value is not None:
            yield value


def promote(bound: dict[str, Any], names: Iterable[str], avals: Mapping[str, Any]) -> None:
    """Cast the tensors to their common dtype."""
    dtype = common_dtype(list(_present(avals, names)))
    _cast(bound, names, dtype)


def promote_types(bound: dict[str, Any], names: Iterable[str], avals: Mapping[str, Any]) -> None:
    """As ``promote``; a 0-dim tensor counts as the others do."""
    names = list(names)
    dtype = functools.reduce(promotion.promote_types, [from_np(avals[name].dtype) for name in names])
    _cast(bound, names, dtype)


def int_to_float(bound: dict[str, Any], names: Iterable[str], avals: Mapping[str, Any]) -> None:
    """Cast the tensors to their common dtype, integers and bools to the default dtype."""
    dtype = common_dtype(list(_present(avals, names)))
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = get_default_dtype()
    _cast(bound, names, dtype)


def float_and_exponent(bound: dict[str, Any], names: Iterable[str], avals: Mapping[str, Any]) -> None:
    """As ``int_to_float``, but a second tensor, an exponent of integers or reals, stays what it is."""
    first, second = names = list(names)
    kind, exponent = avals[second].dtype, bound.get(second)
    if kind == np.bool_ and first in bound and jnp.issubdtype(bound[first].dtype, jnp.floating):
        raise NotImplementedError("\"ldexp_cpu_exp\" not implemented for 'Bool': an exponent is a number; use .long()")
    int_to_float(bound, names, avals)
    if exponent is not None and (jnp.issubdtype(kind, jnp.integer) or jnp.issubdtype(kind, jnp.floating)):
        bound[second] = exponent


def _floats_of(count: int | None) -> Policy:
    """As ``promote``, after integers and bools among the first ``count`` tensors became floats by themselves."""

    def cast(bound: dict[str, Any], names: Iterable[str], avals: Mapping[str, Any]) -> None:
        names, known = list(names), dict(avals)
        for name in names[:count]:
            if not jnp.issubdtype(avals[name].dtype, jnp.inexact):
                _cast(bound, [name], get_default_dtype())
                known[name] = jax.ShapeDtypeStruct(avals[name].shape, get_default_dtype().np)
        promote(bound, names, known)

    return cast


def of_quotient(bound: dict[str, Any], names: Iterable[str], avals: Mapping[str, Any]) -> None:
    """As ``promote``; of three tensors the second and third may not both be integers, which are not divided."""
    _, *parts = names = list(names)
    if not any([jnp.issubdtype(avals[name].dtype, jnp.inexact) for name in parts]):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported; convert the tensors with .to(torch.float32), "
            "or use input + value * torch.div(tensor1, tensor2, rounding_mode='trunc')"
        )
    promote(bound, names, avals)


def bool_to_int(bound: dict[str, Any], names: Iterable[str], avals: Mapping[str, Any]) -> None:
    """As ``promote``, with bool and integers widened to int64 (sum, prod and their like)."""
    dtype = common_dtype(list(_present(avals, names)))
    if not (dtype.is_floating_point or dtype.is_complex):
        _cast(bound, names, from_np(np.dtype(np.int64)))
    else:
        _cast(bound, names, dtype)


def same(bound: dict[str, Any], names: Iterable[str], avals: Mapping[str, Any]) -> None:
    """Leave the tensors as they came."""


POLICIES: dict[str, Policy] = {
    "promote": promote, "int_to_float": int_to_float, "bool_to_int": bool_to_int, "same": same,
    "promote_types": promote_types, "of_quotient": of_quotient, "each_int_to_float": _floats_of(None),
    "first_int_to_float": _floats_of(1), "float_and_exponent": float_and_exponent,
}  # fmt: skip


def policy(rule: str, function: str) -> Policy:
    """The policy that the declaration of ``function`` names; one that ends with " but bool" refuses these."""
    base, but, _ = rule.partition(" but bool")
    found = POLICIES[base]

    def checked(bound: dict[str, Any], names: Iterable[str], avals: Mapping[str, Any]) -> None:
        if any([x.dtype == np.bool_ for x in _present(bound, names)]):
            raise RuntimeError(f"{function}: the input tensor may not be a boolean tensor; convert it with .to(dtype)")
        found(bound, names, avals)

    return checked if but else found


def conj(tree: Tree) -> Tree:
    """Complex conjugate of every complex leaf; real leaves as they are."""
    return jax.tree.map(lambda x: jnp.conj(x) if jnp.iscomplexobj(x) else x, tree)


def adjoint(f: Callable[..., Any], *primals: Value) -> Callable[[Any], tuple[Any, ...]]:
    """PyTorch's vjp of ``f``: L* of its derivative L.

    jax.vjp transposes with respect to Re(ct . t), PyTorch's inner product is Re(conj(g) . t);
    hence L*(g) = conj(L^T(conj(g))).  Returns the function from cotangents to gradients.
    """
    _, pull = jax.vjp(f, *primals)
    return lambda grads: conj(pull(conj(grads)))


def fit(grad: jax.Array, like: jax.Array | jax.ShapeDtypeStruct) -> jax.Array:
    """Undo broadcasting, promotion and real-to-complex, once for every formula."""
    if naming():  # the engine that runs it does that
        return grad
    if grad.shape != like.shape:
        if grad.ndim < len(like.shape):
            grad = jnp.broadcast_to(grad, like.shape)
        lead = grad.ndim - len(like.shape)
        grad = jnp.sum(grad, tuple(range(lead)))
        ones = tuple(i for i, (g, n) in enumerate(zip(grad.shape, like.shape, strict=True)) if n == 1 != g)
        grad = jnp.sum(grad, ones, keepdims=True) if ones else grad
        grad = jnp.broadcast_to(grad, like.shape)
    if jnp.iscomplexobj(grad) and not jnp.issubdtype(like.dtype, jnp.complexfloating):
        grad = jnp.real(grad)
    return grad.astype(like.dtype)


def total(x: jax.Array, axes: Any = None, keepdims: bool = False) -> jax.Array:
    """The sum over ``axes`` in the dtype of ``x``. Halves are added up in float32, as PyTorch does.

    jax does so only where it is told no dtype, which would make int32 int64.
    """
    if jnp.iscomplexobj(x):  # XLA adds up floats in parts, complex numbers one by one
        return lax.complex(jnp.sum(x.real, axes, keepdims=keepdims), jnp.sum(x.imag, axes, keepdims=keepdims))
    half = jnp.issubdtype(x.dtype, jnp.floating)
    return jnp.sum(x, axes, keepdims=keepdims, dtype=None if half else x.dtype)


def no_tangent(name: str) -> NotImplementedError:
    """The error of forward AD through an input whose derivative nobody knows."""
    return NotImplementedError(
        f"Trying to use forward AD with {name} that does not support it: the derivative of one of its inputs is not "
        "known; .detach() this input"
    )


class NoDerivative(RuntimeError):
    """Raised by a rule of jax for what has no derivative: the backward raises a RuntimeError of its message."""


def undefined(error: Exception) -> Formula:
    """The formula of a derivative that does not exist: its backward raises ``error``."""

    def formula(grad: jax.Array) -> NoReturn:
        raise type(error)(*error.args)  # its own traceback would keep the tensors of each call

    formula.error = error
    return formula


def checked(formula: Formula, check: Callable[..., Any]) -> Formula:
    """The formula, whose backward raises where ``check``, of what formulas take, says so.

    Args:
        formula: of the gradients.
        check: gives (bad flag, exception) as the check of an operator does, or None where nothing can be bad. Mapped
            backwards are not checked, as in PyTorch.
    """
    formula.check = check
    return formula


def strong(x: Value) -> jax.Array:
    """The array without jax's weak type, so that a result promotes like any tensor."""
    x = jnp.asarray(x)
    return lax.convert_element_type(x, x.dtype)


def differentiable(dtype: np.dtype) -> bool:
    """Whether values of this numpy dtype have gradients."""
    return jnp.issubdtype(dtype, jnp.inexact)
