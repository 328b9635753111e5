"""Products of matrices group by group."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base.dtypes import from_np
from torchlike._decl.op import op
from torchlike._ops.matmul import precision

_KINDS = ("float32", "bfloat16", "float16")


def _demand_kind(name, x):
    kind = from_np(x.dtype)
    if kind.name not in _KINDS:
        raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {kind.scalar_name}")


def _check(a, b, offs, bias, dtype):
    for name, x in (("mat_a", a), ("mat_b", b)):
        _demand_kind(name, x)
    for name, x in (("mat_a", a), ("mat_b", b)):
        if x.ndim not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"grouped_mm: expected mat_a and mat_b to have the same dtype, but got {from_np(a.dtype)} and "
            f"{from_np(b.dtype)}"
        )
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(f"contraction dimension of mat_a and mat_b must match, got {list(a.shape)}, {list(b.shape)}")
    if (offs is None) == (a.ndim == 2 or b.ndim == 2):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if dtype is not None and dtype.np != a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    _check_groups(a, b, offs)


def _check_groups(a, b, offs):
    if offs is None:
        if a.shape[0] != b.shape[0]:
            raise RuntimeError(f"batched dimension has to match, got {a.shape[0]} and {b.shape[0]}")
        return
    if offs.ndim != 1:
        raise RuntimeError("offs has to be 1D")
    if offs.dtype != np.int32:
        raise RuntimeError("Offsets have to be int32")
    for x in (a, b):
        if x.ndim == 3 and x.shape[0] != offs.shape[0]:
            raise RuntimeError(
                f"matrix batch sizes have to match, got {x.shape[0]} matrices and {offs.shape[0]} offsets"
            )


def _by_rows(a, matrices, offs):
    """Each row of ``a`` times the matrix of its group."""
    sizes = jnp.maximum(jnp.diff(offs, prepend=np.int32(0)), 0)
    return lax.ragged_dot(a, matrices, sizes, precision=precision())


def _members(offs, n):
    """[groups, n]: 1 where a position belongs to a group."""
    place, first = jnp.arange(n), jnp.concatenate([jnp.zeros(1, offs.dtype), offs[:-1]])
    return (place >= first[:, None]) & (place < offs[:, None])


@op("_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
    variants="", node="GroupedMmBackward")  # fmt: skip
def grouped_mm(self, mat2, offs, bias, out_dtype):
    """Products of the groups of rows, of columns or of contracted positions that end before ``offs``."""
    a, b = self, mat2
    _check(a, b, offs, bias, out_dtype)
    if offs is None:
        return jnp.matmul(a, b, precision=precision())
    if b.ndim == 3:
        return _by_rows(a, b, offs)
    if a.ndim == 3:
        return _by_rows(b.T, jnp.swapaxes(a, 1, 2), offs).T
    parts = jnp.where(_members(offs, a.shape[1])[:, None, :], a, 0)
    return jnp.matmul(parts, b, precision=precision())
