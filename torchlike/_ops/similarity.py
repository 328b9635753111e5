"""Distances and similarities of vectors, and the triplet loss made of them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

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
    saved="~x1? ~x2?",
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
    n = self.shape[0]
    if n < 2 or not self.size:
        return jnp.zeros(n * (n - 1) // 2, self.dtype)
    itself = jnp.eye(n, dtype=self.dtype)[..., None]  # a row is 1 from itself, where a norm has a slope
    between = self[:, None] - self + itself  # neither of pairs nor chosen: XLA would write all of it down
    return vector_norm.kernel(between, p, (-1,), False, None)[jnp.triu_indices(n, 1)]


_AT_ONCE = 1 << 20  # differences


def _pdist_back(grad, self, result, p):
    n = self.shape[0]
    if p == 0 or n < 2 or not self.size:
        return jnp.zeros_like(self)

    @jax.checkpoint
    def pull(i):
        """The gradient of one row: what all others are to it, itself left out by ones."""
        others = jnp.arange(n)
        low, high, same = jnp.minimum(i, others), jnp.maximum(i, others), others == i
        place = jnp.where(same, 0, low * (2 * n - low - 1) // 2 + high - low - 1)
        between = jnp.where(same[:, None], 1, self[i] - self)
        pulls, lengths = jnp.where(same, 0, grad[place]), jnp.where(same, 1, result[place])
        if p == jnp.inf:  # here every one of several largest differences counts in full
            largest = jnp.abs(between) == lengths[:, None]
            return jnp.sum(jnp.where(largest, direction(between) * pulls[:, None], 0), 0)
        return jnp.sum(_norm_back(pulls, between, lengths, p, (-1,), False), 0)

    rows = jnp.arange(n)
    return jax.vmap(pull)(rows) if n * self.size <= _AT_ONCE else lax.map(pull, rows)
