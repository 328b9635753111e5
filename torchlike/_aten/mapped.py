"""Calls over a mapped axis, and along tangents, as aten calls: what a dispatch mode around a vmap or jvp sees.

A pointwise operator is the same call of the tensors below, one with a ``dim`` is that of another dimension; anything
else is what its kernel consists of, primitive by primitive, as far as aten has words for that.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.interpreters.partial_eval import dce_jaxpr

from torchlike._aten import lower
from torchlike._aten.jaxpr import is_number, missing, run, whole
from torchlike._aten.lower import redispatch
from torchlike._aten.packets import ops
from torchlike._base.dims import wrap_dim
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.batch import SPLIT, Batch
from torchlike._decl.derive import Derived
from torchlike._decl.op import Op
from torchlike._ops import view as views

_aten = ops.aten


def as_aten_calls(op: Any, inputs: tuple) -> Any:
    """The results of a kernel over a mapped axis or along tangents; None where aten has no words for it."""
    if isinstance(op, Batch):
        found = _by_name(op, inputs)
        if found is not None:
            return found
    elif not (isinstance(op, Derived) and op.name.endswith("_jvp")):
        return None
    return _by_parts(op, inputs)


# -- by name ---------------------------------------------------------------------------------------------------------
_ALONG = frozenset("softmax log_softmax cumsum cumprod amax amin logsumexp sort sum mean prod all any".split())


def _by_name(op: Batch, inputs: tuple) -> Any:
    """One call of the operator itself."""
    base = op.base
    if not isinstance(base, Op) or op.out_dim or SPLIT in op.in_dims or op.size is not None:
        return None
    given = [x for x in inputs if isinstance(x, Tensor)]
    if base.pointwise and len({x.dtype for x in given}) == 1:
        return lower.call(base, _aligned(inputs, op.in_dims), op.static)
    if base.name in _ALONG and len(given) == 1 and inputs[0] is given[0] and op.in_dims[0] is not None:
        static = _shifted(base, op.static, given[0].ndim - 1)
        if static is not None:
            return lower.call(base, (_first(inputs[0], op.in_dims[0]), *inputs[1:]), static)
    return None


def _first(x: Any, dim: int) -> Any:
    """``x`` with its mapped axis in front."""
    if dim == 0:
        return x
    return redispatch(_aten.permute.default, x, [dim, *[d for d in range(x.ndim) if d != dim]])


def _aligned(inputs: Sequence[Any], dims: Sequence[Any]) -> tuple:
    """The inputs with mapped axes in front, and dimensions of length 1 after these up to those of the largest."""
    pairs = list(zip(inputs, dims, strict=True))
    most = max(x.ndim - (d is not None) for x, d in pairs if isinstance(x, Tensor))

    def one(x: Any, d: Any) -> Any:
        if d is None:
            return x
        x = _first(x, d)
        for _ in range(most + 1 - x.ndim):
            x = redispatch(_aten.unsqueeze.default, x, 1)
        return x

    return tuple([one(x, d) for x, d in pairs])


def _shifted(base: Op, static: tuple, ndim: int) -> tuple | None:
    """The static arguments for a tensor with one more dimension in front; None where they say nothing of dimensions."""
    found = list(static)
    for i, a in enumerate(base.static):
        if a.name == "dim" and i < len(static) and ndim:
            dim = static[i]
            if isinstance(dim, int):
                found[i] = wrap_dim(dim, ndim) + 1
            elif a.is_list:
                found[i] = tuple([wrap_dim(d, ndim) + 1 for d in dim or range(ndim)])
            else:
                return None
            return tuple(found)
    return None


# -- by parts --------------------------------------------------------------------------------------------------------


def _by_parts(op: Any, inputs: tuple) -> Any:
    """The primitives of the kernel."""
    if any(x is not None and not isinstance(x, Tensor) and not is_number(x) for x in inputs):
        return None
    places = [i for i, x in enumerate(inputs) if x is not None]
    values = [inputs[i] for i in places]  # of a tensor, which may wrap others, the shape and dtype say all
    avals = tuple(
        [jax.ShapeDtypeStruct(tuple(v.shape), v.dtype.np) if isinstance(v, Tensor) else type(v) for v in values]
    )
    key = ("aten", tuple(places), avals)
    traced = op.derived.get(key)
    if traced is None:
        forward, n = op.forward(()), len(inputs)

        def function(*given: Any) -> Any:
            filled = dict(zip(places, given, strict=True))
            return forward(*[filled.get(i) for i in range(n)])

        shapes = [a if isinstance(a, jax.ShapeDtypeStruct) else v for a, v in zip(avals, values, strict=True)]
        traced = op.derived[key] = _traced(function, shapes)
    if traced is _OPAQUE:
        return None
    closed, several = traced
    got = tuple([whole(x) for x in run(closed, [inputs[i] for i in places])])
    if any(map(is_number, got)):
        return None
    got = _apart(got, inputs)
    return got if several else got[0]


def _apart(results: tuple, inputs: tuple) -> tuple:
    """The results, each with memory of its own: what merely passes through, or is a view, is copied."""
    taken = {id(x._storage) for x in inputs if isinstance(x, Tensor)}
    found = []
    for t in results:
        if id(t._storage) in taken:
            t = redispatch(_aten.clone.default, t)
        taken.add(id(t._storage))
        found.append(t)
    return tuple(found)


_OPAQUE = object()


def _traced(forward: Callable, avals: Sequence[Any]) -> Any:
    """(jaxpr, whether it gives a tuple), or ``_OPAQUE``."""
    several: list[bool] = []

    def function(*values: Any) -> Any:
        out = forward(*values)
        several.append(isinstance(out, tuple | list))
        return out

    # Without names: what jax remembers of parts with words in them could not be mapped when the kernel is compiled.
    closed = jax.make_jaxpr(function)(*avals)
    jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return _OPAQUE if missing(jaxpr) else (closed.replace(jaxpr=jaxpr), several[-1])


# -- views -----------------------------------------------------------------------------------------------------------


def view(op: Any, t: Any, layout: Any, example: Any, args: tuple) -> Any:
    """The view ``op`` of each example, which has ``layout``, mapped axis first; None where it has no name for that."""
    make = _VIEWS.get(op.base)
    if make is None or not example.ndim:
        return None
    first = _first(t, op.dim)
    if make is _SHAPED[views.view_] and not lower.viewable(first, list(layout.shape)):
        return None
    return make(first, example.ndim, layout, *args)


def _dims(name: str, count: int, extra: int = 0) -> Callable:
    """A view whose first ``count`` arguments are dimensions; ``extra``: of how many more than the example has."""
    head, _, overload = name.partition(".")
    func = getattr(getattr(_aten, head), overload or "default")

    def make(t: Any, ndim: int, layout: Any, *args: Any) -> Any:
        dims = [wrap_dim(d, ndim + extra) + 1 for d in args[:count]]
        return redispatch(func, t, *dims, *args[count:])

    return make


def _permute(t: Any, ndim: int, layout: Any, dims: Sequence[int]) -> Any:
    return redispatch(_aten.permute.default, t, [0, *[wrap_dim(d, ndim) + 1 for d in dims]])


def _t(t: Any, ndim: int, layout: Any) -> Any:
    return redispatch(_aten.transpose.int, t, 1, 2) if ndim == 2 else redispatch(_aten.alias.default, t)


def _view(t: Any, ndim: int, layout: Any, *args: Any) -> Any:
    return redispatch(_aten.view.default, t, list(layout.shape))


def _expand(t: Any, ndim: int, layout: Any, *args: Any) -> Any:
    for _ in range(len(layout.shape) - 1 - ndim):
        t = redispatch(_aten.unsqueeze.default, t, 1)
    return redispatch(_aten.expand.default, t, list(layout.shape))


def _diagonal(t: Any, ndim: int, layout: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return redispatch(_aten.diagonal.default, t, offset, wrap_dim(dim1, ndim) + 1, wrap_dim(dim2, ndim) + 1)


_SHAPED: dict[Any, Callable] = {views.view_: _view, views.reshape_alias: _view}
_VIEWS: dict[Any, Callable] = {
    **_SHAPED,
    views.alias: lambda t, ndim, layout: redispatch(_aten.alias.default, t),
    views.transpose: _dims("transpose.int", 2),
    views.unsqueeze: _dims("unsqueeze", 1, 1),
    views.squeeze_dim: _dims("squeeze.dim", 1),
    views.select: _dims("select.int", 1),
    views.slice_: _dims("slice.Tensor", 1),
    views.unfold: _dims("unfold", 1),
    views.permute: _permute,
    views.expand: _expand,
    views.diagonal: _diagonal,
    views.t: _t,
}

lower.MAPPED_VIEWS.append(view)
