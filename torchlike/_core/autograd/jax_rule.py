"""The backward of a custom Function as its derivative for jax, where jax traces the function that calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from torchlike._base.state import followed
from torchlike._core.tensor.mutation import store
from torchlike._core.tensor.tensor import Tensor, array_of, wrap
from torchlike._core.tensor.views import followed_by_jax
from torchlike._ops.constant import still

if TYPE_CHECKING:
    from torchlike._core.typed import Grads


def given_by_jax(args: Sequence[Any]) -> dict[int, jax.Array]:
    """The values, by position, of those tensors among the arguments that jax may differentiate by."""
    return {i: array_of(a) for i, a in enumerate(args) if isinstance(a, Tensor) and followed_by_jax(a._storage.form)}


def tie(node: Any, given: dict[int, jax.Array], outputs: Sequence[Any], materialized: Callable[..., Any]) -> None:
    """Let jax differentiate the outputs of a call by the backward of ``node``, not through its forward.

    Args:
        given: the arguments as they were before the call.
        materialized: ``materialized(node, grads)`` gives zeros for the gradients that are None.
    """
    plain = [t if isinstance(t, Tensor) and followed_by_jax(t._storage.form) else None for t in outputs]
    for i, t in enumerate(plain):
        if t is not None and (i in node._undefined and _is_marked(node, t)):
            store(t._storage, still(t._storage.value))
            plain[i] = None
    places = [i for i, t in enumerate(plain) if t is not None and (t._view is None or not t._view.steps)]
    kept = [array_of(t) if isinstance(t, Tensor) else None for t in node.to_save or ()]
    rule = _rule(node, list(given), places, [k is not None for k in kept], materialized)
    values = [array_of(outputs[i]) for i in places]
    new = rule(list(given.values()), values, [k for k in kept if k is not None])
    for i, value in zip(places, new, strict=True):
        store(outputs[i]._storage, value)


def _is_marked(node: Any, t: Tensor) -> bool:
    return any(t._storage is x._storage for x in node.non_differentiable or ())


def _rule(node: Any, given: list[int], places: list[int], kept: list[bool], materialized: Callable[..., Any]) -> Any:
    """A function (arguments, outputs, saved values) -> outputs, whose derivative by the arguments is the backward."""

    @jax.custom_vjp
    def rule(inputs: Any, values: Any, saved: Any) -> Any:
        return values

    def backward(residuals: Any, cotangents: Any) -> tuple:
        inputs, values, saved = residuals
        grads: list[Any] = [None] * node._arity
        for i, g in zip(places, cotangents, strict=True):
            grads[i] = wrap(jnp.conj(g))
        got = _called(node, given, _restored(saved, kept), grads, materialized)
        gradients = [_gradient(got[i], x) for i, x in zip(given, inputs, strict=True)]
        return gradients, jax.tree.map(jnp.zeros_like, values), [_zero(x) for x in saved]

    rule.defvjp(lambda inputs, values, saved: (values, (inputs, values, saved)), backward)
    return rule


def _restored(saved: Sequence[Any], kept: Sequence[bool]) -> list[Tensor | None]:
    values = iter(saved)
    return [wrap(next(values)) if here else None for here in kept]


def _called(node: Any, given: list[int], saved: list[Any], grads: Grads, materialized: Callable[..., Any]) -> Any:
    """What the backward of the user gives, who finds ``saved`` in the context."""
    before = node.saved_for_forward, node.needs_input_grad
    node.saved_for_forward = saved
    node.needs_input_grad = tuple([i in given for i in range(len(node.needs_input_grad))])
    try:
        if node.materialize_grads:
            grads = materialized(node, grads)
        backward = followed(node._get_user_fn())
        got = backward(node, list(grads)) if node._forward_cls.boxed_grads_call else backward(node, *grads)
        return got if isinstance(got, tuple) else (got,)
    finally:
        node.saved_for_forward, node.needs_input_grad = before


def _gradient(got: Any, x: jax.Array) -> jax.Array:
    """What the user gave as the gradient of ``x``, as jax wants it."""
    if got is None:
        return jnp.zeros_like(x)
    value = jnp.conj(array_of(got)).astype(x.dtype)
    if value.ndim > x.ndim:
        value = value.sum(tuple(range(value.ndim - x.ndim)))
    axes = tuple(i for i, n in enumerate(x.shape) if n == 1 and value.shape[i] != 1)
    return jnp.broadcast_to(value.sum(axes, keepdims=True), x.shape)


def _zero(x: jax.Array) -> Any:
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return jnp.zeros_like(x)
    return jax.numpy.zeros(x.shape, jax.dtypes.float0)
