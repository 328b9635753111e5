"""Sampling an image at the points of a grid, and grids of affine maps."""

import itertools
import math

import jax.numpy as jnp
import numpy as np

from torchlike._base.dtypes import from_np
from torchlike._base.ramp import ramp
from torchlike._decl.op import op
from torchlike._ops._elementwise import is_reduced, round_to, wide


def _steps(x):
    """What rounds the result of a step: PyTorch computes these in 16-bit floats where it is given such ones."""
    return (lambda y: round_to(y, x.dtype)) if is_reduced(x) else lambda y: y


def _unnormalized(x, size, align_corners, step):
    """Coordinates of -1..1 in elements, the ends at the outer elements' centres or edges."""
    if align_corners:
        return step(step(x + 1) / 2 * (size - 1))
    return step(step(step(step(x + 1) * size) - 1) / 2)


def _reflected(x, low, span, step):
    """``x`` reflected into [low, low + span]."""
    if span <= 0:
        return jnp.zeros_like(x)
    x = jnp.abs(step(x - low))
    extra = jnp.fmod(x, span)
    odd = jnp.floor(step(x / span)) % 2 == 1
    return step(jnp.where(odd, step(span - extra), extra) + low)


def _clipped(x, size, solid):
    """``x`` between the first and the last element; no gradient at or beyond the ends.

    NaN goes to the first; in a solid, where PyTorch compares in another order, to the last.
    """
    inside = (x > 0) & (x < size - 1)
    last = (x >= size - 1) | jnp.isnan(x) if solid else x >= size - 1
    outside = jnp.where(last, float(size - 1), 0.0).astype(x.dtype)
    return jnp.where(inside, x, outside)


def _inside(x, size, padding_mode, align_corners, step, solid):
    """Coordinates moved into the image, as the padding mode says."""
    if padding_mode == 0:
        return x
    if padding_mode == 2:
        x = _reflected(x, 0.0, size - 1.0, step) if align_corners else _reflected(x, -0.5, float(size), step)
    return _clipped(x, size, solid)


def _exist(input, indices):
    """Whether there are elements at integer coordinates."""
    valid = True
    for at, length in zip(indices, input.shape[2:], strict=True):
        valid = valid & (at >= 0) & (at <= length - 1)
    return valid


def _pick(input, indices):
    """Elements of input [N, C, *size] at integer coordinates [N, *points] of each dimension: [N, C,
    *points]; 0 outside."""
    size, n = input.shape[2:], input.shape[0]
    valid, flat = _exist(input, indices), 0
    for at, length in zip(indices, size, strict=True):
        flat = flat * length + jnp.clip(jnp.where(jnp.isfinite(at), at, 0), 0, length - 1).astype(jnp.int64)
    points = flat.shape[1:]
    values = jnp.take_along_axis(
        input.reshape(*input.shape[:2], math.prod(size)),
        flat.reshape(n, 1, math.prod(points)),
        axis=2,
        mode="promise_in_bounds",
    )
    return jnp.where(valid[:, None], values.reshape(n, input.shape[1], *points), 0)


def _multilinear(input, coordinates, step):
    low = [jnp.floor(x) for x in coordinates]
    near = [(step(base + 1 - x), step(x - base)) for x, base in zip(coordinates, low, strict=True)]
    out = 0
    for corner in itertools.product((0, 1), repeat=len(coordinates)):
        weight = 1
        for end, i in zip(reversed(near), reversed(corner), strict=True):
            weight = step(weight * end[i])
        places = [base + i for base, i in zip(low, corner, strict=True)]
        if len(places) == 3:  # PyTorch leaves out what lies outside, also where the weight is NaN
            weight = jnp.where(_exist(input, places), weight, 0)
        values = _pick(input, places)
        out = step(out + step(values * weight[:, None]))
    return out


def _cubic_weights(t, step):
    """Weights of four neighbours at distance ``t`` from the second (Keys 1981, parameter -0.75)."""
    a = -0.75

    def near(x):
        return step(step(step(step(step((a + 2) * x) - (a + 3)) * x) * x) + 1)

    def far(x):
        return step(step(step(step(step(step(a * x) - 5 * a) * x) + 8 * a) * x) - 4 * a)

    return far(step(t + 1)), near(t), near(step(1 - t)), far(step(step(1 - t) + 1))


def _bicubic(input, coordinates, inside, step):
    """Of rows first, then of what they give."""
    low = [jnp.floor(x) for x in coordinates]
    rows, columns = (_cubic_weights(step(x - base), step) for x, base in zip(coordinates, low, strict=True))
    out = 0
    for i, row in enumerate(rows):
        line = 0
        for j, column in enumerate(columns):
            at = [inside(step(base + k - 1), n) for base, k, n in zip(low, (i, j), input.shape[2:], strict=True)]
            line = step(line + step(_pick(input, at) * column[:, None]))
        out = step(out + step(line * row[:, None]))
    return out


def check_sizes(input: tuple[int, ...], grid: tuple[int, ...]) -> None:
    """Raise where the sizes of a grid do not go with those of an input of any number of dimensions."""
    for sizes in (input, grid):
        if not sizes:
            raise IndexError("grid_sampler(): Dimension specified as 0 but tensor has no dimensions")
    if input[0] != grid[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input)} and grid with sizes {list(grid)}"
        )
    if grid[-1] != len(input) - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {len(input) - 2} in last dimension, but got grid "
            f"with sizes {list(grid)}"
        )


def _check(input, grid, interpolation_mode):
    check_sizes(input.shape, grid.shape)
    if input.ndim != grid.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected {input.ndim}D input and grid with same number of dimensions, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    for i, size in enumerate(input.shape[2:], 2):
        if size == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(input.shape)} with dimension {i} being empty"
            )
    if interpolation_mode == 2 and input.ndim != 4:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if not jnp.issubdtype(input.dtype, jnp.floating):
        raise NotImplementedError(
            f"\"grid_sampler_{input.ndim - 2}d\" not implemented for '{from_np(input.dtype).scalar_name}'"
        )
    if input.dtype != grid.dtype:
        raise RuntimeError(
            f"expected scalar type {from_np(input.dtype).scalar_name} but found "
            f"{from_np(grid.dtype).scalar_name}: grid_sample needs input and grid of one dtype"
        )


def _grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    _check(input, grid, interpolation_mode)
    kind, step = input.dtype, _steps(input)
    input, grid = wide(input), wide(grid)
    inside = lambda x, size: _inside(x, size, padding_mode, align_corners, step, input.ndim == 5)  # noqa: E731
    size = input.shape[2:]
    points = [grid[..., i] for i in reversed(range(len(size)))]  # the last coordinate is that of the first dimension
    at = [_unnormalized(x, n, align_corners, step) for x, n in zip(points, size, strict=True)]
    if interpolation_mode == 2:
        return _bicubic(input, at, inside, step).astype(kind)
    at = [inside(x, n) for x, n in zip(at, size, strict=True)]
    if interpolation_mode == 1:
        return _pick(input, [jnp.round(x) for x in at]).astype(kind)
    return _multilinear(input, at, step).astype(kind)


_SAVED = "align_corners grid! input! interpolation_mode padding_mode"


def _declare(name, node, **options):
    def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
        return _grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)

    schema = (
        f"{name}(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor"
    )
    return op(schema, variants="function", node=node, saved=_SAVED, **options)(grid_sampler)


def _backward(n):
    arguments = "Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
    back = f"grid_sampler_{n}d_backward({arguments}bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)"
    return {"input, grid": back}


grid_sampler = {
    n: _declare(f"grid_sampler_{n}d", f"GridSampler{n}DBackward", autocast={"cpu": "fp32", "cuda": "promote"},
                backward=_backward(n))  # fmt: skip
    for n in (2, 3)
}
# PyTorch's plain loop, beside its vectorized one: the same numbers
_declare(
    "_grid_sampler_2d_cpu_fallback", "GridSampler2DCpuFallbackBackward", aten={"own": False}, autocast={"cpu": "fp32"}
)


@op(
    "affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
    variants="function",
    autocast="lower_precision_fp",
)
def affine_grid_generator(theta, size, align_corners):
    """The grids [N, *positions, d] that ``grid_sample`` reads to apply the affine maps theta [N, d, d +
    1]."""
    n, positions = size[0], size[2:]
    if theta.shape[0] != n:
        raise RuntimeError(
            f"affine_grid_generator: expected theta for {n} elements as in size, but got theta of size "
            f"{list(theta.shape)}"
        )
    wanted = theta.dtype
    theta = wide(theta).reshape(n, *(1 for _ in positions), *theta.shape[1:])  # [N, 1, ..., d, d + 1]
    out = None
    for k, length in enumerate(reversed(positions)):
        line = _line(length, wanted, align_corners).astype(theta.dtype)
        term = line.reshape(length, *(1 for _ in range(k + 1))) * theta[..., k]
        out = term if out is None else out + term
    return (out + theta[..., len(positions)]).astype(wanted)


def _line(length, dtype, align_corners):
    """The coordinates along one axis, rounded as PyTorch's: at a pixel's centre a gradient depends on the last bit."""
    real = np.dtype(dtype)
    if length <= 1:
        return np.zeros(length, real)
    ends = ramp(-1, 1, length, real)
    return ends if align_corners else (ends * real.type(length - 1) / real.type(length)).astype(real)
