"""Words: PyTorch's operators inside formulas, where a formula is to be seen as the calls that PyTorch makes.

On values a word runs the kernel of its operator. While a formula is traced for a ``__torch_dispatch__`` it becomes one
equation that keeps the operator's name; everything else in a formula is jax, whose primitives have names in aten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray

from torchlike._base.jaxprs import Primitive
from torchlike._decl.derive import into
from torchlike._decl.naming import naming
from torchlike._decl.op import REGISTRY

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

    from torchlike._base.jaxprs import ClosedJaxpr

# Words that are no declared operator, or views, whose kernels want a tensor's layout.
_PLAIN = {
    "diagonal": lambda x, offset, dim1, dim2: jnp.diagonal(x, offset, dim1, dim2),
    "detach": lambda x: x,
    "empty_like": lambda x: jnp.zeros_like(x),
    "eq.Scalar": lambda x, number: x == number,
    "fill_.Scalar": lambda x, number: jnp.full_like(x, number),
    "expand": lambda x, size: jnp.broadcast_to(x, size),
    "_unsafe_view": lambda x, size: jnp.reshape(x, size),
    "copy_": lambda x, source: source,
    "mul_.Scalar": lambda x, number: x * number,
    "mul.Scalar": lambda x, number: x * number,
    "new_zeros": lambda like, size, options=False: jnp.zeros(size, like.dtype),
    "ones": lambda size, like: jnp.ones(size, like.dtype),
    "ones_like": lambda x: jnp.ones_like(x),
    "permute": lambda x, dims: jnp.transpose(x, dims),
    "scalar_tensor": lambda number, like: jnp.asarray(number, like.dtype),
    "pow_.Scalar": lambda x, number: jnp.power(x, number),
    "select.int": lambda x, dim, index: jax.lax.index_in_dim(x, index, dim, keepdims=False),
    "slice.Tensor": lambda x, dim, start, end: jax.lax.slice_in_dim(x, start, end, axis=dim),
    "squeeze.dim": lambda x, dim: jnp.squeeze(x, dim) if x.ndim else x,
    "t": lambda x: x.T,
    "transpose.int": lambda x, dim0, dim1: jnp.swapaxes(x, dim0, dim1) if x.ndim else x,
    "unsqueeze": lambda x, dim: jnp.expand_dims(x, dim),
    "view": lambda x, size: jnp.reshape(x, size),
    "zeros": lambda size, like: jnp.zeros(size, like.dtype),
    "zeros_like": lambda x: jnp.zeros_like(x),
}


class Word:
    """An operator as formulas call it, by its full name in aten; ``add_`` is shown in place and computed as ``add``."""

    __slots__ = ("name", "compute", "__weakref__")

    def __init__(self, name: str, compute: Callable[..., Any] | None = None) -> None:
        self.name = name
        self.compute = compute or _PLAIN.get(name) or _kernel(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not naming():
            return self.compute(*args, **kwargs)
        leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=lambda x: x is None)
        arrays = [x for x in leaves if isinstance(x, jax.Array)]
        fixed = tuple([_SLOT if isinstance(x, jax.Array) else x for x in leaves])
        out = word_p.bind(*arrays, word=self, tree=tree, fixed=fixed)
        return out[0] if len(out) == 1 else tuple(out)


_SLOT = object()


def arguments(
    arrays: Iterable[jax.Array], tree: PyTreeDef, fixed: Iterable[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) of the call of a word."""
    arrays = iter(arrays)
    return jax.tree.unflatten(tree, [next(arrays) if x is _SLOT else x for x in fixed])


def _kernel(name: str) -> Callable[..., Any]:
    """The kernel of the declared operator of this name, or in place, as a function of PyTorch's arguments."""
    inplace = name not in REGISTRY
    head, dot, overload = name.partition(".")
    op = REGISTRY[head.removesuffix("_") + dot + overload] if inplace else REGISTRY[name]

    def compute(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip([a.name for a in op.schema.args], args, strict=False)) | kwargs
        values, lens = [], []
        for a in op.dynamic:
            value = given.get(a.name, a.default)
            if a.is_list:
                lens.append(len(value))
            values.extend(value if a.is_list else (value,))
        static = tuple([_key(given.get(a.name, a.default)) for a in op.static])
        out = op.forward((*static, tuple(lens)) if op.lists else static)(*values)
        return into(name, out, values[0]) if inplace else out

    return compute


def _key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


word_p, later_p, unseen_p = Primitive("word"), Primitive("later"), Primitive("unseen")
for _p in (word_p, later_p, unseen_p):
    _p.multiple_results = True


@word_p.def_abstract_eval
def _(*avals: ShapedArray, word: Word, tree: PyTreeDef, fixed: tuple[Any, ...]) -> list[ShapedArray]:
    def run(*xs: jax.Array) -> Any:
        args, kwargs = arguments(xs, tree, fixed)
        return word.compute(*args, **kwargs)

    out = jax.eval_shape(run, *[jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals])
    return [ShapedArray(o.shape, o.dtype) for o in (out if isinstance(out, tuple | list) else (out,))]


@later_p.def_abstract_eval
def _(*avals: ShapedArray, rank: int, jaxpr: ClosedJaxpr) -> list[ShapedArray]:
    return jaxpr.out_avals


@unseen_p.def_abstract_eval
def _(*avals: ShapedArray, jaxpr: ClosedJaxpr) -> list[ShapedArray]:
    return jaxpr.out_avals


def later(function: Callable[..., Any], *values: jax.Array, rank: int = 1) -> jax.Array:
    """``function(*values)``; what PyTorch computes in a node of its own, after those made later by ``rank``."""
    if not naming():
        return function(*values)
    return later_p.bind(*values, rank=rank, jaxpr=jax.make_jaxpr(function)(*values))[0]


def unseen(function: Callable[..., Any], *values: jax.Array) -> jax.Array:
    """``function(*values)``; what PyTorch has saved, or never computes: no ``__torch_dispatch__`` sees it."""
    if not naming():
        return function(*values)
    return unseen_p.bind(*values, jaxpr=jax.make_jaxpr(function)(*values))[0]


def spelled(name: str, compute: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``compute(*args, **kwargs)``, which the operator ``name`` computes too."""
    return Word(name, compute)(*args, **kwargs) if naming() else compute(*args, **kwargs)


class _Words:
    """PyTorch's operators by name: ``aten.tanh(x)``, ``aten["scatter.src"](...)``."""

    def __init__(self) -> None:
        self._found = {}

    def __getitem__(self, name: str) -> Word:
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = Word(name)
        return found

    def __getattr__(self, name: str) -> Word:
        if name.startswith("__"):  # what tools ask of any object
            raise AttributeError(name)
        return self[name]


aten = _Words()
__all__ = ["Word", "arguments", "aten", "later", "later_p", "spelled", "unseen", "word_p"]
