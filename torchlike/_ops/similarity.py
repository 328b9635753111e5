"""Distances and similarities of vectors, and the triplet loss made of them."""

import functools

import jax.numpy as jnp
import numpy as np

from torchlike._base.dims import wrap_dim
from torchlike._base.dtypes import get_default_dtype
from torchlike._decl.op import op
from torchlike._ops import _composed, _derivatives
from torchlike._ops._elementwise import broadcast, direction, scalar_name
from torchlike._ops.distance import norm_along, vector_norm
from torchlike._ops.loss import by_reduction, positive_part, raised

_norm_back = vector_norm.formulas["self",]


@op(
    "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    aten={"out": None, "calls": _composed.cosine_similarity},
    node="SumBackward1",
    dtype="promote",
    variants="function",
    autocast={"cuda": "fp32"},
    saved="",
)
def cosine_similarity(x1, x2, dim, eps):
    """``x1 . x2 / (max(|x1|, eps) * max(|x2|, eps))`` along ``dim`` of the broadcast inputs."""
    if not jnp.issubdtype(x1.dtype, jnp.floating):
        raise RuntimeError(
            f"cosine_similarity: expected common dtype to be floating point, yet common dtype is {scalar_name(x1)}"
        )
    a, b = broadcast("cosine_similarity", x1, x2)
    if not a.ndim:
        a, b = a.reshape(1), b.reshape(1)
        axis = wrap_dim(dim, 0)
    else:
        axis = wrap_dim(dim, a.ndim)
    least = jnp.asarray(eps).astype(a.dtype)
    lengths = (raised(norm_along(x, 2.0, (axis,)), least) for x in (a, b))
    return jnp.sum(a / next(lengths) * (b / next(lengths)), axis)


def _difference(x1, x2, eps):
    a, b = broadcast("pairwise_distance", x1, x2)
    if a.dtype == np.bool_:
        raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported: pairwise_distance()")
    d = a - b  # of integers it may wrap, as in PyTorch
    d = d if jnp.issubdtype(d.dtype, jnp.inexact) else d.astype(get_default_dtype().np)
    return d + jnp.asarray(eps).astype(d.real.dtype)


def _distance_back(grad, x1, x2, result, p, eps, keepdim):
    to_first = _norm_back(grad, _difference(x1, x2, eps), result, p, (-1,), keepdim)
    return to_first, None if to_first is None else -to_first


@op(
    "pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=1e-06, bool keepdim=False) -> Tensor",
    aten={"out": None, "calls": _composed.pairwise_distance},
    static="p",
    variants="function",
    node="NormBackward1",
    dtype="promote",
    autocast={"cuda": "fp32"},
    vjp={"x1, x2": _distance_back},
    saved={
        **{n: n for n in ("p", "keepdim", "result")},
        **{"dim": lambda x1_aval: (len(x1_aval.shape) - 1,), "~x1": "x1", "~x2": "x2"},
    },
)
def pairwise_distance(x1, x2, p, eps, keepdim):
    """The p-norm of ``x1 - x2 + eps`` over the last dimension."""
    return vector_norm.kernel(_difference(x1, x2, eps), p, (-1,), keepdim, None)


def _distance(a, b, p, eps):
    """As :func:`pairwise_distance`, for losses."""
    d = _difference(a, b, eps)
    return norm_along(d, float(p), (d.ndim - 1,))[..., 0]


def _triplet(swap, suffix):
    @by_reduction(
        f"triplet_margin_loss{suffix}(Tensor anchor, Tensor positive, Tensor negative, float margin, float "
        "p, "
        "float eps) -> Tensor",
        "ClampMinBackward",
        dtype="promote",
        static="p",
        apart="anchor positive negative",
        autocast="fp32",
        calls=functools.partial(_composed.triplet_margin_loss, swap),
    )
    def triplet_margin_loss(anchor, positive, negative, margin, p, eps):
        if not anchor.ndim == positive.ndim == negative.ndim:
            raise RuntimeError(
                "triplet_margin_loss: The anchor, positive, and negative tensors are expected to have the "
                "same number of "
                f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
                f"{negative.ndim}D inputs"
            )
        near, far = _distance(anchor, positive, p, eps), _distance(anchor, negative, p, eps)
        if swap:
            far = jnp.minimum(far, _distance(positive, negative, p, eps))
        near, far = broadcast("triplet_margin_loss", near, far)
        return positive_part(jnp.asarray(margin).astype(near.dtype) + near - far)

    return triplet_margin_loss


triplet_margin_loss = {False: _triplet(False, ""), True: _triplet(True, "_swap")}


@op("pdist(Tensor self, float p=2.) -> Tensor", static="p", variants="function",
    aten={"out": None, "calls": _composed.renamed("_pdist_forward")},
    vjp={"self": lambda grad, self, result, p: _pdist_back(grad, self, result, p)}, backward=_derivatives.pdist,
    autocast={"cuda": "fp32"})  # fmt: skip
def pdist(self, p):
    """The p-norm distances of all pairs of rows of [N, M], as [N * (N - 1) / 2] in the order (0, 1), (0, 2),
    ...
    """
    if self.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {self.ndim}D")
    if not jnp.issubdtype(self.dtype, jnp.floating):
        raise RuntimeError(f"pdist only supports floating-point dtypes, got {scalar_name(self)}")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = _pairs(self)
    return vector_norm.kernel(self[first] - self[second], p, (-1,), False, None)


def _pairs(x):
    return jnp.triu_indices(x.shape[0], 1)


def _pdist_back(grad, self, result, p):
    first, second = _pairs(self)
    between = self[first] - self[second]
    if p == 0:
        return jnp.zeros_like(self)
    if p == jnp.inf:  # here every one of several largest differences counts in full
        largest = jnp.abs(between) == result[:, None]
        to_first = jnp.where(largest, direction(between) * grad[:, None], 0)
    else:
        to_first = _norm_back(grad, between, result, p, (-1,), False)
    return jnp.zeros_like(self).at[first].add(to_first).at[second].add(-to_first)
