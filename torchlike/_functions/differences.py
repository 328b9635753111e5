"""Derivatives of sampled functions: ``torch.gradient``."""

from torchlike._base.dims import wrap_dim, wrap_dims
from torchlike._base.dtypes import uint8
from torchlike._core.dispatch.observers import as_calls
from torchlike._core.tensor import arguments
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS, function
from torchlike._ops import _composed_functions


@function()
def gradient(input, *, spacing=None, dim=None, edge_order=1):
    """The derivative of a function along each of ``dim`` (all dimensions), from its values at points.

    Args:
        spacing: the distance of the points (1): a number for all dimensions, one for each, or for each a tensor of
            one dimension with the coordinates.
        edge_order: 1 or 2, the order of accuracy at the first and the last point; within it is 2.

    Returns a tuple with a tensor of the shape of ``input`` for each dimension. RuntimeError for dimensions of fewer
    points than ``edge_order + 1``, for other orders and for uint8.

    >>> import torchlike as torch
    >>> torch.gradient(torch.tensor([1., 4., 9., 16.]))
    (tensor([3., 4., 6., 7.]),)
    """
    if not isinstance(input, Tensor):
        raise arguments.no_tensor("gradient", "input", 0, input)
    edge_order = arguments.as_int("gradient", "edge_order", edge_order)
    dims = _dims(input, dim)
    steps = _steps(input, spacing, dims)
    if input.dtype is uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError(f"torch.gradient only supports edge_order=1 and edge_order=2. Got {edge_order}")
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                f"torch.gradient expected each dimension size to be at least edge_order+1, got {input.shape[d]} in "
                f"dimension {d}"
            )
    return _derivatives(input, dims, steps, edge_order)


@as_calls(_composed_functions.gradient)
def _derivatives(input, dims, steps, edge_order):
    return tuple([_along(input, d, step, edge_order) for d, step in zip(dims, steps, strict=True)])


def _dims(input, dim):
    if dim is None:
        return list(range(input.ndim))
    if isinstance(dim, int | Tensor):
        return [wrap_dim(arguments.as_int("gradient", "dim", dim), input.ndim)]
    return wrap_dims(arguments.as_ints("gradient", "dim", dim), input.ndim)


def _steps(input, spacing, dims):
    """For each dimension the distance of its points, or their coordinates."""
    if spacing is None or not isinstance(spacing, list | tuple):
        if isinstance(spacing, Tensor) and not spacing.ndim:
            return [arguments.without_grad("gradient", "spacing", spacing)] * len(dims)  # which may not be known
        return [1 if spacing is None else arguments.as_number("gradient", "spacing", spacing)] * len(dims)
    if len(spacing) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the "
            f"same length, but got a spacing argument of length {len(spacing)} and a dim argument of length "
            f"{len(dims)}."
        )
    for step, d in zip(spacing, dims, strict=True):
        if isinstance(step, Tensor) and step.ndim and tuple(step.shape) != (input.shape[d],):
            raise RuntimeError(
                f"torch.gradient expected coordinates of shape [{input.shape[d]}] for dimension {d}, got "
                f"{list(step.shape)}"
            )
    return spacing


def _along(x, d, step, edge_order):
    n = x.shape[d]
    part = lambda start, length=1: x.narrow(d, start, length)  # noqa: E731
    placed = isinstance(step, Tensor) and step.ndim
    if placed:
        inner, edges = _between(x, d, step), (step[1:2] - step[:1], step[-1:] - step[-2:-1])
    else:
        inner, edges = (part(2, n - 2) - part(0, n - 2)) / (2 * step), (step, step)
    if edge_order == 1:
        first, last = (part(1) - part(0)) / edges[0], (part(n - 1) - part(n - 2)) / edges[1]
    else:
        beyond = (step[2:3] - step[1:2], step[-2:-1] - step[-3:-2]) if placed else (step, step)
        first = _edge(part(0), part(1), part(2), edges[0], beyond[0])
        last = -_edge(part(n - 1), part(n - 2), part(n - 3), edges[1], beyond[1])
    return FUNCTIONS["cat"]((first, inner, last), d)


def _between(x, d, at):
    """The derivative of the parabola through each point and its two neighbours."""
    n = x.shape[d]
    steps = (at[1:] - at[:-1]).reshape([-1 if i == d else 1 for i in range(x.ndim)])
    before, after = steps.narrow(d, 0, n - 2), steps.narrow(d, 1, n - 2)
    below = -after / (before * (before + after))
    here, above = (after - before) / (before * after), before / (after * (before + after))
    return below * x.narrow(d, 0, n - 2) + here * x.narrow(d, 1, n - 2) + above * x.narrow(d, 2, n - 2)


def _edge(x0, x1, x2, near, far):
    """The derivative at the first of three points, whose distances are ``near`` and ``far``."""
    return (
        -(2 * near + far) / (near * (near + far)) * x0
        + (near + far) / (near * far) * x1
        - near / (far * (near + far)) * x2
    )
