"""Reductions of sparse tensors under masks: the result holds an element where one of those reduced counts."""

import torchlike._base.dtypes as dtypes
from torchlike._core.tensor.tensor import sparse_coo, sparse_csr, strided
from torchlike._functions._install import FUNCTIONS as _F

_REDUCED = {"sum", "prod", "amax", "amin", "mean"}


def demand_reduced(name, input):
    """ValueError for functions that take no tensors of this layout."""
    what = f"masked {name} expects"
    if name not in _REDUCED or input.layout not in (sparse_coo, sparse_csr):
        raise ValueError(f"{what} strided tensor (got {input.layout} tensor): make it dense with .to_dense()")
    if name == "mean" and input.layout is sparse_coo:
        raise ValueError(f"{what} strided or sparse_csr tensor (got {input.layout} tensor)")


def _demand_counted(name, input, keepdim, mask):
    if mask is None and name != "sum":
        layout = str(input.layout).removeprefix("torch.")
        raise ValueError(
            f"masked {name} expects explicit mask for {layout} tensor input: 0 and nothing are not told apart without"
        )
    if input.layout is sparse_csr and not keepdim:
        kind = RuntimeError if name in ("sum", "prod") else AssertionError
        raise kind("reduction operations on CSR tensors with keepdim=False is unsupported: give keepdim=True")
    if input.dense_dim():
        raise NotImplementedError(f"masked {name} of a sparse tensor with dense dimensions: use .to_dense()")


def _unmasked_entries(input, mask, expanded):
    """The entries of ``input``, or those that ``mask`` lets through, with 0 where there are none."""
    entries = input.to_sparse().coalesce()
    if mask is None:
        return entries
    if mask.layout is not strided:
        mask = mask.to_dense()
    return entries.sparse_mask(expanded(input, mask).to_sparse())


def _grouped(indices):
    """Which columns are equal: one of each, and the place of each among these; columns of nothing are one."""
    if indices.shape[0]:
        return _F["unique"](indices, dim=1, return_inverse=True)
    return indices.new_zeros(0, 1), indices.new_zeros(indices.shape[1])


def reduced(name, input, dims, keepdim, dtype, mask, expanded, limit):
    """``name`` of the entries of ``input`` that ``mask`` lets through, as :func:`of_entries`."""
    _demand_counted(name, input, keepdim, mask)
    return of_entries(name, input, _unmasked_entries(input, mask, expanded), dims, keepdim, dtype, limit)


def of_entries(name, input, entries, dims, keepdim, dtype, limit=None):
    """``name`` over ``dims`` of ``entries`` that ``input`` has, coalesced, as a sparse tensor of its layout."""
    dims = {d % max(input.ndim, 1) for d in dims}
    kept = [d for d in range(input.ndim) if d not in dims]
    groups, place = _grouped(entries.indices()[kept])
    values = entries.values()
    whole = name in ("sum", "prod") and not (values.dtype.is_floating_point or values.dtype.is_complex)
    values = values.to(dtype or (dtypes.int64 if whole else values.dtype))
    of_none = {"sum": 0, "prod": 1, "mean": float("nan")}
    nothing = of_none[name] if name in of_none else limit(name, values, name == "amax")
    found = values.new_full((groups.shape[1],), nothing).scatter_reduce(0, place, values, name, include_self=False)
    if not kept and input.layout is sparse_coo:
        return found.reshape([1] * input.ndim if keepdim else []).to_sparse()
    shape = [input.shape[d] for d in kept]
    if keepdim:
        at = groups.new_zeros(input.ndim, groups.shape[1])
        at[kept] = groups
        groups, shape = at, [1 if d in dims else n for d, n in enumerate(input.shape)]
    result = _F["sparse_coo_tensor"](groups, found, shape, is_coalesced=True)
    return result if input.layout is sparse_coo else result.to_sparse_csr()
