"""Products of matrices in groups, and of numbers of eight bits with scales."""

from enum import Enum

from torchlike._base import dtypes
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.arguments import as_tensor_arg
from torchlike._ops.grouped import grouped_mm as _grouped_mm
from torchlike._ops.grouped import scaled_mm as _scaled_mm

__all__ = ["grouped_mm", "scaled_mm"]


class ScalingType(Enum):
    """What a scale is of: a whole tensor, a row, or a block."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """The order in which scales lie in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """A product of matrices for each group, such as the experts of a mixture.

    Args:
        mat_a, mat_b: [M, K] or [G, M, K], and [K, N] or [G, K, N], in float32, bfloat16 or float16.
        offs: [G] of int32, where each group ends, unless both have 3 dimensions: groups of the rows of ``mat_a`` (with
            ``mat_b`` of 3 dimensions), of the columns of ``mat_b`` (with ``mat_a`` of 3), or of what is summed over.
            Each is at least the one before, and the last at most the length; rows beyond it are 0.
        bias: None. out_dtype: that of ``mat_a``.

    Returns:
        [M, N] for groups of rows or columns, else [G, M, N].

    Raises:
        RuntimeError: shapes, dtypes or ``offs`` that do not fit.

    >>> import torchlike as torch
    >>> x, experts = torch.ones(3, 2), torch.arange(8.0).reshape(2, 2, 2)
    >>> torch.nn.functional.grouped_mm(x, experts, offs=torch.tensor([1, 3], dtype=torch.int32))
    tensor([[ 2.,  4.],
            [10., 12.],
            [10., 12.]])
    """
    a, b = (as_tensor_arg("grouped_mm", name, x) for name, x in (("mat_a", mat_a), ("mat_b", mat_b)))
    offs, bias = (None if x is None else as_tensor_arg("grouped_mm", n, x) for n, x in (("offs", offs), ("bias", bias)))
    return call(_grouped_mm, (a, b, offs, bias), (out_dtype,))


_SHORT = (dtypes.float8_e4m3fn, dtypes.float8_e5m2)


def scaled_mm(
    mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None, bias=None,
    output_dtype=dtypes.bfloat16, contraction_dim=(), use_fast_accum=False,
):  # fmt: skip
    """``(mat_a * scale_a) @ (mat_b * scale_b) + bias`` of matrices in float8, summed in float32.

    Args:
        mat_a, mat_b: [M, K] and [K, N] in ``float8_e4m3fn`` or ``float8_e5m2``.
        scale_a, scale_b: float32, of one element (``ScalingType.TensorWise``), or [M, 1] and [1, N]
            (``ScalingType.RowWise``). scale_recipe_a, scale_recipe_b: which of the two, both the same.
        swizzle_a, swizzle_b: None, or ``SwizzleType.NO_SWIZZLE``. bias: [N]. output_dtype: None is that of ``mat_a``.
        contraction_dim, use_fast_accum: accepted.

    Raises:
        RuntimeError: a backward through it.
        ValueError: shapes, dtypes or scales that do not fit; scales of blocks, other orders of scales.

    >>> import torchlike as torch
    >>> F, one = torch.nn.functional, torch.tensor(1.0)
    >>> x = torch.eye(2).to(torch.float8_e4m3fn)
    >>> F.scaled_mm(x, x, one, F.ScalingType.TensorWise, one * 3, F.ScalingType.TensorWise)
    tensor([[3., 0.],
            [0., 3.]], dtype=torch.bfloat16)
    """
    a, b = (as_tensor_arg("scaled_mm", name, x) for name, x in (("mat_a", mat_a), ("mat_b", mat_b)))
    for name, x in (("mat_a", a), ("mat_b", b)):
        if x.dim() != 2:
            raise ValueError(f"{name} must be a matrix, got shape {list(x.shape)}")
    if a.shape[1] != b.shape[0]:
        shapes = (f"{x.shape[0]}x{x.shape[1]}" for x in (a, b))
        raise ValueError(f"mat_a and mat_b shapes cannot be multiplied ({' and '.join(shapes)})")
    if any(_only(s) not in (None, SwizzleType.NO_SWIZZLE) for s in (swizzle_a, swizzle_b)):
        raise ValueError("scaled_mm: CPU does not support swizzle, nor does torchlike on other devices")
    recipes, scales = [_only(scale_recipe_a), _only(scale_recipe_b)], [_only(scale_a), _only(scale_b)]
    _check_scales((a, b), scales, recipes)
    return call(_scaled_mm, (a, b, *scales, bias, None), (output_dtype, use_fast_accum))


def _only(x):
    """What a list of one holds."""
    return x[0] if isinstance(x, list | tuple) and len(x) == 1 else x


def _check_scales(matrices, scales, recipes):
    wise = recipes[0]
    fits = recipes[0] is recipes[1] and wise in (ScalingType.TensorWise, ScalingType.RowWise)
    if not fits or any(x.dtype not in _SHORT for x in matrices) or any(s.dtype is not dtypes.float32 for s in scales):
        raise ValueError(
            "Invalid scaling configuration: expected matrices of float8_e4m3fn or float8_e5m2, float32 scales, and "
            "ScalingType.TensorWise or ScalingType.RowWise for both; got "
            f"{[str(x.dtype) for x in matrices]}, {[str(s.dtype) for s in scales]}, {recipes}"
        )
    rows = (matrices[0].shape[0], 1), (1, matrices[1].shape[1])
    for name, scale, row in zip(("scale_a", "scale_b"), scales, rows, strict=True):
        if wise is ScalingType.TensorWise and scale.numel() != 1:
            raise ValueError(f"{name} must have 1 Float element, got {scale.numel()}")
        if wise is ScalingType.RowWise and tuple(scale.shape) != row:
            raise ValueError(f"{name} must have shape {row} for RowWise scaling, got {tuple(scale.shape)}")
