"""Losses of scores [N, C] for classes: the margin that those of the targets have over others."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.export import is_symbolic_dim

from torchlike._base.dtypes import int64
from torchlike._decl.op import op
from torchlike._ops import _composed_sums
from torchlike._ops._elementwise import demand, scalar_name, wide
from torchlike._ops.cross_entropy import reduce


def _rows(name, self):
    """(input as [N, C], whether it had no batch dimension)."""
    if self.ndim > 2 or (self.ndim and not self.shape[-1]):
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(self.shape)}"
        )
    demand(name, self, "f")
    return wide(self).reshape(1, -1) if self.ndim < 2 else wide(self), self.ndim < 2


def _outside_classes(name, self, target, lowest):
    classes = self.shape[-1] if self.ndim else 1
    bad = (target >= classes) | (target < lowest)
    return jnp.any(bad), lambda: RuntimeError(f"{name}: target is out of range: classes are 0 to {classes - 1}")


def _targets(self, target):
    """1 at the classes that are listed up to the first -1."""
    x, _ = _rows("multilabel_margin_loss", self)
    return _listed(target.reshape(x.shape))[1].astype(self.dtype).reshape(target.shape)


def _listed(t):
    """(which places of rows [N, C] list a class, up to the first -1; which classes are listed)."""
    n, classes = t.shape
    listed = jnp.cumprod(t >= 0, -1).astype(bool)
    named = jnp.zeros((n, classes + 1), bool).at[jnp.arange(n)[:, None], jnp.where(listed, t, classes)].set(True)
    return listed, named[:, :classes]


_PAIRS = 1 << 22  # of a listed and another class, whose gaps are held at once


def _gaps(x, others, chosen):
    """The sums over pairs of the scores ``chosen`` [N, K] and those of ``others``, of classes [N, C]."""
    gap = 1 - chosen[:, :, None] + x[:, None, :]
    return jnp.sum(jnp.where(others[:, None, :] & (gap > 0), gap, 0), (1, 2))


def _margins(x, others, listed, chosen):
    """``_gaps`` of the listed ones; of many pairs for a few at a time, which the gradient computes anew."""
    n, classes = x.shape
    chosen = jnp.where(listed, chosen, jnp.inf)
    parts = -(-n * classes * classes // _PAIRS)
    if is_symbolic_dim(parts) or parts <= 1:
        return _gaps(x, others, chosen)
    width = -(-classes // parts)
    chosen = jnp.pad(chosen, ((0, 0), (0, -classes % width)), constant_values=jnp.inf)
    blocks = jnp.moveaxis(chosen.reshape(n, -1, width), 1, 0)
    some = jax.checkpoint(lambda block: _gaps(x, others, block))
    return lax.scan(lambda total, block: (total + some(block), None), jnp.zeros(n, x.dtype), blocks)[0]


@op(
    "multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    aten={"out": "out", "calls": _composed_sums.multilabel_margin_loss},
    variants="",
    check=lambda self, target, reduction: _outside_classes("multilabel_margin_loss", self, target, -1),
    backward=(
        "multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, Tensor "
        "is_target) -> Tensor",
        {"is_target": _targets},
    ),
    edges=lambda: (0,),
    autocast="fp32",
)
def multilabel_margin_loss(self, target, reduction):
    """Targets of a row are listed up to the first -1; each pair (target, other class) has a margin of 1."""
    x, single = _rows("multilabel_margin_loss", self)
    if target.dtype != int64.np:
        raise RuntimeError(f"multilabel_margin_loss: expected scalar type Long but found {scalar_name(target)}")
    if target.shape != self.shape:
        raise RuntimeError(
            f"multilabel_margin_loss: inconsistent target size: {list(target.shape)} for input of size: "
            f"{list(self.shape)}"
        )
    t = target.reshape(x.shape)
    listed, named = _listed(t)
    chosen = jnp.take_along_axis(x, jnp.where(listed, t, 0), -1)
    losses = _margins(x, ~named, listed, chosen) / x.shape[1]
    return reduce(losses.reshape(()) if single else losses, reduction).astype(self.dtype)


@op(
    "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int "
    "reduction=1) "
    "-> Tensor",
    static="p",
    variants="",
    check=lambda self, target, p, margin, weight, reduction: _outside_classes("multi_margin_loss", self, target, 0),
    saved="margin p reduction self target weight",
    backward="multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, Scalar margin, "
    "Tensor? weight=None, int reduction=1) -> Tensor",
    edges=lambda: (0,),
    autocast="fp32",
)
def multi_margin_loss(self, target, p, margin, weight, reduction):
    x, single = _rows("multi_margin_loss", self)
    if target.dtype != int64.np:
        raise RuntimeError(f"multi_margin_loss: expected scalar type Long but found {scalar_name(target)}")
    if target.ndim > 1 or target.size != x.shape[0]:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples "
            "(batch size). "
            f"Expected target size [{x.shape[0]}], but got {list(target.shape)}. Input has shape "
            f"{list(self.shape)}."
        )
    if weight is not None and weight.shape != (x.shape[1],):
        raise RuntimeError(
            f"multi_margin_loss: inconsistent weight size, expected {x.shape[1]} but got {list(weight.shape)}"
        )
    if weight is not None and weight.dtype != self.dtype:
        raise RuntimeError(
            f"multi_margin_loss: expected scalar type {scalar_name(self)} but found {scalar_name(weight)}: weight"
        )
    t = target.reshape(-1)
    own = lax.broadcasted_iota(t.dtype, x.shape, 1) == t[:, None]
    gap = jnp.asarray(margin).astype(x.dtype) - jnp.sum(jnp.where(own, x, 0), -1, keepdims=True) + x
    counts = ~own & (gap > 0)
    losses = jnp.where(counts, gap if p == 1 else gap * gap, 0)
    if weight is not None:
        losses = losses * jnp.sum(jnp.where(own, wide(weight), 0), -1, keepdims=True)
    losses = jnp.sum(losses, -1) / x.shape[1]
    return reduce(losses.reshape(()) if single and not target.ndim else losses, reduction).astype(self.dtype)
