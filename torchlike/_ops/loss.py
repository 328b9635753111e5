"""Losses between tensors of one shape. Each is one operator, reduction included.

Where PyTorch composes a loss of other functions, users see the node of the last of them; the three
reductions of such a loss are three operators, one for each node name.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import result_layouts
from torchlike._base.dtypes import get_default_dtype
from torchlike._decl import rules
from torchlike._decl.op import op
from torchlike._decl.words import aten, spelled, unseen
from torchlike._ops import _composed, _composed_sums
from torchlike._ops._elementwise import (
    broadcast,
    demand,
    demand_no_bools,
    inexact,
    kind,
    rounded_product,
    scalar_name,
    wide,
)
from torchlike._ops.cross_entropy import MEAN, NONE, SUM, reduce

REDUCTIONS = (NONE, MEAN, SUM)


def modulus(x):
    """The absolute value, with derivative 0 at 0."""
    if not jnp.iscomplexobj(x):
        return jnp.where(x > 0, x, jnp.where(x < 0, -x, x * 0))
    zero = x == 0
    return jnp.where(zero, 0, jnp.abs(jnp.where(zero, 1, x)))


def at_least(x, low):
    """``max(x, low)``; the gradient passes where they are equal."""
    return jnp.where(x < low, low, x)


def positive_part(x):
    """``max(x, 0)``; the gradient passes at 0, not where ``x`` is NaN."""
    if jnp.iscomplexobj(x):
        raise NotImplementedError("clamp is not supported for complex types: a margin is between real numbers")
    return jnp.where(x >= 0, x, jnp.where(x < 0, 0, lax.stop_gradient(x)))


def raised(x, low):
    """``max(x, low)`` through which the gradient always passes."""
    return jnp.where(x < low, low + (x - lax.stop_gradient(x)), x)


def _softplus_of_minus(x):
    """``log(1 + exp(-x))``."""
    return jnp.log1p(jnp.exp(-jnp.where(x < 0, -x, x))) - jnp.where(x < 0, x, 0)


def _common(*arrays):
    """The arrays in PyTorch's common dtype."""
    bound = dict(enumerate(arrays))
    rules.promote(bound, tuple(bound), dict(bound))
    return tuple(bound.values())


def _minus(target):
    """``-target`` in its own dtype: of unsigned integers it wraps."""
    demand_no_bools("Negation", target)
    return -target


def _num(x, like):
    return jnp.asarray(x).astype(like.real.dtype)


# ----- with a reduction argument, as in PyTorch -----


def _pair(name, self, target):
    demand(name, self, "f")
    return broadcast(name, wide(self), wide(target))


@op(
    "mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    variants="",
    out="cast",
    layout=result_layouts.elementwise,
    dtype="promote",
    autocast="fp32",
    backward={
        "self": "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
        "target": ("mse_loss_backward", {"self": "target", "target": "self"}),
    },
)
def mse_loss(self, target, reduction):
    x, t = _pair("mse_cpu", self, target)
    return reduce((x - t) * (x - t), reduction).astype(self.dtype)


@jax.custom_jvp
def _bowl(d, edge, radius, slope):
    """A parabola up to ``edge``, of second derivative ``1 / radius``; straight beyond, with ``slope``."""
    size = jnp.abs(d)
    return jnp.where(size >= edge, slope * (size - 0.5 * edge), 0.5 * d * d / radius)


@_bowl.defjvp
def _bowl_jvp(primals, tangents):
    d, edge, radius, slope = primals
    beyond = jnp.where(d == d, slope * jnp.sign(d), lax.stop_gradient(d))
    return _bowl(*primals), tangents[0] * jnp.where(jnp.abs(d) < edge, d / radius, beyond)


@op(
    "smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor",
    variants="",
    out="cast",
    layout=result_layouts.elementwise,
    dtype="promote",
    node="SmoothL1LossBackward",
    backward={
        "self": "smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, "
        "float beta) -> Tensor",
        "target": ("smooth_l1_loss_backward", {"self": "target", "target": "self"}),
    },
    autocast="fp32",
)
def smooth_l1_loss(self, target, reduction, beta):
    x, t = _pair("smooth_l1_cpu", self, target)
    beta = _num(beta, x)
    return reduce(_bowl(x - t, beta, beta, jnp.ones_like(beta)), reduction).astype(self.dtype)


@op(
    "huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor",
    variants="",
    out="cast",
    layout=result_layouts.elementwise,
    autocast="fp32",
    backward={
        "self": "huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, "
        "float delta) -> Tensor",
        "target": ("huber_loss_backward", {"self": "target", "target": "self"}),
    },
)
def huber_loss(self, target, reduction, delta):
    common = jnp.promote_types(self.dtype, target.dtype)
    a, b = self.astype(common), target.astype(common)
    if "bifc".index(kind(a)) > "bifc".index(kind(self)):
        raise RuntimeError(f"huber_loss: result type {scalar_name(a)} can't be cast to {scalar_name(self)}")
    x, t = _pair("huber_cpu", a, b)
    delta = _num(delta, x)
    return reduce(_bowl(x - t, delta, jnp.ones_like(delta), delta), reduction).astype(self.dtype)


def _beside(name, self, target, weight=None):
    """The checks of binary_cross_entropy, then the arrays to compute with."""
    if self.shape != target.shape:
        raise ValueError(
            f"{name}: Using a target size ({list(target.shape)}) that is different to the input size "
            f"({list(self.shape)}) is "
            "deprecated. Please ensure they have the same size."
        )
    if target.dtype != self.dtype:
        raise RuntimeError(f"{name}: Found dtype {scalar_name(target)} but expected {scalar_name(self)}")
    demand(f"{name}_cpu", self, "f")
    _demand_weight(name, self, weight)


def _demand_weight(name, self, weight, what="weight"):
    """A loss of each element is multiplied by ``weight`` in its place."""
    if weight is None:
        return
    if kind(weight) == "c":
        raise RuntimeError(
            f"{name}: result type {scalar_name(weight)} can't be cast to the desired output type {scalar_name(self)}: "
            f"{what} is complex"
        )
    shape = broadcast(name, weight, self)[0].shape
    if shape != self.shape:
        raise RuntimeError(
            f"{name}: output with shape {list(self.shape)} doesn't match the broadcast shape {list(shape)}, to which "
            f"{what} of shape {list(weight.shape)} leads"
        )


def _weighted(losses, weight):
    return losses if weight is None else losses * wide(weight)


def _outside(self, target, weight, reduction):
    def bad(x):
        return ~jnp.all((x >= 0) & (x <= 1))

    return bad(self) | bad(target), lambda: RuntimeError(
        "binary_cross_entropy: all elements of input should be between 0 and 1, and so should those of target"
    )


def _bce_share(grad, like, weight, reduction):
    share = wide(grad) / like.size if reduction == MEAN else wide(grad)
    return share if weight is None else share * wide(weight)


_LEAST = float(np.float32(1e-12))


@jax.custom_jvp
def _bce_slope(grad, x, t):
    """Divided by at least 1e-12; PyTorch's second derivatives divide by 1e-12 more instead."""
    return grad * (x - t) / at_least((1 - x) * x, _LEAST)


@_bce_slope.defjvp
def _bce_slope_jvp(primals, tangents):
    (grad, x, t), (dgrad, dx, dt) = primals, tangents
    width = (1 - x) * x + _LEAST
    curve = (x * x - 2 * x * t + t) / (width * width)
    return _bce_slope(*primals), dgrad * ((x - t) / width) + grad * (dx * curve - dt / at_least((1 - x) * x, _LEAST))


@op(
    "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
    variants="",
    layout=result_layouts.elementwise,
    check=_outside,
    vjp={
        "self": lambda grad, self, target, weight, reduction: _bce_slope(
            _bce_share(grad, self, weight, reduction), wide(self), wide(target)
        ),
        "target": lambda grad, self, weight, reduction: (
            _bce_share(grad, self, weight, reduction) * (jnp.log1p(-wide(self)) - jnp.log(wide(self)))
        ),
        "weight": lambda grad, self, target, reduction: (
            _bce_share(grad, self, None, reduction) * _bce(wide(self), wide(target))
        ),
    },
    saved="reduction self target! weight",
    edges=lambda: (0, 1),
    backward={
        "self": "binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, "
        "int reduction=1) -> Tensor",
        "target": lambda grad, self, weight, reduction: _shared(
            spelled("neg_", jnp.negative, spelled("logit", jax.scipy.special.logit, self)), grad, weight, reduction
        ),
    },
    autocast={"cpu": "fp32", "cuda": "banned"},
)
def binary_cross_entropy(self, target, weight, reduction):
    _beside("binary_cross_entropy", self, target, weight)
    return reduce(_weighted(_bce(wide(self), wide(target)), weight), reduction).astype(self.dtype)


def _bce(x, t):
    """Each logarithm is at least -100, so that 0 and 1 give finite losses."""
    return (t - 1) * at_least(jnp.log1p(-x), -100) - t * at_least(jnp.log(x), -100)


def _shared(slope, grad, weight, reduction):
    """The gradient of a reduced loss, from the slopes of its elements."""
    slope = slope * wide(grad)
    slope = slope if weight is None else slope * wide(weight)
    return spelled("div_.Scalar", jnp.divide, slope, max(slope.size, 1)) if reduction == MEAN else slope


def _log_sigmoid(x):
    """As PyTorch's, with its second result: a buffer that is empty."""
    return spelled("log_sigmoid_forward", lambda x: (jax.nn.log_sigmoid(x), jnp.zeros(0, x.dtype)), x)[0]


def _logits_target_grad(grad, self, weight, pos_weight, reduction):
    x = wide(self)
    slope = -x
    if pos_weight is not None:
        slope = _log_sigmoid(slope) - _log_sigmoid(x) * wide(pos_weight)
    return _shared(slope, grad, weight, reduction)


def _logits_grad(grad, self, target, weight, pos_weight, reduction):
    x, t = wide(self), wide(target)
    if pos_weight is None:
        slope = aten.sigmoid(x) - t
    else:
        ones = wide(pos_weight) * t
        slope = (ones + 1 - t) * aten.sigmoid(x) - ones
    return _shared(slope, grad, weight, reduction)


@op(
    "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? "
    "pos_weight=None, "
    "int reduction=1) -> Tensor",
    variants="",
    layout=result_layouts.second_first,
    autocast="fp32",
    saved="pos_weight reduction self target! weight",
    edges=lambda: (0, 1),
    vjp={"self": _logits_grad, "target": _logits_target_grad},
    jvp="kernel",
)
def binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction):
    demand("log_sigmoid_cpu", self, "f")
    if kind(target) != "f":
        raise RuntimeError(
            f"binary_cross_entropy_with_logits: result type {scalar_name(self)} can't be cast to the desired output "
            f"type {scalar_name(target)}, which is the target's; convert it with .to(input.dtype)"
        )
    _demand_weight("binary_cross_entropy_with_logits", self, weight)
    _demand_weight("binary_cross_entropy_with_logits", self, pos_weight, "pos_weight")
    if pos_weight is not None and kind(pos_weight) == "b":
        raise RuntimeError(
            "binary_cross_entropy_with_logits: Subtraction, the `-` operator, with a bool tensor is not supported: "
            "pos_weight is one; convert it with .to(input.dtype)"
        )
    x, t = wide(self), wide(target)
    if pos_weight is None:
        losses = (1 - t) * x + _softplus_of_minus(x)
    else:
        losses = (1 - t) * x + (1 + (wide(pos_weight) - 1) * t) * _softplus_of_minus(x)
    return reduce(_weighted(losses, weight), reduction).astype(target.dtype)


@op(
    "soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    variants="",
    layout=result_layouts.elementwise,
    edges=lambda: (0,),
    autocast="fp32",
    backward=("soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor", {}),
)
def soft_margin_loss(self, target, reduction):
    demand_no_bools("Negation", target)
    if kind(self) in "bi":
        raise RuntimeError(f"soft_margin_loss: result type Float can't be cast to {scalar_name(self)}")
    demand("soft_margin_loss", self, "f")
    if kind(target) == "c":
        raise RuntimeError(f"soft_margin_loss: result type {scalar_name(target)} can't be cast to {scalar_name(self)}")
    x, t = broadcast("soft_margin_loss", self, target.astype(self.dtype))
    if x.shape != self.shape:
        raise RuntimeError(
            f"soft_margin_loss: output with shape {list(self.shape)} doesn't match the broadcast shape "
            f"{list(x.shape)}: the target may be broadcast, the input may not"
        )
    return reduce(jnp.log1p(jnp.exp(-t * x)), reduction).astype(self.dtype)


# ----- compositions: one operator for each reduction -----


def _shown(node, apart):
    """What the last node of PyTorch's composition shows, where that is no tensor of its own."""
    shown = {"AddBackward": {"alpha": lambda: 1}, "SubBackward": {"alpha": lambda: 1}}.get(node, {})
    return {**shown, **{f"~{name}": name for name in apart.split()}}


def by_reduction(
    schema, none, *, name=None, mean="MeanBackward", sum="SumBackward", apart="", formulas=None, calls=None, **options
):
    """Declare the three reductions of ``kernel``, which gives unreduced losses; ``none`` is the node of
    those. ``apart``: the inputs that PyTorch's composition does not save itself; ``formulas``: what gives the
    options of a reduction; ``calls``: the calls of aten that the unreduced losses are.
    """
    schema_name, _, rest = schema.partition("(")

    def declare(kernel):
        taken = ", ".join(kernel.__code__.co_varnames[: kernel.__code__.co_argcount])

        def reduced(reduction):
            def run(*arguments):
                losses = kernel(*arguments)
                if reduction == MEAN and kind(losses) in "ib":
                    raise RuntimeError(
                        f"{schema_name}: mean(): could not infer output dtype. Input dtype must be either a "
                        "floating point or "
                        f"complex dtype. Got: {scalar_name(losses)}"
                    )
                return reduce(losses, reduction)

            return eval(f"lambda {taken}: run({taken})", {"run": run, "__name__": __name__})

        return tuple(
            op(
                f"_{schema_name}_{word}({rest}",
                variants="",
                node=node,
                saved=_shown(node, apart),
                **{"layout": result_layouts.elementwise, **options},
                **(formulas(r) if formulas else {}),
                **({"aten": {"calls": functools.partial(_calls, calls, r)}} if calls else {}),
            )(reduced(r))  # fmt: skip
            for r, word, node in zip(REDUCTIONS, ("none", "mean", "sum"), (none, mean, sum), strict=True)
        )

    return declare


def _calls(losses, reduction, aten, *arguments):
    found = losses(aten, *arguments)
    return found if reduction == NONE else aten.mean(found) if reduction == MEAN else aten.sum(found)


def _l1_grad(grad, self, target, needs, reduction):
    gap = unseen(jnp.subtract, self, target)
    if reduction != NONE:
        grad = aten.expand(grad, gap.shape)
    if reduction == MEAN:
        grad = spelled("div.Scalar", jnp.divide, grad, max(gap.size, 1))
    grad = grad * aten.sgn(gap)
    return grad, -grad if "target" in needs else None


@by_reduction(
    "l1_loss(Tensor self, Tensor target) -> Tensor",
    "AbsBackward",
    dtype="promote",
    autocast="fp32",
    apart="self target",
    formulas=lambda r: {
        "vjp": {"self, target": lambda grad, self, target, needs: _l1_grad(grad, self, target, needs, r)},
        "jvp": "kernel",
    },
    calls=_composed.l1_loss,
)
def l1_loss(self, target):
    return modulus(jnp.subtract(*broadcast("l1_loss", self, target)))


@jax.custom_jvp
def _entropy(t):
    """``t log t``, 0 at 0, where its derivative is NaN for PyTorch: that of ``xlogy(t, t)``."""
    return jnp.where(t == 0, 0, t * jnp.log(t))


@_entropy.defjvp
def _entropy_jvp(primals, tangents):
    (t,), (dt,) = primals, tangents
    return _entropy(t), dt * (jnp.log(t) + t / t)


def _kl_div(self, target):
    x, t = broadcast("kl_div", self, target)
    return _entropy(t) - rounded_product(t, x)


kl_div = by_reduction("kl_div(Tensor self, Tensor target) -> Tensor", "SubBackward", dtype="promote", autocast="fp32",
                       layout=result_layouts.second_first, calls=_composed.kl_div)(_kl_div)  # fmt: skip


@by_reduction(
    "kl_div_log(Tensor self, Tensor target) -> Tensor",
    "MulBackward",
    layout=result_layouts.second_first,
    dtype="promote",
    autocast="fp32",
    apart="self target",
    calls=_composed_sums.kl_div_log,
)
def kl_div_log(self, target):
    x, t = broadcast("kl_div", self, target)
    return jnp.exp(t) * (t - x)


@by_reduction("margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.) -> Tensor",
              "ClampMinBackward", dtype="promote", policy="input1 input2", apart="input1 input2 target",
              autocast="fp32", calls=_composed.margin_ranking_loss)  # fmt: skip
def margin_ranking_loss(input1, input2, target, margin):
    a, b, t = broadcast("margin_ranking_loss", input1, input2, _minus(target))
    if a.dtype == np.bool_:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported: margin_ranking_loss()"
        )
    t, gap = _common(t, a - b)
    product = t * gap  # of integers it may wrap, as in PyTorch
    product = product if kind(product) in "fc" else product.astype(get_default_dtype().np)
    return positive_part(product + _num(margin, product))


@by_reduction("hinge_embedding_loss(Tensor self, Tensor target, float margin=1.) -> Tensor", "AddBackward",
    layout=result_layouts.second_first,
              apart="self target", autocast="fp32", calls=_composed.hinge_embedding_loss)  # fmt: skip
def hinge_embedding_loss(self, target, margin):
    demand_no_bools("Subtraction", self)
    x, t = broadcast("hinge_embedding_loss", self, target)
    return jnp.where(t != 1, positive_part(_num(margin, x) - x), 0) + jnp.where(t != -1, x, 0)


@by_reduction(
    "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.) -> Tensor",
    "AddBackward",
    autocast="fp32",
    apart="target",
    calls=_composed.cosine_embedding_loss,
)
def cosine_embedding_loss(input1, input2, target, margin):
    a, b, t = input1, input2, target
    _check_cosine_embedding(a, b, t)
    a, b = broadcast("cosine_embedding_loss", a, b)
    products = (jnp.multiply(*_common(a, b)), a * a, b * b)  # of integers they may wrap, as in PyTorch
    dot, aa, bb = (inexact(jnp.sum(x, -1, dtype=jnp.int64 if kind(x) in "bi" else None)) for x in products)
    dot, aa, bb = _common(dot, aa + _num(1e-12, aa), bb + _num(1e-12, bb))
    cosine = dot / jnp.sqrt(aa * bb)
    t, cosine = broadcast("cosine_embedding_loss", t, cosine)
    return jnp.where(t == 1, 1 - cosine, 0) + jnp.where(t == -1, positive_part(cosine - _num(margin, cosine)), 0)


def _check_cosine_embedding(a, b, t):
    if t.ndim > 1:
        raise RuntimeError(
            f"cosine_embedding_loss: 0D or 1D target tensor expected, multi-target not supported, got {t.ndim}D"
        )
    if not a.ndim == b.ndim == t.ndim + 1:
        raise RuntimeError(
            f"cosine_embedding_loss: {t.ndim}D target tensor expects {t.ndim + 1}D input tensors, but found "
            "inputs with sizes "
            f"{list(a.shape)} and {list(b.shape)}."
        )


def _poisson(name, node, log_input, full):
    @by_reduction(
        f"{name}(Tensor input, Tensor target, float eps) -> Tensor",
        node,
        dtype="first_int_to_float",
        autocast="fp32",
        apart="" if log_input else "input",
        calls=functools.partial(_composed.poisson_nll_loss, log_input, full),
    )
    def poisson_nll_loss(input, target, eps):
        x, t = broadcast("poisson_nll_loss", input, target)
        losses = jnp.exp(x) - t * x if log_input else x - t * jnp.log(x + _num(eps, x))
        if not full:
            return losses
        stirling = t * jnp.log(t) - t + 0.5 * jnp.log(2 * math.pi * t)  # its slope is NaN up to 0 in PyTorch
        return losses + jnp.where(t <= 1, 0, stirling)

    return poisson_nll_loss


# {(log_input, full): the three reductions}
poisson_nll_loss = {
    (log_input, full): _poisson(f"poisson_nll_loss{i}{j}", "AddBackward" if full else "SubBackward", log_input, full)
    for i, log_input in enumerate((False, True))
    for j, full in enumerate((False, True))
}


def _negative_variance(input, target, var, eps):
    demand("lt_cpu", var, "f")
    return jnp.any(var < 0), lambda: ValueError("var has negative entry/entries; gaussian_nll_loss takes variances")


@by_reduction(
    "gaussian_nll_loss(Tensor input, Tensor target, Tensor var, float eps) -> Tensor",
    "MulBackward",
    layout=result_layouts.third_first,
    dtype="promote",
    check=_negative_variance,
    apart="input target var",
    autocast={"cuda": "fp32"},
    calls=_composed_sums.gaussian_nll_loss,
)
def gaussian_nll_loss(input, target, var, eps):
    x, t = broadcast("gaussian_nll_loss", input, target)
    var = raised(var, _num(eps, var))
    return 0.5 * (jnp.log(var) + (x - t) ** 2 / var)


@by_reduction(
    "multilabel_soft_margin_loss(Tensor self, Tensor target, Tensor? weight) -> Tensor",
    "DivBackward",
    autocast={"cuda": "fp32"},
    calls=_composed.multilabel_soft_margin_loss,
)
def multilabel_soft_margin_loss(self, target, weight):
    demand("log_sigmoid_cpu", self, "f")
    x, t, others = broadcast("multilabel_soft_margin_loss", self, target, 1 - target)
    x, t, others = _common(x, t, others)
    losses = t * _softplus_of_minus(x) + others * _softplus_of_minus(-x)
    if weight is not None:
        losses, weight = _common(*broadcast("multilabel_soft_margin_loss", losses, weight))
        losses = losses * weight
    if not self.ndim:
        raise IndexError("multilabel_soft_margin_loss: Dimension specified as -1 but tensor has no dimensions")
    return jnp.sum(losses, self.ndim - 1) / self.shape[-1]  # of the input's last, whatever it broadcasts to
