"""Products of matrices group by group, and of floats of eight bits with scales."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base.dtypes import from_np
from torchlike._decl.op import op
from torchlike._ops._elementwise import no_derivative
from torchlike._ops.matmul import precision
from torchlike._ops.shape import cast

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
    variants="function", node="GroupedMmBackward", aten={"own": False, "out": None})  # fmt: skip
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


_SHORT = ("float8_e4m3fn", "float8_e5m2")


def _check_scaled(a, b, scales):
    for name, x in (("mat1", a), ("mat2", b)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix")
    if a.shape[1] != b.shape[0]:
        shapes = (f"{x.shape[0]}x{x.shape[1]}" for x in (a, b))
        raise RuntimeError(f"mat_a and mat_b shapes cannot be multiplied ({' and '.join(shapes)})")
    rows = [s.shape for s in scales] == [(a.shape[0], 1), (1, b.shape[1])]
    kinds = [from_np(x.dtype).name for x in (a, b)]
    if not set(kinds) <= set(_SHORT) or any(s.dtype != np.float32 for s in scales) or not (
        rows or all(s.size == 1 for s in scales)
    ):  # fmt: skip
        raise ValueError(
            "Invalid scaling configuration: expected matrices of float8_e4m3fn or float8_e5m2, and float32 scales of "
            f"one element each, or of shapes ({a.shape[0]}, 1) and (1, {b.shape[1]}); got {kinds}, "
            f"{[str(s.dtype) for s in scales]}, {[s.shape for s in scales]}"
        )


@op("_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
    "Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
    variants="function", aten=True,
    vjp={"self, mat2, scale_a, scale_b, bias": no_derivative("_scaled_mm")})  # fmt: skip
def scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum):
    """``(self * scale_a) @ (mat2 * scale_b) + bias`` in float32, cast to ``out_dtype`` (that of ``self``)."""
    _check_scaled(self, mat2, (scale_a, scale_b))
    n = mat2.shape[1]
    if bias is not None and bias.size != n:
        raise RuntimeError(f"Bias must be size {n} but got {bias.size}")
    a, b = self.astype(np.float32), mat2.astype(np.float32)
    total = jnp.matmul(a * scale_a, b * scale_b, precision=precision())
    total = total if bias is None else total + bias.astype(np.float32)
    return cast(total, self.dtype if out_dtype is None else out_dtype.np)
