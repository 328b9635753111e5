"""View operators: how each reads its base, writes back through it, and lays out its strides."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import geometry as g
from torchlike._base.dims import infer_size, wrap_dim
from torchlike._base.dtypes import FROM_NP, complex32
from torchlike._base.layout import Layout, has_overlap, is_dense, is_disjoint, numel
from torchlike._base.state import state
from torchlike._decl import rules
from torchlike._decl.op import op, view
from torchlike._decl.words import aten
from torchlike._executor.level import LevelValue
from torchlike._ops._elementwise import widely
from torchlike._ops._overlap import put


def _reshaped(layout):
    return layout, (layout.shape,), ()


def write_reshape(value, new, size):
    return jnp.reshape(new, value.shape)


def _read_reshape(self, size):
    return jnp.reshape(self, size)


def _unsqueezed(grad, shape, dims):
    """The gradient with the dimensions of length 1 among ``dims`` back."""
    if len(grad.shape) == len(shape):
        return grad
    for d in sorted(d % len(shape) for d in dims):
        grad = aten.unsqueeze(grad, d) if shape[d] == 1 else grad
    return grad


def _reshaping(schema, prepare, node=None, variants="function method", saved="self_sym_sizes", backward=None,
               aten=None):  # fmt: skip
    """A view whose values are those of a reshape, whatever its name."""
    read = lambda self, size: jnp.reshape(self, size)  # noqa: E731
    return view(schema, prepare=prepare, write=write_reshape, node=node, variants=variants, saved=saved,
                backward=backward, aten=aten)(read)  # fmt: skip


view_ = _reshaping("view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
                   lambda t, size: _reshaped(g.view(t._layout, size)), variants="",
                   backward=lambda grad, shape, size: aten.view(grad, list(shape)))  # fmt: skip
reshape_alias = _reshaping("_reshape_alias(Tensor(a) self, SymInt[] size) -> Tensor(a)",
                           lambda t, size: _reshaped(g.view(t._layout, size)), variants="",
                           aten={"schema": "(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
                                 "calls": lambda aten, self, size: aten.view(self, size)})  # fmt: skip
unsafe_view = _reshaping("_unsafe_view(Tensor self, SymInt[] size) -> Tensor(a)",
                         lambda t, size: _reshaped(g.view(t._layout, size)),
                         node="UnsafeViewBackward", variants="",
                         backward=lambda grad, shape, size: aten.view(grad, list(shape)),
                         aten="(Tensor self, SymInt[] size) -> Tensor")  # fmt: skip
squeeze = _reshaping("squeeze(Tensor(a) self) -> Tensor(a)", lambda t: _reshaped(g.squeeze(t._layout)),
                     backward=lambda grad, shape: _unsqueezed(grad, shape, range(len(shape))))  # fmt: skip
squeeze_dim = _reshaping("squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
                         lambda t, dim: _reshaped(g.squeeze(t._layout, dim)), "SqueezeBackward1",
                          saved="dim self_sym_sizes",
                          backward=lambda grad, shape, dim: _unsqueezed(grad, shape, (dim,)))  # fmt: skip
squeeze_dims = _reshaping("squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
                          lambda t, dim: _reshaped(g.squeeze(t._layout, dim)), "SqueezeBackward2",
                           saved="dim self_sym_sizes", backward=lambda grad, shape, dim:
                           _unsqueezed(grad, shape, dim))  # fmt: skip
unsqueeze = _reshaping("unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
                       lambda t, dim: _reshaped(g.unsqueeze(t._layout, dim)), saved="dim",
                       backward=lambda grad, shape, dim: aten["squeeze.dim"](grad, dim))  # fmt: skip
alias = _reshaping("alias(Tensor(a) self) -> Tensor(a)", lambda t: _reshaped(t._layout), variants="", saved="")


def _inverse(dims):
    return tuple(int(i) for i in np.argsort(dims))


def _prepare_transpose(t, dim0, dim1):
    layout, n = t._layout, t.ndim
    new = g.transpose(layout, dim0, dim1)
    return new, (wrap_dim(dim0, n), wrap_dim(dim1, n)), ()


def _swap(self, dim0, dim1):
    return jnp.swapaxes(self, dim0, dim1) if self.ndim else self


@view("transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", prepare=_prepare_transpose,
      backward=lambda grad, shape, dim0, dim1: aten["transpose.int"](grad, dim0, dim1),
      write=lambda value, new, dim0, dim1: _swap(new, dim0, dim1), saved="dim0 dim1")  # fmt: skip
def transpose(self, dim0, dim1):
    """The tensor with two dimensions exchanged; a view."""
    return _swap(self, dim0, dim1)


def _prepare_t(t):
    return g.t(t._layout), (), ()


@view("t(Tensor(a) self) -> Tensor(a)", prepare=_prepare_t, backward=lambda grad, shape: aten.t(grad),
      write=lambda value, new: new.T)  # fmt: skip
def t(self):
    """The transpose of a matrix (a vector or scalar is itself); a view."""
    return self.T


def _prepare_permute(t, dims):
    return g.permute(t._layout, dims), (tuple(wrap_dim(d, t.ndim) for d in dims),), ()


@view("permute(Tensor(a) self, int[] dims) -> Tensor(a)", prepare=_prepare_permute,
      backward=lambda grad, shape, dims: aten.permute(grad, list(_inverse([d % len(shape) for d in dims]))),
      write=lambda value, new, dims: jnp.transpose(new, _inverse(dims)), saved="dims")  # fmt: skip
def permute(self, dims):
    """The tensor with its dimensions in the order ``dims``; a view."""
    return jnp.transpose(self, dims)


def _prepare_select(t, dim, index):
    layout = t._layout
    new = g.select(layout, dim, index)
    dim = wrap_dim(dim, len(layout.shape))
    return new, (dim,), (index + layout.shape[dim] if index < 0 else index,)


@view("select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", prepare=_prepare_select,
      backward=lambda grad, shape, dim, index: aten.select_backward(grad, list(shape), dim, index),
      saved="dim index self_sym_sizes",
      write=lambda value, new, dim, index: lax.dynamic_update_index_in_dim(value, new, index, dim))  # fmt: skip
def select(self, dim, index):
    """One index of one dimension, which disappears; a view."""
    return lax.dynamic_index_in_dim(self, index, dim, keepdims=False)


def _prepare_slice(t, dim, start, end, step):
    layout = t._layout
    new = g.slice(layout, dim, start, end, step)
    dim = wrap_dim(dim, len(layout.shape))
    return new, (dim, new.shape[dim], step), (g.clamp_slice(layout.shape[dim], start, end)[0],)


_WRAP = 1 << 64  # PyTorch shows negative numbers modulo this
_SLICE = {
    "dim": "dim", "step": "step", "self_sym_sizes": "self_sym_sizes",
    "start": lambda start: 0 if start is None else start % _WRAP,
    "end": lambda end: (_WRAP >> 1) - 1 if end is None else end % _WRAP,
}  # fmt: skip


def _put_slice(grad, shape, dim, start, end=None, step=1, length=None):
    end = start + length if length is not None else end
    return aten.slice_backward(grad, list(shape), dim, start, end, step)


def _write_slice(value, new, dim, size, step, start):
    if not size:
        return value
    if step == 1:
        return lax.dynamic_update_slice_in_dim(value, new, start, dim)
    where = (slice(None),) * dim + (start + step * jnp.arange(size),)
    return value.at[where].set(new)


def _read_slice(self, dim, size, step, start):
    if not size:
        return lax.slice_in_dim(self, 0, 0, axis=dim)
    span = lax.dynamic_slice_in_dim(self, start, (size - 1) * step + 1, dim)
    return lax.slice_in_dim(span, 0, None, step, dim) if step != 1 else span


_LAST = (1 << 63) - 1  # PyTorch's end of a slice without one


@view("slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
      prepare=_prepare_slice, write=_write_slice, variants="", saved=_SLICE, aten={
          "calls": lambda aten, self, dim, start, end, step: aten["slice.Tensor"](
              self, dim, 0 if start is None else start, _LAST if end is None else end, step)},
      backward=lambda grad, shape, dim, start, end, step:
      _put_slice(grad, shape, dim, start or 0, shape[dim] if end is None else end, step))  # fmt: skip
def slice_(self, dim, size, step, start):
    """Every ``step``-th index of one dimension from ``start`` to ``end``; a view."""
    return _read_slice(self, dim, size, step, start)


def _prepare_narrow(t, dim, start, length):
    layout = t._layout
    new = g.narrow(layout, dim, start, length)
    dim = wrap_dim(dim, len(layout.shape))
    return new, (dim, length, 1), (start + layout.shape[dim] if start < 0 else start,)


@view("narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)", prepare=_prepare_narrow,
      aten={"calls": lambda aten, self, dim, start, length: aten["slice.Tensor"](
          self, dim, start + self.shape[dim] * (start < 0), start + self.shape[dim] * (start < 0) + length)},
      write=_write_slice, node="SliceBackward", saved={
          "dim": "dim", "step": lambda: 1, "self_sym_sizes": "self_sym_sizes",
          "start": lambda self_aval, dim, start: _first(self_aval, dim, start),
          "end": lambda self_aval, dim, start, length: _first(self_aval, dim, start) + length,
      }, backward=lambda grad, shape, dim, start, length:
      _put_slice(grad, shape, dim, start + shape[dim] * (start < 0), length=length))  # fmt: skip
def narrow(self, dim, size, step, start):
    """``length`` indices of one dimension from ``start``; a view."""
    return _read_slice(self, dim, size, step, start)


def _first(aval, dim, start):
    return start + aval.shape[dim] if start < 0 else start


def _prepare_expand(t, size, implicit):
    layout = g.expand(t._layout, size)
    return layout, (layout.shape,), ()


def _write_expand(value, new, size):
    if new.shape == value.shape:
        return new
    return put(value, new, lambda x: jnp.broadcast_to(x, size))


@view("expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", prepare=_prepare_expand,
      write=_write_expand, variants="method", saved="self_sym_sizes")  # fmt: skip
def expand(self, size):
    """The tensor repeated to ``size`` without a copy (-1 keeps a length); a view."""
    return jnp.broadcast_to(self, size)


def _prepare_diagonal(t, offset, dim1, dim2):
    n = t.ndim
    return g.diagonal(t._layout, offset, dim1, dim2), (offset, wrap_dim(dim1, n), wrap_dim(dim2, n)), ()


def _write_diagonal(value, new, offset, dim1, dim2):
    moved = jnp.moveaxis(value, (dim1, dim2), (-2, -1))
    i = jnp.arange(new.shape[-1])
    moved = moved.at[..., i + max(-offset, 0), i + max(offset, 0)].set(new)
    return jnp.moveaxis(moved, (-2, -1), (dim1, dim2))


@view("diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", prepare=_prepare_diagonal,
      backward=lambda grad, shape, offset, dim1, dim2:
      aten.diagonal_backward(grad, list(shape), offset, dim1, dim2),
      write=_write_diagonal, saved="dim1 dim2 offset self_sym_sizes")  # fmt: skip
def diagonal(self, offset, dim1, dim2):
    """The diagonal of two dimensions, as the last one; a view."""
    return jnp.diagonal(self, offset, dim1, dim2)


def _prepare_unfold(t, dimension, size, step):
    new = g.unfold(t._layout, dimension, size, step)
    return new, (wrap_dim(dimension, max(t.ndim, 1)), size, step, new.shape), ()


def _windows(length, size, step):
    return np.arange(0, length - size + 1, step)[:, None] + np.arange(size)


def _read_unfold(self, dim, size, step, shape):
    if not self.ndim:
        return jnp.broadcast_to(self, shape)
    if 0 in shape:
        return jnp.zeros(shape, self.dtype)
    starts = np.arange(0, shape[dim] * step, step, np.int32)[:, None]  # a place for each window: few numbers
    others = [i for i in range(self.ndim + 1) if i != dim]
    numbers = lax.GatherDimensionNumbers(tuple(others), (), (dim,))
    sizes = *self.shape[:dim], size, *self.shape[dim + 1 :]
    got = lax.gather(self, starts, numbers, sizes, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS)
    return jnp.moveaxis(got, dim + 1, -1)


def _write_unfold(value, new, dim, size, step, shape):
    if not value.ndim:
        return new.reshape(value.shape) if new.size else value
    if 0 in shape:
        return value
    if step < size:
        return put(value, new, lambda x: _read_unfold(x, dim, size, step, shape))
    where = (slice(None),) * dim + (_windows(value.shape[dim], size, step),)
    return value.at[where].set(jnp.moveaxis(new, -1, dim + 1))


@view("unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", prepare=_prepare_unfold,
      backward=lambda grad, shape, dim, size, step: aten.unfold_backward(grad, list(shape), dim, size, step),
      write=_write_unfold, variants="method", saved="dimension self_sym_sizes size step")  # fmt: skip
def unfold(self, dim, size, step, shape):
    """Windows of ``size`` every ``step`` along a dimension, as a new last dimension; a view."""
    return _read_unfold(self, dim, size, step, shape)


def memory_order(layout):
    """The dimensions of a dense layout from the outermost in memory, or None if in order."""
    order = tuple(sorted(range(len(layout.shape)), key=lambda d: -layout.strides[d]))
    return None if order == tuple(range(len(order))) else order


def _prepare_as_strided(t, size, stride, storage_offset):
    base = t._storage.form
    strides = t._storage.strides
    order = None if strides is None else memory_order(Layout(base.shape, strides, 0))
    new = g.as_strided(t._layout, size, stride, storage_offset, numel(base.shape) * base.dtype.itemsize // t.itemsize,
                       t.itemsize)  # fmt: skip
    return new, (new.shape, new.strides, order), (new.offset,)


def _places(size, stride, offset):
    where = offset
    for dim, s in enumerate(stride):
        where = where + lax.broadcasted_iota(jnp.int64, size, dim) * s
    return where if size else jnp.asarray(where)


def _flat(value, order):
    return (value if order is None else jnp.transpose(value, order)).reshape(-1)


def _read_as_strided(value, size, stride, order, offset):
    return _flat(value, order)[_places(size, stride, offset)]


def _write_as_strided(value, new, size, stride, order, offset):
    if not is_disjoint(Layout(size, stride, 0)):
        return put(value, new, lambda x: _read_as_strided(x, size, stride, order, offset))
    flat = _flat(value, order).at[_places(size, stride, offset)].set(new)
    if order is None:
        return flat.reshape(value.shape)
    return jnp.transpose(flat.reshape([value.shape[d] for d in order]), _inverse(order))


@view("as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
      prepare=_prepare_as_strided, write=_write_as_strided, variants="",
      saved="size storage_offset stride")  # fmt: skip
def as_strided(self, size, stride, order, offset):
    """The storage's elements at ``offset + sum(index * stride)``; a view."""
    read = lambda x: _read_as_strided(x, size, stride, order, offset)  # noqa: E731
    # The gradients of elements that share a place are summed.
    return widely(read, self) if has_overlap(Layout(size, stride, 0)) else read(self)


# Views that show elements of their base as they are, wherever they lie.
MOVING = frozenset({view_, reshape_alias, unsafe_view, squeeze, squeeze_dim, squeeze_dims, unsqueeze, alias, transpose,
                    t, permute, select, slice_, narrow, expand, diagonal, unfold, as_strided})  # fmt: skip
DISTINCT = MOVING - {expand, unfold, as_strided}  # each element once


def may_overlap(op, static, grows):
    """Whether several elements of a view by ``op`` may be one of its base; ``grows``: it has another shape."""
    if op is as_strided:
        return not is_disjoint(Layout(*static[:2], 0))
    return op is expand and grows or (op is unfold and static[2] < static[1])


def _prepare_spread(t):
    raise NotImplementedError("_spread is a step of views, not an operator of its own")


def _write_spread(value, new, shape, strides, length, offset):
    return new[_places(shape, strides, offset)]


@view("_spread(Tensor(a) self, SymInt[] shape, SymInt[] strides, SymInt length, SymInt offset) -> Tensor(a)",
      prepare=_prepare_spread, write=_write_spread, variants="")  # fmt: skip
def spread(self, shape, strides, length, offset):
    """A storage of ``length`` elements with the tensor's values where its layout puts them.

    Values that share a place (they are equal) are averaged, so that their gradients are too.
    """
    where = _places(shape, strides, offset)

    def averaged(x):
        total = jnp.zeros(length, x.dtype).at[where].add(x)
        if is_dense(Layout(shape, strides, 0)):
            return total
        return total / jnp.maximum(jnp.zeros(length, x.dtype).at[where].add(1).real, 1)

    return widely(averaged, self)


# -- complex numbers and reinterpretation --------------------------------------------------------


def real_np(dtype):
    """The numpy dtype of the parts of a complex numpy dtype."""
    return np.dtype(np.float32 if dtype == np.complex64 else np.float64)


def complex_np(dtype):
    """The complex numpy dtype whose parts have this dtype."""
    return np.dtype(np.complex64 if dtype == np.float32 else np.complex128)


def _part(index):
    """PyTorch takes a part by ``select`` from the pairs of ``view_as_real``."""
    return {"dim": lambda self_aval: len(self_aval.shape), "index": lambda: index,
            "self_sym_sizes": lambda self_aval: (*self_aval.shape, 2)}  # fmt: skip


def _prepare_part(layout_of):
    def prepare(t):
        return layout_of(t._layout), (), (), real_np(t.dtype.np)

    return prepare


@view("_real(Tensor(a) self) -> Tensor(a)", prepare=_prepare_part(g.real), node="SelectBackward", variants="",
      saved=_part(0), write=lambda value, new: lax.complex(new, jnp.imag(value)))  # fmt: skip
def real_part(self):
    return jnp.real(self)


@view("_imag(Tensor(a) self) -> Tensor(a)", prepare=_prepare_part(g.imag), node="SelectBackward", variants="",
      saved=_part(1), write=lambda value, new: lax.complex(jnp.real(value), new))  # fmt: skip
def imag_part(self):
    return jnp.imag(self)


def _prepare_conj(t):
    return t._layout, (), ()


@view("_conj(Tensor(a) self) -> Tensor(a)", aten=True, prepare=_prepare_conj, node="ConjBackward",
      write=lambda value, new: jnp.conj(new))  # fmt: skip
def conj(self):
    """The complex conjugate; a view."""
    return jnp.conj(self)


def _prepare_neg(t):
    if t.dtype.name == "bool":
        raise NotImplementedError(
            "\"neg\" not implemented for 'Bool': _neg_view takes numbers; use logical_not() or .to(dtype)"
        )
    return t._layout, (), ()


@view("_neg_view(Tensor(a) self) -> Tensor(a)", aten=True, prepare=_prepare_neg, node="NegViewBackward",
      write=lambda value, new: -new)  # fmt: skip
def neg_view(self):
    """The negative; a view."""
    return -self


def is_conj(t):
    """Whether ``t`` reads the conjugate of what its storage holds."""
    view = t._view  # not t.dtype, which a subclass would see
    element = t._storage.form.dtype if view is None or view.dtype is None else view.dtype
    return FROM_NP[element].is_complex and _applied(conj, t)


def is_neg(t):
    """Whether ``t`` reads the negative of what its storage holds."""
    return _applied(neg_view, t)


def _applied(op, t):
    """Whether an odd number of the view's steps is ``op``, of which two cancel; those below a level count too."""
    view, value = t._view, t._storage.form
    odd = view is not None and sum([step[0].name == op.name for step in view.steps]) % 2 == 1
    return odd is not _applied(op, value.inner) if isinstance(value, LevelValue) else odd


def _prepare_view_as_real(t):
    if not t.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if state.capture is not None:
        state.capture.marks_asked(t)
    if is_conj(t):
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors; use .resolve_conj() first, which gives a "
            "copy that does not alias the original"
        )
    return g.view_as_real(t._layout), (), (), real_np(t.dtype.np)


@view("view_as_real(Tensor(a) self) -> Tensor(a)", prepare=_prepare_view_as_real, variants="function",
      vjp={("self",): lambda grad: lax.complex(grad[..., 0], grad[..., 1])},
      write=lambda value, new: lax.complex(new[..., 0], new[..., 1]))  # fmt: skip
def view_as_real(self):
    """The (real, imaginary) pairs of a complex tensor as a last dimension of size 2; a view."""
    return jnp.stack([jnp.real(self), jnp.imag(self)], -1)


def _prepare_view_as_complex(t):
    if t.dtype.name == "float16":
        complex32.np  # noqa: B018  (refuses it by name)
    if t.dtype.name not in ("float32", "float64"):
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got {t.dtype.scalar_name}"
        )
    return g.view_as_complex(t._layout), (), (), complex_np(t.dtype.np)


@view("view_as_complex(Tensor(a) self) -> Tensor(a)", prepare=_prepare_view_as_complex, variants="function",
      write=lambda value, new: jnp.stack([jnp.real(new), jnp.imag(new)], -1), autocast={"cpu": "fp32"},
      backward=lambda grad, shape: aten.view_as_real(grad))  # fmt: skip
def view_as_complex(self):
    """Pairs in the last dimension as complex numbers; a view."""
    return lax.complex(self[..., 0], self[..., 1])


def _words(x, dtype):
    """Bits of ``x`` as ``dtype``; the last dimension grows or shrinks with the ratio of sizes.

    What is left over at the end is left out: a storage may be longer than a tensor over it can be.
    """
    if x.dtype == dtype:
        return x
    if jnp.iscomplexobj(x):
        x = jnp.stack([jnp.real(x), jnp.imag(x)], -1)
        x = x.reshape((*x.shape[:-2], 2 * x.shape[-2])) if x.ndim > 1 else x
        return _words(x, dtype)
    if x.dtype == bool:
        x = x.astype(np.uint8)
    if np.issubdtype(dtype, np.complexfloating):
        parts = _words(x, real_np(dtype))
        parts = parts[..., : parts.shape[-1] // 2 * 2].reshape((*parts.shape[:-1], parts.shape[-1] // 2, 2))
        return lax.complex(parts[..., 0], parts[..., 1])
    target = np.dtype(np.uint8) if dtype == np.dtype(bool) else dtype
    ratio = target.itemsize // x.dtype.itemsize
    if ratio > 1:
        x = x[..., : x.shape[-1] // ratio * ratio].reshape((*x.shape[:-1], x.shape[-1] // ratio, ratio))
    out = lax.bitcast_convert_type(x, target)
    out = out.reshape((*out.shape[:-2], out.shape[-2] * out.shape[-1])) if out.ndim > x.ndim else out
    return out != 0 if dtype == np.dtype(bool) else out


def _with_words(value, new, dtype):
    """``value`` with the bits of ``new``, which has all of it but what is left over at the end."""
    words = _words(new, value.dtype)
    if words.size == value.size:
        return words.reshape(value.shape)
    return jnp.concatenate([words.reshape(-1), value.reshape(-1)[words.size :]]).reshape(value.shape)


def _prepare_view_dtype(t, dtype):
    if is_conj(t) or is_neg(t):
        what, way = ("conjugate view tensors", "conj") if is_conj(t) else ("tensors with negative bit set", "neg")
        raise RuntimeError(
            f"torch.Tensor.view is not supported for {what} when converting to a different dtype; use "
            f".resolve_{way}() first"
        )
    old = t.dtype
    layout = g.view_dtype(t._layout, old.itemsize, dtype.itemsize, old.scalar_name, dtype.scalar_name)
    return layout, (dtype.np,), (), dtype.np


@view("view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", prepare=_prepare_view_dtype, vjp={}, variants="",
      write=_with_words)  # fmt: skip
def view_dtype(self, dtype):
    """The same bits as another element type; a view."""
    return _words(self, dtype) if self.ndim else _words(self[None], dtype).reshape(())


def reshape_size(t, size):
    """The inferred size of ``reshape`` or ``view`` (one -1 allowed)."""
    return infer_size(size, numel(t._layout.shape))


# -- adjoints of views, as aten has them -----------------------------------------------------------


def _blank(grad, sizes):
    return jnp.zeros(sizes, grad.dtype)


@op("select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor", variants="",
    vjp={"grad_output": lambda grad, dim, index: aten["select.int"](grad, dim, index)}, jvp="kernel")  # fmt: skip
def select_backward(grad_output, input_sizes, dim, index):
    """Zeros with the gradient in the place of a ``select``."""
    dim = wrap_dim(dim, len(input_sizes))
    return select.write(_blank(grad_output, input_sizes), grad_output, dim, index % input_sizes[dim])


@op("slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) "
    "-> Tensor", variants="")  # fmt: skip
def slice_backward(grad_output, input_sizes, dim, start, end, step):
    """Zeros with the gradient in the place of a slice."""
    dim = wrap_dim(dim, len(input_sizes))
    first = g.clamp_slice(input_sizes[dim], start, end)[0]
    return slice_.write(_blank(grad_output, input_sizes), grad_output, dim, grad_output.shape[dim], step, first)


@op("diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
    variants="", vjp={"grad_output": lambda grad, offset, dim1, dim2: aten.diagonal(grad, offset, dim1, dim2)},
    jvp="kernel")  # fmt: skip
def diagonal_backward(grad_output, input_sizes, offset, dim1, dim2):
    """Zeros with the gradient on a diagonal."""
    n = len(input_sizes)
    return diagonal.write(_blank(grad_output, input_sizes), grad_output, offset, wrap_dim(dim1, n), wrap_dim(dim2, n))


@op("unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor", variants="")
def unfold_backward(grad_in, input_sizes, dim, size, step):
    """The sums of the gradients of the windows that an element is in."""
    dim = wrap_dim(dim, max(len(input_sizes), 1))
    read = lambda x: _read_unfold(x, dim, size, step, grad_in.shape)  # noqa: E731
    return rules.adjoint(read, _blank(grad_in, input_sizes))(grad_in)[0]
