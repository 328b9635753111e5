"""Interpolation, sampling, shuffles and sliding blocks."""

from torchlike._base.frames import warn
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor import arguments
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import function
from torchlike._ops import grid as grids
from torchlike._ops import upsample as ops
from torchlike.nn.functional._replaced import PUBLIC

__all__ = [
    "affine_grid", "channel_shuffle", "fold", "grid_sample", "interpolate", "pixel_shuffle",
    "native_channel_shuffle", "pixel_unshuffle", "unfold", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

pixel_shuffle, pixel_unshuffle = FUNCTIONS["pixel_shuffle"], FUNCTIONS["pixel_unshuffle"]
channel_shuffle, native_channel_shuffle = FUNCTIONS["channel_shuffle"], FUNCTIONS["native_channel_shuffle"]
GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}

_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
_SMOOTH = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3, "lanczos": 2}


def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Resize the last dimensions of [N, C, L], [N, C, H, W] or [N, C, D, H, W].

    Args:
        size: the new sizes, an int or one for each dimension. scale_factor: or the factors.
        mode: ``'nearest'``, ``'nearest-exact'``, ``'linear'``, ``'bilinear'``, ``'bicubic'``,
            ``'trilinear'``, ``'area'``, or ``'lanczos'`` (with ``antialias``).
        align_corners: whether the outer elements keep their places, else the outer edges do.
        recompute_scale_factor: use the quotient of the sizes in place of ``scale_factor``.
        antialias: filter when making smaller (``'bilinear'``, ``'bicubic'``, ``'lanczos'``; 4-D input).

    Raises:
        ValueError: contradicting arguments. NotImplementedError: a mode that does not fit the input.

    >>> import torchlike as torch
    >>> torch.nn.functional.interpolate(torch.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    n = input.dim() - 2
    _check_corners(mode, align_corners)
    size, scales = _target(input, n, size, scale_factor, recompute_scale_factor)
    _check_mode(n, mode, antialias, align_corners)
    if mode == "area":
        return PUBLIC[f"adaptive_avg_pool{n}d"](input, size)
    arguments.bools("interpolate", align_corners=False if align_corners is None else align_corners)
    return call(ops.interpolate[mode, n], (input,), (size, scales, bool(align_corners), bool(antialias)))


def _check_corners(mode, align_corners):
    if align_corners is not None and mode in ("nearest", "area", "nearest-exact"):
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )


def _check_mode(n, mode, antialias, align_corners):
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and n == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if n not in (1, 2, 3) or mode not in _MODES.split(" | "):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {n + 2}D) for the modes: {_MODES} "
            f"(got {mode})"
        )
    if _SMOOTH.get(mode, n) != n:
        raise NotImplementedError(f"Got {n + 2}D input, but {mode} mode needs {_SMOOTH[mode] + 2}D input")
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")


def _each(value, n, what, format, input):
    """``value`` for each of ``n`` dimensions."""
    if not isinstance(value, list | tuple):
        return (value,) * n
    if len(value) != n:
        raise ValueError(
            f"Input and {what} must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {list(input.shape[2:])} and "
            f"{what.replace('output', 'output size of')}{'' if what == 'output' else ' of shape'} "
            f"{tuple(value)}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and {format}."
        )
    return tuple(value)


def _target(input, n, size, scale_factor, recompute_scale_factor):
    """(new sizes, scale factors that the positions are computed with or None)."""
    if (size is None) == (scale_factor is None):
        few = "either size or scale_factor should be defined"
        raise ValueError(few if size is None else "only one of size or scale_factor should be defined")
    if size is not None:
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        given = _each(size, n, "output", "output size in (o1, o2, ...,oK) format", input)
        if any(isinstance(s, float) for s in given):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], "
                f"but got size with types {[type(s) for s in given]}"
            )
        return arguments.as_ints("interpolate", "size", given), None
    given = _each(scale_factor, n, "scale_factor", "scale_factor in (s1, s2, ...,sK) format", input)
    scales = tuple(float(arguments.without_grad("interpolate", "scale_factor", s)) for s in given)
    new = tuple(int(length * s) for length, s in zip(input.shape[2:], scales, strict=True))
    return new, None if recompute_scale_factor else scales


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """:func:`interpolate`, under its old name."""
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return PUBLIC["interpolate"](input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """:func:`interpolate` with mode nearest, under its old name."""
    warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
    )
    return PUBLIC["interpolate"](input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """:func:`interpolate` with mode bilinear and aligned corners, under its old name."""
    warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
    )
    return PUBLIC["interpolate"](input, size, scale_factor, mode="bilinear", align_corners=True)


def _corners(name, align_corners):
    if align_corners is None:
        warn(
            f"{name}: align_corners is not given; the default is False (PyTorch before 1.3 had True). Give "
            "it to silence this warning.",
        )
        return False
    return _flag(name, align_corners)


def _flag(name, align_corners):
    if not isinstance(align_corners, bool):
        raise TypeError(f"{name}(): argument 'align_corners' must be bool, not {type(align_corners).__name__}")
    return align_corners


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Elements of an image at the points of a grid, interpolated.

    Args:
        input: [N, C, H, W] or [N, C, D, H, W].
        grid: [N, ..., 2] or [N, ..., 3]: coordinates (x, y[, z]), -1 and 1 at the image's ends.
        mode: ``'bilinear'``, ``'nearest'`` or (4-D input) ``'bicubic'``.
        padding_mode: what lies outside: ``'zeros'``, ``'border'`` or ``'reflection'``.
        align_corners: whether -1 and 1 are the outer elements' centres, else their edges.

    >>> import torchlike as torch
    >>> image, center = torch.arange(4.0).view(1, 1, 2, 2), torch.zeros(1, 1, 1, 2)
    >>> torch.nn.functional.grid_sample(image, center, align_corners=False)
    tensor([[[[1.5000]]]])
    """
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    if mode not in modes:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in paddings:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    corners = _corners("grid_sample", align_corners)
    return grid_sampler(input, grid, modes.index(mode), paddings.index(padding_mode), corners)


@function()
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """See :func:`torch.nn.functional.grid_sample`; modes are numbered in the order named there."""
    for name, x in (("input", input), ("grid", grid)):
        arguments.as_tensor_arg("grid_sampler", name, x)
    if input.dim() not in (4, 5):
        grids.check_sizes(input.shape, grid.shape)
        raise RuntimeError(
            "grid_sampler(): expected 5D input and grid with same number of dimensions, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    static = (interpolation_mode, padding_mode, _flag("grid_sampler", align_corners))
    return call(grids.grid_sampler[input.dim() - 2], (input, grid), static)


def affine_grid(theta, size, align_corners=None):
    """The grid with which :func:`grid_sample` applies affine maps.

    Args:
        theta: [N, 2, 3] or [N, 3, 4]. size: of the result of ``grid_sample``, (N, C, H, W) or
            (N, C, D, H, W).

    >>> import torchlike as torch
    >>> same = torch.eye(2, 3).unsqueeze(0)
    >>> torch.nn.functional.affine_grid(same, (1, 1, 2, 2), align_corners=True)
    tensor([[[[-1., -1.],
              [ 1., -1.]],
    <BLANKLINE>
             [[-1.,  1.],
              [ 1.,  1.]]]])
    """
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    size = arguments.as_ints("affine_grid", "size", size)
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got "
            f"size {tuple(size)}."
        )
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {tuple(size)}. Got "
            f"{theta.shape}."
        )
    corners = _corners("affine_grid", align_corners)
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    if align_corners and 1 in size[2:]:
        warn(
            "affine_grid(): along a dimension of one element, align_corners=True puts that element in the middle (at "
            "0), which is rarely meant. See the documentation of affine_grid for details.",
        )
    return call(grids.affine_grid_generator, (theta,), (tuple(size), corners))


def _pairs(name, **values):
    convert = arguments.as_ints_or_int(2)
    found = {what: convert(name, what, value) for what, value in values.items()}
    for what, pair in found.items():
        if len(pair) != 2:
            raise RuntimeError(f"{name}: It is expected {what} equals to 2, but got size {len(pair)}")
    return (*found.values(),)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Sliding blocks as columns: [N, C, H, W] to [N, C * kernel elements, blocks].

    >>> import torchlike as torch
    >>> torch.nn.functional.unfold(torch.arange(6.0).view(1, 1, 2, 3), (2, 2))[0].T
    tensor([[0., 1., 3., 4.],
            [1., 2., 4., 5.]])
    """
    static = _pairs("unfold", kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)
    if isinstance(input, Tensor) and input.dim() < 3:
        input.size(input.dim() if input.dim() else 1)  # IndexError: a batch has three dimensions at least
    return call(ops.im2col, (input,), static)


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Sums of sliding blocks, the adjoint of :func:`unfold`: [N, C * kernel elements, blocks] to [N, C,
    *output_size].

    >>> import torchlike as torch
    >>> torch.nn.functional.fold(torch.ones(1, 2, 2), (1, 3), (1, 2))
    tensor([[[[1., 2., 1.]]]])
    """
    static = _pairs(
        "fold",
        output_size=output_size,
        kernel_size=kernel_size,
        dilation=dilation,
        padding=padding,
        stride=stride,
    )
    return call(ops.col2im, (input,), static)
