"""Warnings that operators give at a call, as PyTorch's: of degrees of freedom, missing arguments, former names."""

import math
from functools import partial

from torchlike._base.frames import warn
from torchlike._base.once import warn_once
from torchlike._decl.tells import tells


def _count(shape, dim):
    """How many elements each result is of; None for dimensions that there are not."""
    if 0 in shape or dim is None or dim == ():
        return math.prod(shape)
    n, dims = len(shape), (dim,) if isinstance(dim, int) else dim
    return math.prod([shape[d] for d in dims]) if n and all(-n <= d < n for d in dims) else None if n else 1


def _freedom(name, x, dim, correction):
    count = _count(x.shape, dim)
    if count is not None and count - correction <= 0 and not x.is_meta:
        warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel)."
        )


def _whole(name, inputs, unbiased):
    _freedom(name, inputs[0], None, int(unbiased))


def _along(name, inputs, dim, unbiased, keepdim):
    _freedom(name, inputs[0], dim, int(unbiased))


def _corrected(name, inputs, dim, correction, *_):
    _freedom(name, inputs[0], dim, 1 if correction is None else correction)


for _name in ("std", "var", "std_mean", "var_mean"):
    for _overload, _tell in ("", _whole), (".dim", _along), (".correction", _corrected):
        tells(_name + _overload)(partial(_tell, _name))


def _covariance(shape, correction):
    observations = shape[-1] if len(shape) else 1
    if len(shape) <= 2 and observations - correction <= 0:
        warn("cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.")


@tells("cov")
def _cov(inputs, correction, *_):
    if inputs[1] is None and inputs[2] is None:  # those of weights are known by their values only
        _covariance(inputs[0].shape, correction)


@tells("corrcoef")
def _corrcoef(inputs, *_):
    _covariance(inputs[0].shape, 1)


@tells("cross")
def _cross(inputs, dim):
    if dim is None:
        warn_once(
            "Using torch.cross without specifying the dim arg is deprecated. Give dim, or use torch.linalg.cross, "
            "whose default the default here will become."
        )


def _former(name, new, how):
    @tells(name)
    def tell(*_):
        warn_once(f"torch.{name} is deprecated in favor of {new} and may be removed: {how}")


_former("cholesky", "torch.linalg.cholesky", "use torch.linalg.cholesky(A), and .mH of it for upper=True.")
_former("qr", "torch.linalg.qr", "use torch.linalg.qr(A, 'reduced' if some else 'complete').")
_former("triangular_solve", "torch.linalg.solve_triangular", "use torch.linalg.solve_triangular(A, B).")


@tells("scatter.reduce")
def _scatter(*_):
    warn_once(
        "The reduce argument of torch.scatter with Tensor src is deprecated; use torch.scatter_reduce, which has more "
        "reductions."
    )


@tells("index_reduce")
def _index_reduce(*_):
    warn_once("index_reduce() is in beta and the API may change at any time.")
