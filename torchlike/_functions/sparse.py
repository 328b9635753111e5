"""Sparse tensors under their public names: construction, parts, and conversion between layouts."""

import operator

import torchlike._base.dtypes as dtypes
from torchlike._core.conversion.factories import EMPTY, size_of
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.sparse import arithmetic as _arithmetic  # noqa: F401
from torchlike._core.sparse import construction, lookups, products, rules, shapes, structure  # noqa: F401
from torchlike._core.sparse.rules import recorded, replaced
from torchlike._core.sparse.value import Compressed, Coo, coo_of, layout_name, unsupported, value, viewed
from torchlike._core.tensor.arguments import as_dtype, as_ints, bools, bools_or_none
from torchlike._core.tensor.mutation import bump, write
from torchlike._core.tensor.tensor import (
    COMPRESSED,
    Tensor,
    alias,
    fresh,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from torchlike._functions._install import both, function, method, prop

rules.install()
EMPTY.update(dict.fromkeys((sparse_coo, *COMPRESSED), construction.empty))


# -- construction ----------------------------------------------------------------------------------------


def _is_size(x):
    return isinstance(x, list | tuple) and all(isinstance(n, int) and not isinstance(n, bool) for n in x)


@function()
def sparse_coo_tensor(
    indices=None, values=None, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None, is_coalesced=None,
):  # fmt: skip
    """A tensor of layout ``torch.sparse_coo``: ``values`` [nnz, *dense] at ``indices`` [sparse_dim, nnz], else 0.

    Values of equal indices are added. Gradients go to ``values``. ``sparse_coo_tensor(size)`` has no entries.

    Args:
        size: inferred from the largest indices where it is not given.
        check_invariants: whether indices are checked now; otherwise they are by the first call that needs them. By
            default, what :class:`torch.sparse.check_sparse_tensor_invariants` says.
        is_coalesced: the promise that indices are sorted and distinct.

    Raises:
        RuntimeError: shapes that do not fit, or an index outside of ``size``.

    >>> import torchlike as torch
    >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    bools("sparse_coo_tensor", requires_grad=requires_grad, pin_memory=pin_memory)
    bools_or_none("sparse_coo_tensor", check_invariants=check_invariants, is_coalesced=is_coalesced)
    if values is None:
        if size is None and _is_size(indices):
            size = indices
        elif indices is not None or size is None:
            raise TypeError("sparse_coo_tensor(): expected indices and values, or a size alone")
        kind = dtypes.get_default_dtype() if dtype is None else as_dtype("sparse_coo_tensor", "dtype", dtype)
        t = construction.empty(sparse_coo, size_of("sparse_coo_tensor", (size,)), kind, device)
        return t.requires_grad_() if requires_grad else t
    return construction.from_coordinates(
        indices, values, size, dtype, device, requires_grad, check_invariants, is_coalesced
    )


def _compressed(name, layout):
    def make(
        compressed_indices, plain_indices, values, size=None, *, dtype=None, device=None, pin_memory=False,
        requires_grad=False, check_invariants=None, **named,
    ):  # fmt: skip
        bools(name, requires_grad=requires_grad, pin_memory=pin_memory)
        bools_or_none(name, check_invariants=check_invariants)
        return construction.from_compressed(
            layout, compressed_indices, plain_indices, values, size, dtype, device, requires_grad, check_invariants
        )

    by_rows = layout in (sparse_csr, sparse_bsr)
    make.__name__ = make.__qualname__ = name
    first, second = ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices")

    def front(*args, **kwargs):
        for ours, theirs in (("compressed_indices", first), ("plain_indices", second)):
            if theirs in kwargs:
                kwargs[ours] = kwargs.pop(theirs)
        return make(*args, **kwargs)

    shape = "[nnz, height, width], blocks" if layout in (sparse_bsr, sparse_bsc) else "[nnz]"
    front.__name__ = front.__qualname__ = name
    front.__doc__ = f"""A matrix of layout ``{layout}``: where each begins, the places within, and the values.

    Args:
        {first}, {second}: int32 or int64 [n + 1] and [nnz]. values: {shape}, to which gradients go.
            All three may have the dimensions of a batch of matrices in front, values those of each element behind.
        size: inferred where it is not given. check_invariants: whether the indices are checked now.

    Raises:
        RuntimeError: parts that do not fit.
    """
    return function(name)(front)


sparse_csr_tensor = _compressed("sparse_csr_tensor", sparse_csr)
sparse_csc_tensor = _compressed("sparse_csc_tensor", sparse_csc)

sparse_bsr_tensor = _compressed("sparse_bsr_tensor", sparse_bsr)
sparse_bsc_tensor = _compressed("sparse_bsc_tensor", sparse_bsc)


@function()
def sparse_compressed_tensor(
    compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None, device=None, pin_memory=False,
    requires_grad=False, check_invariants=None,
):  # fmt: skip
    """As :func:`sparse_csr_tensor` or that of another compressed layout, by ``layout``."""
    makers = {sparse_csr: sparse_csr_tensor, sparse_csc: sparse_csc_tensor, sparse_bsr: sparse_bsr_tensor,
              sparse_bsc: sparse_bsc_tensor}  # fmt: skip
    bools("sparse_compressed_tensor", pin_memory=pin_memory)
    if layout not in makers:
        raise RuntimeError(f"sparse_compressed_tensor: expected a compressed sparse layout, got {layout}")
    return makers[layout](
        compressed_indices, plain_indices, values, size, dtype=dtype, device=device, requires_grad=requires_grad,
        check_invariants=check_invariants,
    )  # fmt: skip


# -- the parts -------------------------------------------------------------------------------------------


def _coordinates(name, t):
    v = coo_of(t)
    if v is None:
        raise RuntimeError(f"{name} expected sparse coordinate tensor layout but got {layout_name(t)}")
    return v


def _raw(name, t):
    v = coo_of(t)
    if v is None:
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments of layout {t.layout}: it is for torch.sparse_coo"
        )
    return v


def _sharing_version(t, values):
    """``values`` with the version counter of ``t``: a change of the one is a change of the other."""
    values._vc = t._vc
    return values


@method()
def _indices(self):
    """The indices as they are, [sparse_dim, nnz]."""
    return alias(_raw("_indices", self).indices)


@method()
def _values(self):
    """The values as they are, without history; changes of them are changes of the tensor."""
    return _sharing_version(self, alias(_raw("_values", self).values))


@method()
def _nnz(self):
    """How many entries there are."""
    v = value(self)
    if v is None:
        raise NotImplementedError("Could not run 'aten::_nnz' with a tensor of layout torch.strided")
    return v.nnz


@method()
def sparse_dim(self):
    """How many dimensions are sparse: 0 of a dense tensor, 2 of a compressed one."""
    v = value(self)
    return 0 if v is None else v.sparse_dim if isinstance(v, Coo) else 2


@method()
def dense_dim(self):
    """How many dimensions are dense: all of a dense tensor; those of a batch of compressed matrices are not."""
    v = value(self)
    return len(v.dense) if isinstance(v, Compressed) else self.ndim - sparse_dim(self)


@method()
def is_coalesced(self):
    """Whether indices are known to be sorted and distinct."""
    return _coordinates("is_coalesced", self).coalesced


@method()
def _coalesced_(self, coalesced):
    """Set what :meth:`is_coalesced` says."""
    _coordinates("_coalesced_", self).coalesced = bool(coalesced)
    bump(self)
    return self


@method()
def coalesce(self):
    """The same tensor with each index once, in order; itself if it is coalesced.

    >>> import torchlike as torch
    >>> torch.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (2,)).coalesce()
    tensor(indices=tensor([[1]]),
           values=tensor([5.]),
           size=(2,), nnz=1, layout=torch.sparse_coo)
    """
    if _coordinates("coalesce", self).coalesced:
        return self

    def f(ctx, t):
        ctx.saves(lambda grad: [grad])
        return fresh(structure.coalesced(coo_of(t)))

    return recorded("CoalesceBackward0", f, self)


@method()
def indices(self):
    """The indices of a coalesced tensor, [sparse_dim, nnz]."""
    v = _coordinates("indices", self)
    if not v.coalesced:
        raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return alias(v.indices)


@method()
def values(self):
    """The values of a coalesced or compressed tensor; gradients flow through them."""
    v = value(self)
    if v is None:
        raise RuntimeError("values expected sparse tensor layout but got Strided")
    if isinstance(v, Coo) and not v.coalesced:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return viewed(self, construction.values_of(self) if self.requires_grad else alias(v.values))


def _part(name, kind, layouts, part, other):
    def get(self):
        v = value(self)
        if not isinstance(v, Compressed) or v.layout not in layouts:
            raise RuntimeError(f"{name} expected sparse {kind} compressed tensor layout but got {layout_name(self)}")
        return alias(getattr(v, part))

    get.__name__, get.__qualname__ = name, f"Tensor.{name}"
    get.__doc__ = f"""The {other} of a tensor of layout ``{layouts[0]}``, those of blocks of ``{layouts[1]}``."""
    return method(name)(get)


_BY_ROWS, _BY_COLUMNS = (sparse_csr, sparse_bsr), (sparse_csc, sparse_bsc)
_part("crow_indices", "row", _BY_ROWS, "compressed", "starts of rows")
_part("col_indices", "row", _BY_ROWS, "plain", "columns")
_part("ccol_indices", "column", _BY_COLUMNS, "compressed", "starts of columns")
_part("row_indices", "column", _BY_COLUMNS, "plain", "rows")


# -- conversion ------------------------------------------------------------------------------------------


@method()
def to_dense(self, dtype=None, *, masked_grad=None):
    """All elements, as a tensor of layout ``torch.strided``; a dense tensor is returned as it is.

    Gradients have the places of the sparse tensor only, unless ``masked_grad`` is False.
    """
    if value(self) is None:
        return self if dtype is None else self.to(dtype)
    if dtype is not None:
        raise RuntimeError(
            "dtype argument is not supported by sparse_to_dense; convert with .to(dtype) before or after"
        )

    def f(ctx, t):
        def back(grad, t):
            if masked_grad is False:
                return [grad]
            return [grad.sparse_mask(t if coo_of(t) is None else t.coalesce())]

        ctx.saves(back, t.detach())
        return structure.dense(structure.as_coo(t))

    return recorded("ToDenseBackward0", f, self)


@method()
def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The nonzero elements as a sparse tensor, of layout ``torch.sparse_coo`` by default.

    Args:
        sparse_dim: how many dimensions are sparse, all by default; the others stay dense.
        blocksize: height and width of the blocks, for ``torch.sparse_bsr`` and ``torch.sparse_bsc``.
        dense_dim: how many of the last dimensions stay dense, none by default.

    Raises:
        RuntimeError: options that do not fit the tensor or the layout, or matrices of a batch of which one has more
            entries than another, in a compressed layout.

    >>> import torchlike as torch
    >>> torch.tensor([[0.0, 7.0]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([7.]),
           size=(1, 2), nnz=1, layout=torch.sparse_coo)
    """
    if sparse_dim is not None and not layout is blocksize is dense_dim is None:
        raise TypeError("to_sparse(): sparse_dim is a way of its own, without layout, blocksize or dense_dim")
    _demand_dense_dim("to_sparse", self, layout or sparse_coo, dense_dim)
    if layout is not None and layout is not sparse_coo:
        return _to_layout("to_sparse", self, layout, _blocksize_of(self, layout, blocksize), dense_dim or 0)
    if value(self) is not None:
        return to_sparse_coo(self)
    _blocksize_of(self, sparse_coo, blocksize)
    n = self.ndim - (dense_dim or 0) if sparse_dim is None else sparse_dim
    if not 0 < n <= self.ndim and self.ndim:
        raise RuntimeError(
            f"to_sparse: sparse_dim argument must be in >0 when converting a {self.ndim}-dim tensor, got {sparse_dim}"
        )

    def f(ctx, t):
        ctx.saves(lambda grad: [grad.to_dense()])
        return fresh(structure.to_sparse(t, n))

    return recorded("ToSparseBackward1" if sparse_dim is None else "ToSparseBackward0", f, self)


_LAYOUT_NODES = {
    sparse_coo: "ToSparseBackward1", sparse_csr: "ToSparseCsrBackward0", sparse_csc: "ToSparseCscBackward0",
    sparse_bsr: "ToSparseBsrBackward0", sparse_bsc: "ToSparseBscBackward0",
}  # fmt: skip


def _demand_dense_dim(name, t, layout, dense_dim):
    """Refuse dimensions that cannot stay dense."""
    if dense_dim is None:
        return
    if not isinstance(dense_dim, int):
        raise TypeError(f"{name}(): argument 'dense_dim' must be int, not {type(dense_dim).__name__}")
    if t.layout is not strided:
        raise RuntimeError(
            f"{name}: conversion from {layout_name(t)} to {layout} with dense_dim argument given is not supported"
        )
    most = t.ndim if layout is sparse_coo else max(t.ndim - 2, 0)
    if not 0 <= dense_dim <= most:
        raise RuntimeError(f"{name}: dense_dim argument must be in [0,{most}] range, but {dense_dim} is given")
    if layout is sparse_coo and dense_dim == t.ndim > 0:
        raise RuntimeError(f"{name}: dense_dim argument must be !=self.dim() when self.dim()>0")


def _blocksize_of(t, layout, blocksize):
    """The ``blocksize`` of to_sparse(), which is for blocks and only for these."""
    blocked = layout in (sparse_bsr, sparse_bsc)
    v = value(t)
    if blocked and blocksize is None and isinstance(v, Compressed) and v.block:
        return v.block
    if blocked is (blocksize is None):
        given = "without" if blocked else "with"
        raise RuntimeError(
            f"to_sparse: conversion from {layout_name(t)} to {layout} {given} blocksize argument given is not supported"
        )
    return () if blocksize is None else _block("to_sparse", blocksize)


def _block(name, blocksize):
    sizes = (blocksize, blocksize) if isinstance(blocksize, int) else as_ints(name, "blocksize", blocksize)
    if len(sizes) != 2:
        raise RuntimeError(f"{name}: blocksize needs to be a tuple of size 2, but got {len(sizes)}")
    if min(sizes) < 1:
        raise RuntimeError(f"{name}: blocksize needs to be positive, but got {list(sizes)}")
    return tuple(sizes)


def _demand_blocks(name, t, layout, block, dense):
    """RuntimeError where ``t`` cannot be cut into blocks, or from blocks into numbers."""
    v = value(t)
    given = v.block if isinstance(v, Compressed) else ()
    if given and layout is not sparse_coo and block != given:
        what = f"with blocksize changed from {list(given)} to {list(block)} " if block else ""
        raise RuntimeError(f"{name}: conversion from {layout_name(t)} to {layout} {what}is not supported")
    rows, columns = t.shape[t.ndim - dense - 2 : t.ndim - dense] if block else (0, 0)
    if block and (rows % block[0] or columns % block[1]):
        raise RuntimeError(
            f"{name}: tensor sparse size ({rows},{columns}) must be divisible by given blocksize "
            f"({block[0]},{block[1]})"
        )


def _to_layout(name, t, layout, block=(), dense=0):
    """``t`` in another layout, of blocks of the size ``block``; itself if it has it.

    ``dense``: how many dimensions of a strided tensor stay dense; the first but two of the others are a batch.
    """
    if layout is strided:
        return to_dense(t)
    if layout not in _LAYOUT_NODES:
        raise NotImplementedError(f"{name}(): layout {layout} is not supported")
    before = t.layout
    if value(t) is not None and layout is not sparse_coo and sparse_dim(t) != 2:
        raise RuntimeError(f"Only tensors with two sparse dimensions can be converted to the {layout} layout")
    if value(t) is None and t.ndim < 2 and layout is not sparse_coo:
        raise NotImplementedError(f"{name}(): a tensor of {t.ndim} dimensions in layout {layout} is not supported")
    own, dense = getattr(value(t), "block", ()), dense if value(t) is None else dense_dim(t)
    if block and block != own and getattr(value(t), "batch", ()):
        raise RuntimeError(f"{name}: conversion from {layout_name(t)} to {layout} for batched inputs is not supported")
    _demand_blocks(name, t, layout, block, dense)
    if before is layout:
        return t

    def f(ctx, t):
        ctx.saves(lambda grad: [_to_layout(name, grad, before, own, dense)])
        v = structure.to_sparse(t, t.ndim - dense) if value(t) is None else structure.as_coo(t)
        return fresh(v if layout is sparse_coo else structure.compress(v, layout, block))

    return recorded(_LAYOUT_NODES[layout], f, t)


def _conversion(name, layout):
    def compressed(self, dense_dim=None):
        _demand_dense_dim(name, self, layout, dense_dim)
        return _to_layout(name, self, layout, (), dense_dim or 0)

    def convert(self):
        return _to_layout(name, self, layout)

    convert = convert if layout is sparse_coo else compressed
    convert.__name__, convert.__qualname__ = name, f"Tensor.{name}"
    convert.__doc__ = f"""The tensor in layout ``{layout}``."""
    return method(name)(convert)


to_sparse_coo = _conversion("to_sparse_coo", sparse_coo)
_conversion("to_sparse_csr", sparse_csr)
_conversion("to_sparse_csc", sparse_csc)


def _block_conversion(name, layout):
    def convert(self, blocksize, dense_dim=None):
        _demand_dense_dim(name, self, layout, dense_dim)
        return _to_layout(name, self, layout, _block(name, blocksize), dense_dim or 0)

    convert.__name__, convert.__qualname__ = name, f"Tensor.{name}"
    convert.__doc__ = f"""The matrix in layout ``{layout}``, of blocks of the size ``blocksize``, (height, width).

    Blocks without an entry are left out. RuntimeError where the blocks do not fill the matrix.
    """
    method(name)(convert)


_block_conversion("to_sparse_bsr", sparse_bsr)
_block_conversion("to_sparse_bsc", sparse_bsc)


@method()
def sparse_mask(self, mask):
    """The elements of the tensor, dense or sparse, at the places of the sparse ``mask``."""
    v = value(mask)
    if v is None:
        raise RuntimeError("sparse_mask: expected a sparse mask, got a tensor of layout torch.strided")
    if tuple(self.shape) != tuple(mask.shape):
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    if isinstance(v, Compressed) and value(self) is not None and self.layout is not mask.layout:
        raise RuntimeError(
            f"sparse_mask_sparse_compressed expects self to be of the layout of mask, got {layout_name(self)} and "
            f"{layout_name(mask)}"
        )
    if isinstance(v, Coo) and isinstance(value(self), Compressed):
        raise RuntimeError("sparse_mask_sparse_compressed expects mask to have sparse compressed layout, got Sparse")
    dense = value(self) is None

    def f(ctx, t):
        def back(grad):
            if isinstance(v, Coo) and not v.coalesced:
                grad = grad.sparse_mask(mask.detach()).coalesce()
            return [grad.to_dense() if dense else grad]

        ctx.saves(back)
        found = structure.masked(t, structure.as_coo(mask))
        return structure.with_values(mask, found.values) if isinstance(v, Compressed) else fresh(found)

    return recorded("SparseMaskBackward0", f, self)


# -- changes in place ------------------------------------------------------------------------------------


@method()
def sparse_resize_(self, size, sparse_dim, dense_dim):
    """Another size for a tensor of layout ``torch.sparse_coo``, whose entries stay; it may only grow."""
    v = _coordinates("sparse_resize_", self)
    size = as_ints("sparse_resize_", "size", size)
    if not v.nnz:
        return sparse_resize_and_clear_(self, size, sparse_dim, dense_dim)
    _demand_growth(v, size, sparse_dim, dense_dim)
    if tuple(size[sparse_dim:]) != tuple(v.shape[sparse_dim:]):
        raise unsupported("to other dense dimensions sparse_resize_", self)
    write(self, Coo(v.indices, v.values, size, v.coalesced, v.within))
    return self


def _demand_growth(v, size, sparse_dim, dense_dim):
    """RuntimeError where entries would have no place in the new size."""
    dense, before, after = len(v.shape) - v.sparse_dim, v.lengths(), tuple(size[:sparse_dim])
    rest, wanted = tuple(v.shape[v.sparse_dim :]), tuple(size[sparse_dim:])
    for what, old, new, bad in (
        ("changing the number of sparse dimensions", v.sparse_dim, sparse_dim, v.sparse_dim != sparse_dim),
        ("changing the number of dense dimensions", dense, dense_dim, dense != dense_dim),
        ("shrinking the size of sparse dimensions", [*before], [*after], any(map(operator.gt, before, after))),
        ("shrinking the size of dense dimensions", [*rest], [*wanted], any(map(operator.gt, rest, wanted))),
    ):
        if bad:
            raise RuntimeError(
                f"{what} (from {old} to {new}) on a non-empty sparse tensor is not supported: make an empty one by "
                "sparse_resize_and_clear_()"
            )


@both("resize_as_sparse_")
def resize_as_sparse_(self, the_template):
    """The size and the kinds of dimensions of another tensor of layout ``torch.sparse_coo``; entries stay.

    RuntimeError where the tensor would shrink while it has entries.
    """
    if not isinstance(the_template, Tensor):
        raise TypeError(
            f"resize_as_sparse_(): argument 'the_template' (position 1) must be Tensor, not "
            f"{type(the_template).__name__}"
        )
    sparse_dim = the_template.sparse_dim() if value(the_template) is not None else 0
    return self.sparse_resize_(the_template.shape, sparse_dim, the_template.ndim - sparse_dim)


@method()
def sparse_resize_and_clear_(self, size, sparse_dim, dense_dim):
    """Another size for a tensor of layout ``torch.sparse_coo``, which has no entries then."""
    _coordinates("sparse_resize_and_clear_", self)
    size = as_ints("sparse_resize_and_clear_", "size", size)
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )
    new = construction.empty(sparse_coo, size, self.dtype, self.device, dense_dim)
    write(self, new._storage.value)
    return self


# -- products --------------------------------------------------------------------------------------------


def _demand_pair(name, mat1, mat2):
    if coo_of(mat1) is None or value(mat2) is not None:
        raise RuntimeError(
            f"{name}: expected a matrix of layout torch.sparse_coo and a strided one, got {mat1.layout} and "
            f"{mat2.layout}"
        )


@method("smm")
@function("smm")
def smm(input, mat2):
    """The product of a sparse and a dense matrix, as a sparse tensor."""
    _demand_pair("smm", input, mat2)
    return FUNCTIONS["mm"](input, mat2).to_sparse()


@both()
def sspaddmm(input, mat1, mat2, *, beta=1, alpha=1):
    """``beta * input + alpha * (mat1 @ mat2)`` of sparse ``input`` and ``mat1``, as a sparse tensor."""
    _demand_pair("sspaddmm", mat1, mat2)
    return input * beta + FUNCTIONS["mm"](mat1, mat2).to_sparse() * alpha


@function()
def hspmm(mat1, mat2):
    """The product of a sparse and a dense matrix, with sparse rows and dense columns."""
    _demand_pair("hspmm", mat1, mat2)
    return FUNCTIONS["mm"](mat1, mat2).to_sparse(1)


function("spmm")(FUNCTIONS["mm"])
_ = prop, replaced, Tensor
