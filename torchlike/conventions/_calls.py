"""What a report differentiates: one array of the arguments of a function, in each library's form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base.state import no_grad
from torchlike._core.conversion.convert import from_jax_array
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor, is_tensor
from torchlike.conventions._namesakes import KERNEL, alike, namesake_of
from torchlike.interop.jax_functions import from_jax

_NUMBERS = jax.Array | np.ndarray | np.generic | float | complex | int
_cat = FUNCTIONS["cat"]


@dataclass(frozen=True)
class Problem:
    """One array to differentiate with respect to.

    Attributes:
        name: the function's name, and the array's place in its arguments where there are several.
        place: that place as text, "" for a single array.
        z, value: the array, and the result.
        of_tensor: the function of a tensor in the place of z, which returns one tensor.
        of_arrays: the same of a jax array, which returns one.
        of_jax: JAX's function of an array; jax_name: its name.
    """

    name: str
    place: str
    z: jax.Array
    value: jax.Array
    of_tensor: Callable
    of_arrays: Callable
    of_jax: Callable
    jax_name: str


def problem(f: Callable, point: Sequence[Any], argnum: Any, jax_function: Callable | None) -> list[Problem]:
    """A problem for each array of the chosen arguments."""
    arguments = tuple(_argument(p, i, _precision(point)) for i, p in enumerate(point))
    chosen = [_place(n, len(arguments)) for n in (argnum if isinstance(argnum, Sequence) else [argnum])]
    if not chosen:
        raise ValueError("report: argnum is empty; expected the number of an argument, or several")
    flat, tree = jax.tree_util.tree_flatten_with_path(arguments)
    paths, leaves = [path for path, _ in flat], [leaf for _, leaf in flat]
    picked = [i for n in chosen for i, path in enumerate(paths) if path[0].idx == n]
    several = isinstance(argnum, Sequence) or any(len(paths[i]) > 1 for i in picked)
    for i in picked:
        _checked(leaves[i], _keystr(paths[i]))
    torch_f = f
    if _is_jax(f, tree.unflatten(map(_tensor, leaves))):
        torch_f, jax_function = from_jax(f), f if jax_function is None else jax_function
    found = []
    for i in picked:
        place = _keystr(paths[i]) if several else ""
        found.append(_problem(f, torch_f, jax_function, tree, leaves, i, place))
    return found


def _problem(
    f: Callable, torch_f: Callable, jax_function: Callable | None, tree: Any, leaves: list, i: int, place: str
) -> Problem:
    def filled(x: Any, form: Callable) -> Any:
        return tree.unflatten([x if k == i else form(leaf) for k, leaf in enumerate(leaves)])

    def of_tensor(t: Tensor) -> Tensor:
        return _joined(torch_f(*filled(t, _tensor)))

    def of_arrays(x: jax.Array) -> jax.Array:
        return of_tensor(from_jax_array(x)).jax()

    z = leaves[i]
    value = of_arrays(z)
    jax_name, call = _of_jax(f, jax_function, tree, leaves, value)

    def of_jax(x: jax.Array) -> jax.Array:
        return joined_arrays(call(*filled(x, lambda leaf: leaf)))

    if call is None:
        of_jax = of_arrays
    name = name_of(f) + (f", d/d{place}" if place else "")
    return Problem(name, place, z, value, of_tensor, of_arrays, of_jax, jax_name)


def _of_jax(f: Callable, given: Callable | None, tree: Any, leaves: list, value: jax.Array) -> tuple[str, Any]:
    """JAX's function to compare with, and its name; None where it is torchlike's kernel."""
    if given is not None:
        return name_of(given, full=True), _of_this_shape(given, value)
    found = namesake_of(f)
    if found is not None:
        try:
            same = alike(joined_arrays(found[1](*tree.unflatten(leaves))), value)
        except Exception:  # another signature: not a namesake
            same = False
        if same:
            return found
    return KERNEL, None


def _of_this_shape(given: Callable, value: jax.Array) -> Callable:
    def call(*arguments: Any) -> Any:
        out = given(*arguments)
        joined = joined_arrays(out)
        if joined.shape != value.shape or jnp.iscomplexobj(joined) != jnp.iscomplexobj(value):
            raise ValueError(
                f"report: jax_function gives {joined.dtype} of shape {joined.shape}, the function {value.dtype} of "
                f"shape {value.shape}: they are not two forms of one function"
            )
        return joined.astype(value.dtype)

    return call


def _is_jax(f: Callable, arguments: Any) -> bool:
    """Whether a function is one of JAX: it says so, or returns arrays."""
    if isinstance(f, jax.custom_jvp | jax.custom_vjp) or str(getattr(f, "__module__", "")).split(".")[0] == "jax":
        return True
    with no_grad():
        out = _leaves(f(*arguments))
    return bool(out) and all(isinstance(x, jax.Array) for x in out)


def array_of(value: Any, what: str) -> jax.Array:
    """A number or an array as an array; Python numbers come in double precision."""
    if isinstance(value, Tensor):
        return value.detach().jax()
    if isinstance(value, _NUMBERS):
        return jnp.asarray(value)
    raise TypeError(
        f"report: {what} is of type {type(value).__name__}; expected a number, a numpy or jax array, or a tensor"
    )


def _precision(point: Sequence[Any]) -> Any:
    """The real dtype that numbers have beside the arrays of a point, so that they do not widen results."""
    given = [x for x in jax.tree.leaves(point, is_leaf=is_tensor) if isinstance(x, Tensor | jax.Array | np.ndarray)]
    dtypes = [x.dtype.np if isinstance(x, Tensor) else x.dtype for x in given]
    inexact = [d for d in dtypes if jnp.issubdtype(d, jnp.inexact)]
    return jnp.finfo(jnp.result_type(*inexact)).dtype if inexact else None


def _argument(value: Any, position: int, precision: Any) -> Any:
    """An argument with arrays in the place of numbers; ints stay, since they may be dimensions."""

    def leaf(x: Any) -> Any:
        if isinstance(x, int):
            return x
        array = array_of(x, f"argument {position}")
        if precision is None or type(x) not in (float, complex):
            return array
        return array.astype(jnp.result_type(precision, np.complex64) if type(x) is complex else precision)

    return jax.tree.map(leaf, value, is_leaf=is_tensor)


def _tensor(leaf: Any) -> Any:
    return leaf if isinstance(leaf, int) else from_jax_array(leaf)


def _place(argnum: int, count: int) -> int:
    if not -count <= argnum < count:
        raise ValueError(f"report: argnum is {argnum}, but the point has {count} argument(s)")
    return argnum % count


def _checked(z: Any, place: str) -> None:
    z = jnp.asarray(z)
    if not jnp.issubdtype(z.dtype, jnp.inexact):
        raise TypeError(
            f"report: argument {place} has dtype {z.dtype}; expected a floating point or complex one, "
            "as float(x) or complex(x) gives"
        )
    if not z.size:
        raise ValueError(f"report: argument {place} has shape {z.shape}; expected at least one element")


def _keystr(path: Any) -> str:
    return f"{path[0].idx}{jax.tree_util.keystr(path[1:])}"


def _leaves(out: Any) -> list:
    """The leaves of a result, of PyTorch's named results too."""
    if isinstance(out, tuple | list):
        return [leaf for part in out for leaf in _leaves(part)]
    return jax.tree.leaves(out, is_leaf=is_tensor)


def _joined(out: Any) -> Tensor:
    """The result as one tensor: the only one with a derivative, or all of them in a row."""
    leaves = _leaves(out)
    wrong = next((x for x in leaves if not isinstance(x, Tensor)), None)
    if wrong is not None or not leaves:
        raise TypeError(
            f"report: the function returned {type(wrong).__name__}; expected one torchlike tensor, or a tree of them "
            "(write it with torchlike's functions: they run under JAX as well)"
        )
    smooth = [x for x in leaves if x.dtype.is_floating_point or x.dtype.is_complex]
    if not smooth:
        raise TypeError(f"report: the function returned dtype {leaves[0].dtype}, which has no derivative")
    return smooth[0] if len(smooth) == 1 else _cat([x.reshape(-1) for x in smooth])


def joined_arrays(out: Any) -> jax.Array:
    """The same of arrays."""
    leaves = [jnp.asarray(x) for x in jax.tree.leaves(out)]
    smooth = [x for x in leaves if jnp.issubdtype(x.dtype, jnp.inexact)]
    if not smooth:
        raise TypeError("report: jax_function returned no floating point or complex array")
    return smooth[0] if len(smooth) == 1 else jnp.concatenate([x.reshape(-1) for x in smooth])


def name_of(f: Callable, full: bool = False) -> str:
    """A function's name; with its module where it is JAX's and ``full``."""
    f = getattr(f, "func", f)  # functools.partial
    name = getattr(f, "__name__", type(f).__name__)
    module = str(getattr(f, "__module__", "") or "")
    if full and module.split(".")[0] == "jax":
        public = next((m for m in _PUBLIC if getattr(m, name, None) is f), None)
        return f"{public.__name__ if public else module}.{name}"
    return "f" if name == "<lambda>" and not full else "jax_function" if name == "<lambda>" else name


_PUBLIC = (jnp, jax.nn, jax.lax, jnp.linalg)
