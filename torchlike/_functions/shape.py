"""Views under their public names, and reshaping that copies only where it must."""

from itertools import accumulate, pairwise

import torchlike._base.dtypes as dtypes
from torchlike._aten.subclass import demand_class, of_class
from torchlike._base import dims
from torchlike._base import geometry as g
from torchlike._base.layout import numel
from torchlike._base.once import warn_once
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import watched
from torchlike._core.dispatch.view_calls import call_view, call_views
from torchlike._core.tensor import arguments
from torchlike._core.tensor.mutation import marks_asked
from torchlike._core.tensor.tensor import Tensor, contiguous_format, strided
from torchlike._executor.sparse import LAYER, SparseValue
from torchlike._functions._install import both, function, method, prop
from torchlike._functions.copy import flat
from torchlike._ops import shape as ops
from torchlike._ops import view as views


def _ints(name, args, keyword, argument):
    """The ints of ``x.f(2, 3)``, ``x.f((2, 3))`` or ``x.f(size=...)``."""
    if keyword is not None:
        arguments.demand_once(name, argument, args)
        args = keyword
    elif len(args) == 1 and isinstance(args[0], list | tuple):
        args = args[0]
    else:
        arguments.demand_given(name, argument, args)
    return arguments.as_ints(name, argument, tuple(args))


@method("view")
def view(self, *args, size=None, dtype=None):
    """The same values as another shape, or the same bits as another dtype, over the same storage.

    Raises RuntimeError where the strides do not allow the shape without a copy.

    >>> import torchlike as torch
    >>> torch.arange(4).view(2, -1)
    tensor([[0, 1],
            [2, 3]])
    """
    if dtype is None and len(args) == 1 and isinstance(args[0], dtypes.dtype | type):
        dtype = args[0]
    if dtype is not None:
        if size is not None or (args and args[0] is not dtype):
            raise TypeError("view() received an invalid combination of arguments: a size or a dtype, not both")
        return call_view(views.view_dtype, (self,), (arguments.as_dtype("view", "dtype", dtype),))
    shape = _ints("view", args, size, "size")
    return call_view(views.view_, (self,), (shape,))


def _reshape(self, size):
    if LAYER.used and self.is_quantized:
        size = dims.infer_size(size, Tensor.numel(self))
        viewable = g.can_view(self._storage.form.codes._layout, size) is not None
        return call_view(views.reshape_alias, (self if viewable else Tensor.contiguous(self),), (size,))
    size = dims.infer_size(size, numel(self._layout.shape))
    if g.can_view(self._layout, size) is not None:
        return call_view(views.view_ if Tensor.is_contiguous(self) else views.reshape_alias, (self,), (size,))
    copy = flat(call(ops.clone, (self,), (contiguous_format if watched(self) else None,)))
    new = call_view(views.unsafe_view, (copy,), (size,))
    new._diff = None
    return new


@method("reshape")
def reshape(self, *args, shape=None):
    """The same values as another shape: a view where the strides allow it, else a copy."""
    return _reshape(self, _ints("reshape", args, shape, "shape"))


@function("reshape")
def reshape_(input, shape):
    """The same values as another shape: a view where the strides allow it, else a copy."""
    return _reshape(input, arguments.as_ints("reshape", "shape", shape))


@both()
def flatten(input, start_dim=0, end_dim=-1):
    """Dimensions ``start_dim`` to ``end_dim`` (inclusive) as one."""
    shape = tuple(input.shape)
    if start_dim.__class__ is not int or end_dim.__class__ is not int:
        start_dim, end_dim = (
            arguments.as_int("flatten", n, d) for n, d in (("start_dim", start_dim), ("end_dim", end_dim))
        )
    size = g.flatten_shape(shape, start_dim, end_dim)
    return input if size == shape else _reshape(input, size)


@both()
def ravel(input):
    """All elements as one dimension."""
    return _reshape(Tensor.contiguous(input), (-1,))


@both()
def unflatten(input, dim, sizes):
    """One dimension as several of the given sizes (one may be -1)."""
    sizes = arguments.as_ints("unflatten", "sizes", sizes)
    return call_view(views.view_, (input,), (g.unflatten_shape(tuple(input.shape), dim, sizes),))


@method()
def view_as(self, other):
    """``view`` with the shape of another tensor."""
    return Tensor.view(self, other.shape)


@method()
def reshape_as(self, other):
    """``reshape`` with the shape of another tensor."""
    return Tensor.reshape(self, other.shape)


@method()
def expand_as(self, other):
    """``expand`` to the shape of another tensor."""
    return Tensor.expand(self, other.shape)


@both("swapaxes", "swapdims")
def swapaxes(input, axis0, axis1):
    """Two dimensions exchanged; a view. Another name of ``transpose``."""
    return Tensor.transpose(input, axis0, axis1)


@both("movedim", "moveaxis")
def movedim(input, source, destination):
    """Dimensions moved to new positions, the others in order; a view."""
    source, destination = [
        (arguments.as_int("movedim", n, d),) if not isinstance(d, list | tuple) else arguments.as_ints("movedim", n, d)
        for n, d in (("source", source), ("destination", destination))
    ]
    return Tensor.permute(input, g.movedim_order(input.ndim, source, destination))


@prop("T")
def reverse_dims(self):
    """The dimensions in reverse order; a view (for matrices: the transpose)."""
    if self.ndim == 0:
        warn_once("Tensor.T is deprecated on 0-D tensors, of which it is the tensor itself.")
    elif self.ndim != 2:
        warn_once(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it "
            "will throw an "
            "error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - "
            "1, -1, -1))` to reverse the dimensions of a tensor.",
        )
    return Tensor.permute(self, tuple(range(self.ndim - 1, -1, -1)))


def _demand_matrices(t, name):
    if not (LAYER.used and t.layout is not strided and t.ndim > 1):  # those have no strides to look at
        g.matrix_transpose(t._layout, name)
    if not t.ndim:
        name = name if name.endswith("()") else f"Tensor.{name}"
        warn_once(f"{name} is deprecated on 0-D tensors, of which it is the tensor itself, or its conjugate.")


@prop("mT")
def matrix_transpose(self):
    """The last two dimensions exchanged; a view."""
    _demand_matrices(self, "mT")
    return Tensor.transpose(self, -2, -1) if self.ndim else self


@both("adjoint")
def adjoint(input):
    """The conjugate transpose of the last two dimensions; a view."""
    _demand_matrices(input, "adjoint()")
    return (Tensor.transpose(input, -2, -1) if input.ndim else input).conj()


@prop("mH")
def matrix_hermitian(self):
    """The conjugate transpose of the last two dimensions; a view."""
    _demand_matrices(self, "mH")
    return (Tensor.transpose(self, -2, -1) if self.ndim else self).conj()


@prop("H")
def hermitian(self):
    """The conjugate transpose of a matrix; a view."""
    if not (LAYER.used and self.layout is not strided and self.ndim == 2):
        g.hermitian(self._layout)
    return (Tensor.transpose(self, 0, 1) if self.ndim else self).conj()


@both()
def conj(input):
    """The complex conjugate: a view for complex tensors, the tensor itself otherwise."""
    return call_view(views.conj, (input,), ()) if input.dtype.is_complex else input


@both()
def is_conj(input):
    """Whether the tensor is a lazy conjugate: a view that reads its storage conjugated."""
    marks_asked(input)
    return views.is_conj(input)


@both()
def is_neg(input):
    """Whether the tensor is a lazy negative, as the imaginary part of a lazy conjugate is."""
    marks_asked(input)
    return views.is_neg(input)


@both()
def resolve_conj(input):
    """The tensor itself, or a copy where it is a lazy conjugate."""
    marks_asked(input)
    return Tensor.clone(input) if views.is_conj(input) else input


@both()
def resolve_neg(input):
    """The tensor itself, or a copy where it is a lazy negative."""
    marks_asked(input)
    return Tensor.clone(input) if views.is_neg(input) else input


@both("real")
def real(input):
    """The real part: a view of a complex tensor, a real tensor itself."""
    return _part(input, 0) if input.dtype.is_complex else input


@both("imag")
def imag(input):
    """The imaginary part of a complex tensor; a view."""
    if not input.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return _part(input, 1)


def _part(z, index):
    conjugated = views.is_conj(z)
    pairs = call_view(views.view_as_real, (Tensor.conj(z) if conjugated else z,), ())
    if conjugated and index == 1:
        pairs = call_view(views.neg_view, (pairs,), ())
    return call_view(views.select, (pairs,), (-1, index))


Tensor.real = property(real, lambda self, value: real(self).copy_(value))
Tensor.imag = property(imag, lambda self, value: imag(self).copy_(value))


@both("as_strided")
def as_strided(input, size, stride, storage_offset=None):
    """The storage's elements at ``storage_offset + sum(index * stride)``; a view."""
    size = arguments.as_ints("as_strided", "size", size)
    stride = arguments.as_ints("as_strided", "stride", stride)
    if storage_offset.__class__ is not int and storage_offset is not None:
        storage_offset = arguments.as_int("as_strided", "storage_offset", storage_offset)
    return call_view(views.as_strided, (input,), (size, stride, storage_offset))


def _slices(op, input, sizes, dim):
    """The consecutive slices of these lengths along ``dim``, outputs of one node of ``op``."""
    start, out = 0, []
    if LAYER.used and isinstance(input._storage.form, SparseValue):
        edges = [*accumulate(sizes, initial=0)]
        return tuple([call_view(views.slice_, (input,), (dim, a, b, 1)) for a, b in pairwise(edges)])
    whole = input._layout
    for n in sizes:
        layout = g.slice(whole, dim, start, start + n, 1)
        out.append((views.slice_, (dim, n, 1), (start,), layout))
        start += n
    return call_views(op, input, out, (tuple(sizes), dim))


@both("split")
def split(tensor, split_size_or_sections, dim=0):
    """Consecutive slices along ``dim``: of one length (the last may be shorter) or of given lengths.

    Returns a tuple of views.
    """
    dim = dims.split_dim("split", tensor.ndim, dim)
    length = tensor.shape[dim]
    if isinstance(split_size_or_sections, list | tuple):
        sizes = arguments.as_ints("split_with_sizes", "split_sizes", split_size_or_sections)
        sizes = dims.check_split_sizes(length, sizes, dim)
        return _slices(ops.split_with_sizes, tensor, sizes, dim)
    size = arguments.as_int("split", "split_size", split_size_or_sections)
    sizes = dims.split_sizes(length, size)
    return _slices(ops.split, tensor, sizes, dim)


@both()
def split_with_sizes(input, split_sizes, dim=0):
    """Consecutive slices of the given lengths along ``dim``; a tuple of views."""
    return split(input, arguments.as_ints("split_with_sizes", "split_sizes", split_sizes), dim)


@both()
def chunk(input, chunks, dim=0):
    """About ``chunks`` consecutive slices of equal length along ``dim``; a tuple of views."""
    dim = dims.split_dim("chunk", input.ndim, dim)
    sizes = dims.chunk_sizes(input.shape[dim], arguments.as_int("chunk", "chunks", chunks))
    op = ops.split if input.shape[dim] else ops.split_with_sizes
    return _slices(op, input, sizes, dim)


@both()
def tensor_split(input, indices_or_sections, dim=0):
    """Slices between the given indices, or that many of nearly equal length; a tuple of views."""
    if not input.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim = dims.wrap_dim(dim, input.ndim)
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = _split_points(indices_or_sections)
    elif isinstance(indices_or_sections, list | tuple):
        indices_or_sections = arguments.as_ints("tensor_split", "indices", indices_or_sections)
    else:
        indices_or_sections = arguments.as_int("tensor_split", "sections", indices_or_sections)
    n = input.shape[dim]
    points = [max(p + n, 0) if p < 0 else min(p, n) for p in dims.tensor_split_points(n, indices_or_sections)]
    edges = [0, *points, n]
    return tuple(
        call_view(views.slice_, (input,), (dim, a, max(a, b), 1)) for a, b in zip(edges, edges[1:], strict=False)
    )


def _split_points(given):
    name = "tensor_split expected tensor_indices_or_sections to"
    if given.ndim > 1:
        raise RuntimeError(
            f"{name} be a zero-dimensional or one-dimensional tensor, but got a tensor with {given.ndim} dims"
        )
    if given.dtype is not dtypes.int64:
        raise RuntimeError(f"{name} have dtype of long, but got {given.dtype.scalar_name}; convert it with .long()")
    return given.tolist()


_narrow = Tensor.narrow


@both()
def narrow(input, dim, start, length):
    """``length`` indices of one dimension from ``start``, an int or an integer tensor of no dimensions; a view.

    >>> import torchlike as torch
    >>> torch.arange(4).narrow(0, 1, 2)
    tensor([1, 2])
    """
    if isinstance(start, Tensor) and (start.ndim or start.dtype not in dtypes.INTEGERS):
        raise RuntimeError(
            f"start must be an 0-dim integral Tensor. (got {start.ndim}-dim {start.dtype.scalar_name}; give an int)"
        )
    return _narrow(input, dim, start, length)


@both()
def unbind(input, dim=0):
    """The slices of one dimension, which disappears; a tuple of views."""
    dim = dims.wrap_dim(dim, input.ndim, scalar_ok=False)
    if LAYER.used and isinstance(input._storage.form, SparseValue):
        return tuple([input.select(dim, i) for i in range(input.shape[dim])])
    pieces = [(views.select, (dim,), (i,), layout) for i, layout in enumerate(g.selected(input._layout, dim))]
    return call_views(ops.unbind, input, pieces, (dim,))


@method()
def __iter__(self):
    if not self.dim():
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


@method()
def as_subclass(self, cls):
    """A view of the tensor as an instance of ``cls``, a subclass of Tensor."""
    demand_class(cls)
    return of_class(self, cls)
