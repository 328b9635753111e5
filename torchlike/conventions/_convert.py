"""Gradients from one convention to the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._core.conversion.convert import from_jax_array
from torchlike._core.tensor.tensor import Tensor, is_tensor


def to_jax(gradients: Any) -> Any:
    """Gradients that torchlike (or PyTorch's convention) gave, as JAX would have given them.

    Args:
        gradients: tensors, arrays or numbers of any shape, alone or in any pytree (lists, dicts, None...).

    Returns:
        The same tree with ``jax.Array`` leaves of the same shapes and dtypes: complex ones conjugated,
        real ones unchanged. Cotangents convert by the same rule: JAX's vjp at ``to_jax(v)`` is ``to_jax``
        of PyTorch's at ``v``.

    Raises:
        TypeError: a leaf is no tensor, array or number, or has a dtype without gradients (integer, bool).

    >>> import torchlike as torch
    >>> from torchlike import conventions
    >>> z = torch.tensor(1 + 2j, requires_grad=True)
    >>> z.abs().square().backward()
    >>> conventions.to_jax({"z": z.grad})
    {'z': Array(2.-4.j, dtype=complex64)}
    """
    return _convert("to_jax", gradients, _conjugated)


def from_jax(gradients: Any) -> Any:
    """JAX's gradients as tensors in PyTorch's convention, fit for ``tensor.grad`` and for optimizers.

    Args:
        gradients: arrays, tensors or numbers of any shape, alone or in any pytree.

    Returns:
        The same tree with tensors of the same shapes and dtypes: complex ones conjugated, real ones unchanged.

    Raises:
        TypeError: a leaf is no array, tensor or number, or has a dtype without gradients.

    >>> import jax
    >>> from torchlike import conventions
    >>> conventions.from_jax(jax.grad(lambda z: abs(z) ** 2)(3 + 4j))
    tensor(6.+8.j, dtype=torch.complex128)
    """
    return _convert("from_jax", gradients, lambda leaf: from_jax_array(_conjugated(leaf)))


def _convert(name: str, tree: Any, rule: Callable[[jax.Array], Any]) -> Any:
    def leaf(path: Any, value: Any) -> Any:
        return rule(_inexact(name, jax.tree_util.keystr(path), value))

    return jax.tree_util.tree_map_with_path(leaf, tree, is_leaf=is_tensor)


def _inexact(name: str, path: str, value: Any) -> jax.Array:
    where = f" at {path}" if path else ""
    if isinstance(value, Tensor):
        value = value.detach().jax()
    if not isinstance(value, jax.Array | np.ndarray | np.generic | float | complex):
        raise TypeError(
            f"{name}: expected tensors, arrays or floating point numbers, got {type(value).__name__}{where}"
        )
    value = jnp.asarray(value)
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        raise TypeError(
            f"{name}: expected gradients of floating point or complex dtype, got {value.dtype}{where}; "
            "nothing of that dtype has a gradient"
        )
    return value


def _conjugated(value: jax.Array) -> jax.Array:
    return jnp.conj(value) if jnp.iscomplexobj(value) else value
