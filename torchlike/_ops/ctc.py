"""Connectionist temporal classification (Graves et al. 2006)."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._decl.op import op
from torchlike._ops._elementwise import demand


def _extended(targets, blank):
    """[N, 2 S + 1]: each label between blanks; and where it may be entered from two places before."""
    n, s = targets.shape
    labels = jnp.full((n, 2 * s + 1), blank, targets.dtype).at[:, 1::2].set(targets)
    before = jnp.concatenate([jnp.full((n, 2), blank, labels.dtype), labels], 1)[:, : 2 * s + 1]
    return labels, (jnp.arange(2 * s + 1) % 2 == 1) & (labels != before)  # by place: a target may name the blank too


def _shift(alpha, by):
    fill = jnp.full((alpha.shape[0], by), -jnp.inf, alpha.dtype)
    return jnp.concatenate([fill, alpha], 1)[:, : alpha.shape[1]]


def _log_sum(x, axis):
    """log(sum(exp(x))), with zero derivatives where all are -inf."""
    top = lax.stop_gradient(jnp.max(x, axis, keepdims=True))
    top = jnp.where(top == -jnp.inf, 0, top)
    total = jnp.sum(jnp.exp(x - top), axis)
    none = total == 0
    return jnp.where(none, -jnp.inf, jnp.log(jnp.where(none, 1, total)) + jnp.squeeze(top, axis))


def _walk(log_probs, targets, input_lengths, target_lengths, blank, keep):
    """The scores of the states after the last step, and after every one if they are kept."""
    labels, skips = _extended(targets, blank)
    width = labels.shape[1]
    inside = jnp.arange(width)[None] < 2 * target_lengths[:, None] + 1
    emitted = jnp.take_along_axis(log_probs, jnp.clip(labels, 0, log_probs.shape[2] - 1)[None], 2)  # [T, N, 2 S + 1]
    start = jnp.where(inside & (jnp.arange(width) < 2)[None], emitted[0], -jnp.inf)

    def advance(alpha, step):
        t, now = step
        enter = jnp.where(skips, _shift(alpha, 2), -jnp.inf)
        new = jnp.where(inside, _log_sum(jnp.stack([alpha, _shift(alpha, 1), enter]), 0) + now, -jnp.inf)
        kept = jnp.where(t < input_lengths[:, None], new, alpha)
        return kept, kept if keep else None

    last, all_ = lax.scan(advance, start, (jnp.arange(1, log_probs.shape[0]), emitted[1:]))
    return last, jnp.concatenate([start[None], all_]) if keep else None


def losses(log_probs, targets, input_lengths, target_lengths, blank):
    """Minus the log probability of each target [N, S] under [T, N, C]."""
    alpha, _ = _walk(log_probs, targets, input_lengths, target_lengths, blank, keep=False)
    width = alpha.shape[1]
    last = 2 * target_lengths
    ends = (jnp.arange(width)[None] == last[:, None]) | (jnp.arange(width)[None] == last[:, None] - 1)
    found = _log_sum(jnp.where(ends, alpha, -jnp.inf), 1)
    empty = input_lengths == 0
    return jnp.where(empty, jnp.where(target_lengths == 0, 0, jnp.inf), -found)


def _back(grad, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    """The gradient PyTorch gives: of the scores that ``log_probs`` are the log_softmax of."""

    def of(x):
        return losses(x, targets, input_lengths, target_lengths, blank)

    value, pull = jax.vjp(of, log_probs)
    impossible = value == jnp.inf
    posterior = pull(jnp.where(impossible, 0, 1).astype(log_probs.dtype))[0]
    share = jnp.where(impossible, 0 if zero_infinity else jnp.nan, grad)[None, :, None]
    during = (jnp.arange(log_probs.shape[0])[:, None] < input_lengths[None])[:, :, None]
    return jnp.where(during, share * (jnp.exp(log_probs) + posterior), 0)


def _check(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    """Lengths that fit, and labels that are classes; what stands behind a target's length is padding."""
    (steps, _, classes), most = log_probs.shape, targets.shape[1]
    used = jnp.arange(most) < target_lengths[:, None]
    strange = used & ((targets < 0) | (targets >= classes))
    wrong = (input_lengths < 0) | (input_lengths > steps) | (target_lengths < 0) | (target_lengths > most)

    def error():
        for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
            if (least := int(np.min(np.asarray(lengths), initial=0))) < 0:
                return RuntimeError(f"ctc_loss: Expected {name} to have value at least 0, but got value {least}")
            if name == "input_lengths" and (longest := int(np.max(np.asarray(lengths), initial=0))) > steps:
                return RuntimeError(f"ctc_loss: Expected {name} to have value at most {steps}, but got value {longest}")
        if (longest := int(np.max(np.asarray(target_lengths), initial=0))) > most:
            return RuntimeError(
                f"ctc_loss: Expected tensor to have size at least {longest} at dimension 1, but got size {most} for "
                "argument 'targets'"
            )
        label = np.asarray(targets)[np.asarray(strange)][0]
        return RuntimeError(f"ctc_loss: Expected targets to be labels in [0, {classes}), but got {label}")

    return jnp.any(wrong) | jnp.any(strange), error


@op(
    "_ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, "
    "bool zero_infinity) "
    "-> Tensor",
    variants="",
    node="CtcLossBackward",
    vjp={"log_probs": _back},
    saved={
        **{n: n for n in ("blank", "input_lengths", "log_probs", "target_lengths", "targets", "zero_infinity")},
        **{"result0": "result", "result!": None},
        **{"~input_lengths": "input_lengths", "~target_lengths": "target_lengths"},
    },
    edges=lambda: (0,),
    check=_check,
    autocast={"cpu": "fp32"},
)
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    demand("ctc_loss_cpu", log_probs, "f")
    if log_probs.dtype.itemsize == 2:
        demand("ctc_loss_cpu", log_probs, "")
    found = losses(log_probs, targets, input_lengths, target_lengths, blank)
    return jnp.where(found == jnp.inf, 0, found) if zero_infinity else found


@op(
    "_ctc_scores(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank) -> Tensor",
    variants="",
    vjp={},
)
def ctc_scores(log_probs, targets, input_lengths, target_lengths, blank):
    """The log probabilities [N, T, 2 S + 1] of having reached each label or blank at each step."""
    found = _walk(log_probs, targets, input_lengths, target_lengths, blank, keep=True)[1]
    return jnp.moveaxis(found, 0, 1)
