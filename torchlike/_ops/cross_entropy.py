"""Losses over classes: negative log likelihood and cross entropy, from indices or probabilities.

Classes lie along dimension 1, or 0 of a 1-dimensional input; targets have the input's shape without it.
Cross entropy is one operator, not log_softmax and nll_loss: its gradient ``softmax - one_hot`` needs no
scatter.
"""

import math
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base.dtypes import from_np, int64
from torchlike._decl.op import op
from torchlike._decl.words import aten, spelled, unseen
from torchlike._ops._elementwise import demand, per, scalar_name, wide
from torchlike._ops.activation import log_softmax_along, softmax_along

NONE, MEAN, SUM = 0, 1, 2


def reduce(x, reduction):
    """The mean or the sum, or ``x`` itself."""
    if reduction == MEAN:
        return per(jnp.sum(x), x.size) if x.dtype.itemsize > 2 else jnp.mean(x)
    return jnp.sum(x) if reduction == SUM else x


def _axis(x):
    return 0 if x.ndim == 1 else 1


def _check_shapes(name, self, target, weight):
    if self.ndim == 0:
        raise ValueError(f"{name}: Expected 1 or more dimensions (got {self.ndim})")
    _check_target(name, self, target)
    if target.dtype not in (int64.np, np.uint8):
        raise RuntimeError(f"{name}: expected target dtype to be Long or Byte, but got {scalar_name(target)}")
    if self.ndim > 2 and target.dtype == np.uint8:
        raise RuntimeError(f"{name}: expected scalar type Long but found Byte (target of a {self.ndim}D input)")
    if weight is None:
        return
    _demand_weight_of_classes(name, self, weight)
    if weight.dtype != self.dtype:
        raise RuntimeError(f"{name}: expected scalar type {scalar_name(self)} but found {scalar_name(weight)} (weight)")


def _demand_weight_of_classes(name, self, weight):
    classes = self.shape[_axis(self)]
    if weight.shape != (classes,):
        raise RuntimeError(
            f"{name}: weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )


def _check_target(name, self, target):
    if self.ndim == 1:
        if target.ndim > 1 or target.size != 1:
            raise ValueError(f"{name}: For 1D input, 1D target must have size 1, but got target size: {target.size}")
        return
    if target.ndim == 0 or target.shape[0] != self.shape[0]:
        got = target.shape[0] if target.ndim else 0
        raise ValueError(f"{name}: Expected input batch_size ({self.shape[0]}) to match target batch_size ({got}).")
    if self.ndim == 2 and target.ndim > 1:
        raise RuntimeError(f"{name}: 0D or 1D target tensor expected, multi-target not supported, got {target.ndim}D")
    if self.ndim == 4 and target.ndim != 3:
        raise RuntimeError(
            f"{name}: only batches of spatial targets supported (3D tensors) but got targets of dimension: "
            f"{target.ndim}"
        )
    wanted = (self.shape[0], *self.shape[2:])
    if target.shape != wanted:
        raise RuntimeError(
            f"{name}: Expected target size {list(wanted)}, got {list(target.shape)}: a size mismatch with "
            f"input {list(self.shape)}"
        )


def out_of_bounds(self, target, ignore_index, **others):
    """The check of class indices."""
    if self.ndim == 0:
        return jnp.asarray(False), None
    bad = (target != ignore_index) & ((target < 0) | (target >= self.shape[_axis(self)]))

    def error():
        first = np.asarray(target)[np.asarray(bad)].flat[0]
        return IndexError(f"Target {first} is out of bounds.")

    return jnp.any(bad), error


def _index_check(self, target, weight, reduction, ignore_index):
    return out_of_bounds(self, target, ignore_index)


def _class_mask(x, target):
    """Where the class index along the class axis is the target."""
    axis = _axis(x)
    if x.ndim == 1:
        target = target.reshape(())
    return lax.broadcasted_iota(target.dtype, x.shape, axis) == jnp.expand_dims(target, axis)


def _pick(x, target):
    """``x`` at the target class (any value where the target is out of range)."""
    axis = _axis(x)
    index = jnp.clip(target.reshape(()) if x.ndim == 1 else target, 0, max(x.shape[axis] - 1, 0))
    if x.shape[axis] == 0:
        return jnp.zeros(index.shape, x.dtype)
    return jnp.squeeze(jnp.take_along_axis(x, jnp.expand_dims(index, axis), axis), axis)


def _weights(self, target, weight, ignore_index):
    """(which targets count, the weight of each: 0 where it does not)."""
    target = target.reshape(()) if self.ndim == 1 else target
    valid = target != ignore_index
    if weight is None:
        return valid, valid.astype(wide(self).dtype)
    given = jnp.take(wide(weight), jnp.clip(target, 0, max(weight.size - 1, 0)), axis=0)
    return valid, jnp.where(valid, given, 0)


def _total(losses, valid, weights, reduction):
    weighted = jnp.where(valid, losses * weights, 0)
    if reduction == MEAN:
        return jnp.sum(weighted) / jnp.sum(weights)
    return jnp.sum(weighted) if reduction == SUM else weighted


def _shares(grad, valid, weights, reduction):
    """The gradient that reaches the loss of each target."""
    return jnp.where(valid, weights * grad / (jnp.sum(weights) if reduction == MEAN else 1), 0)


def _nll(self, target, weight, reduction, ignore_index):
    demand("nll_loss_out_frame", self, "f")
    _check_shapes("nll_loss", self, target, weight)
    losses = -_pick(wide(self), target)
    return _total(losses, *_weights(self, target, weight, ignore_index), reduction).astype(self.dtype)


def _nll_back(grad, target, weight, reduction, ignore_index, self_aval):
    like = jnp.zeros(self_aval.shape, self_aval.dtype)
    shares = _shares(wide(grad), *_weights(like, target, weight, ignore_index), reduction)
    return jnp.where(_class_mask(like, target), -jnp.expand_dims(shares, _axis(like)), 0)


def _cross(self, target, weight, reduction, ignore_index):
    demand("log_softmax_lastdim_kernel_impl", self, "f")
    _check_shapes("cross_entropy", self, target, weight)
    x, axis = wide(self), _axis(self)
    if x.shape[axis] == 0:
        return jnp.full(() if reduction else target.shape, jnp.nan, self.dtype)
    top = jnp.max(x, axis, keepdims=True)
    log_sum = jnp.log(jnp.sum(jnp.exp(x - top), axis))
    losses = jnp.squeeze(top, axis) - _pick(x, target) + log_sum
    return _total(losses, *_weights(self, target, weight, ignore_index), reduction).astype(self.dtype)


def _weighing(self_aval, target, weight, ignore_index):
    """The total weight of the targets that count, which a mean divides by."""
    like = jnp.zeros(self_aval.shape, self_aval.dtype)
    return jnp.sum(_weights(like, target, weight, ignore_index)[1]).astype(self_aval.dtype)


def _nll_backward(name):
    arguments = "Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight"
    schema = f"{name}_backward(Tensor grad_output, Tensor self, {arguments}) -> Tensor"
    return schema, {"total_weight": _weighing}


def _composed(name):
    """The gradient of ``name`` after that of the logarithms of the softmax, as which PyTorch computes it."""

    def back(grad, self, target, weight, reduction, ignore_index, self_aval):
        axis = _axis(self)
        scores = unseen(lambda x: log_softmax_along(wide(x), axis).astype(x.dtype), self)
        total = unseen(lambda target, *w: _weighing(self_aval, target, w[0] if w else None, ignore_index),
                       target, *([] if weight is None else [weight]))  # fmt: skip
        picking = lambda grad, scores, *given: _nll_back(grad, *given[:-1], self_aval)  # noqa: E731
        shares = lambda: _shares(wide(grad), *_weights(self, target, weight, ignore_index), reduction)  # noqa: E731
        picked = spelled(f"{name}_backward", picking, grad, scores, target, weight, reduction, ignore_index, total)

        def compute(picked, scores, dim, dtype):  # the sum of what nll_loss gives over the classes is known
            return wide(picked) + softmax_along(wide(self), axis) * jnp.expand_dims(shares(), axis)

        scores = aten.detach(scores)
        return spelled("_log_softmax_backward_data", compute, picked, scores, axis, from_np(self.dtype))

    return back


def _picked(name, aten, scores, target, weight, reduction, ignore_index):
    """PyTorch's call for negative log likelihoods, which is given images where there are several dimensions."""
    rest = scores.shape[2:]
    if len(rest) not in (1, 3):
        return aten[f"{name}_forward"](scores, target, weight, reduction, ignore_index)[0]
    size = [1, math.prod(rest)]
    images, target = aten.view(scores, [*scores.shape[:2], *size]), aten.view(target, [scores.shape[0], *size])
    losses = aten[f"{name}_forward"](images, target, weight, reduction, ignore_index)[0]
    return losses if reduction else aten.view(losses, [scores.shape[0], *rest])


def _forward(name):
    return {"calls": partial(_picked, name)}


def _of_scores(name):
    def calls(aten, self, *rest):
        scores = aten._log_softmax(self, _axis(self), False)
        return _picked(name, aten, scores, *rest)

    return {"calls": calls}


def _along_classes(aten, weight, like):
    if weight is None or like.ndim == 1:
        return weight
    return aten.view(weight, [1, weight.shape[0]] + [1] * (like.ndim - 2))


def _probable(reduction, aten, self, target, weight, smoothing):
    scores, axis = aten._log_softmax(self, _axis(self), False), _axis(self)
    if smoothing:
        target = aten["add.Scalar"](aten["mul.Scalar"](target, 1 - smoothing), smoothing / self.shape[axis])
    weight = _along_classes(aten, weight, scores)
    products = aten["mul.Tensor"](scores, target)
    products = products if weight is None else aten["mul.Tensor"](products, weight)
    losses = aten.neg(aten.sum(products) if reduction else aten["sum.dim_IntList"](products, [axis]))
    return aten["div.Scalar"](losses, self.numel() // self.shape[axis]) if reduction == MEAN else losses


def _smoothed(aten, self, target, weight, reduction, ignore_index, smoothing):
    scores, axis = aten._log_softmax(self, _axis(self), False), _axis(self)
    name = "nll_loss" if self.ndim <= 2 else "nll_loss2d"
    hard = _picked(name, aten, scores, target, weight, reduction, ignore_index)
    along = _along_classes(aten, weight, scores)
    soft = scores if weight is None else aten["mul.Tensor"](scores, along)
    soft = aten.neg(aten["sum.dim_IntList"](soft, [axis]))
    ignored = aten["eq.Scalar"](target, ignore_index)
    soft = aten["masked_fill_.Scalar"](soft, ignored, 0)
    if reduction == MEAN and weight is None:
        count = aten.sum(aten.bitwise_not(ignored))
    elif reduction == MEAN:
        known = aten["masked_fill.Scalar"](target, ignored, 0)
        flat = lambda t: t if t.ndim == 1 else aten.view(t, [t.numel()])  # noqa: E731
        weights = aten.gather(weight, 0, flat(known))
        count = aten.sum(aten["masked_fill_.Scalar"](weights, flat(ignored), 0))
    soft = aten.sum(soft) if reduction else soft
    soft = aten["div.Tensor"](soft, count) if reduction == MEAN else soft
    soft = aten["mul.Scalar"](soft, smoothing / self.shape[axis])
    return aten["add.Tensor"](aten["mul.Scalar"](hard, 1 - smoothing), soft)


def _over_classes(name, kernel, back, node, saved, aten, backward=None):
    arguments = "Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100"
    schema = f"{name}({arguments}) -> Tensor"
    return op(schema, variants="", vjp={"self": back}, node=node, autocast="fp32", check=_index_check, aten=aten,
              saved=saved, edges=lambda: (0,), backward=backward)(kernel)  # fmt: skip


_SAVED = "ignore_index reduction self! target weight"
_OF_SOFTMAX = "ignore_index reduction target weight ~self"  # PyTorch saves the logarithms of the softmax
nll_loss = _over_classes("nll_loss", _nll, _nll_back, "NllLossBackward", _SAVED, _forward("nll_loss"),
                         _nll_backward("nll_loss"))  # fmt: skip
nll_loss2d = _over_classes("nll_loss2d", _nll, _nll_back, "NllLoss2DBackward", _SAVED,
                           _forward("nll_loss2d"), _nll_backward("nll_loss2d"))  # fmt: skip
cross_entropy = _over_classes("_cross_entropy", _cross, _composed("nll_loss"), "NllLossBackward",
                              _OF_SOFTMAX, _of_scores("nll_loss"))  # fmt: skip
cross_entropy2d = _over_classes("_cross_entropy2d", _cross, _composed("nll_loss2d"), "NllLoss2DBackward",
                                _OF_SOFTMAX, _of_scores("nll_loss2d"))  # fmt: skip


@op("_cross_entropy_smooth(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index, "
    "float label_smoothing) -> Tensor", variants="", node="AddBackward", autocast="fp32",
    aten={"calls": _smoothed},
    check=lambda self, target, weight, reduction, ignore_index, label_smoothing:
    out_of_bounds(self, target, ignore_index))  # fmt: skip
def cross_entropy_smooth(self, target, weight, reduction, ignore_index, label_smoothing):
    """The target class has probability 1 - label_smoothing, and all share the rest evenly."""
    demand("log_softmax_lastdim_kernel_impl", self, "f")
    _check_shapes("cross_entropy", self, target, weight)
    axis = _axis(self)
    if self.ndim == 1 and target.ndim == 1:
        raise RuntimeError(
            "cross_entropy: output with shape [] doesn't match the broadcast shape [1]; give a 0-dim target"
        )
    logp = log_softmax_along(wide(self), axis)
    share = jnp.asarray(label_smoothing).astype(logp.dtype)
    valid, weights = _weights(self, target, weight, ignore_index)
    spread = logp if weight is None else logp * _along(wide(weight), logp)
    smooth = jnp.where(valid, -jnp.sum(spread, axis), 0)
    hard = _total(-_pick(logp, target), valid, weights, reduction)
    soft = jnp.sum(smooth) if reduction else smooth
    if reduction == MEAN:
        soft = soft / jnp.sum(weights)
    return ((1 - share) * hard + share / self.shape[axis] * soft).astype(self.dtype)


def _along(weight, like):
    return weight.reshape((1,) * _axis(like) + (-1,) + (1,) * (like.ndim - _axis(like) - 1))


def _of_probabilities(reduction, node):
    @op(
        f"_cross_entropy_prob_{reduction}(Tensor self, Tensor target, Tensor? weight, float label_smoothing) -> Tensor",
        variants="",
        node=node,
        autocast="fp32",
        saved="~self",
        aten={"calls": partial(_probable, reduction)},
    )
    def cross_entropy_prob(self, target, weight, label_smoothing):
        demand("log_softmax_lastdim_kernel_impl", self, "f")
        if self.shape != target.shape:
            raise RuntimeError(
                "cross_entropy: expected input and target of class probabilities to have the same shape, "
                "but got "
                f"{list(self.shape)} and {list(target.shape)}"
            )
        if weight is not None:
            _demand_weight_of_classes("cross_entropy", self, weight)
        axis, kind = _axis(self), jnp.result_type(self, target, *(() if weight is None else (weight,)))
        share = jnp.asarray(label_smoothing).astype(wide(target).dtype)
        aim = wide(target) * (1 - share) + share / max(self.shape[axis], 1)
        logp = log_softmax_along(wide(self), axis)
        logp = logp if self.dtype == kind else logp.astype(self.dtype)  # each step has the dtype of its operands
        losses = -jnp.sum(logp * aim if weight is None else logp * aim * _along(wide(weight), logp), axis)
        return reduce(losses, reduction).astype(kind)

    return cross_entropy_prob


cross_entropy_prob = tuple(
    _of_probabilities(r, node) for r, node in ((NONE, "NegBackward"), (MEAN, "DivBackward1"), (SUM, "NegBackward"))
)
