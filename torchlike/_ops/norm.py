"""Normalisation: standardized values and the statistics they were made with."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import result_layouts
from torchlike._base.dtypes import from_np, get_default_dtype
from torchlike._decl import rules
from torchlike._decl.op import op
from torchlike._decl.words import aten, later, unseen
from torchlike._ops import _composed_sums
from torchlike._ops._axes import refuse
from torchlike._ops._derivatives import shaped_each
from torchlike._ops._elementwise import is_reduced, wide


def known(compute):
    """``f(saved, *inputs)``: the saved value of ``compute(*inputs)``, with the derivative of ``compute``.

    A backward formula reads statistics that the forward pass has saved; where the formula itself is
    differentiated, they depend on the inputs (every tracer that ``compute`` reads must be one).
    """

    @jax.custom_jvp
    def f(saved, *inputs):
        return saved

    @f.defjvp
    def _(primals, tangents):
        saved, *inputs = primals
        _, dots = jax.jvp(compute, tuple(inputs), tuple(tangents[1:]))
        return f(*primals), dots  # f again: derivatives of higher order depend on the inputs too

    return f


def _mean(x, axes):
    return jnp.mean(x, axes, keepdims=True)


def statistics(x, axes, eps):
    """(mean, 1 / sqrt(variance + eps)) over ``axes``, which keep length one."""
    mean = _mean(x, axes)
    return mean, lax.rsqrt(_mean(jnp.square(x - mean), axes) + jnp.asarray(eps, x.dtype))


def standardized(x, axes, eps, mean, rstd):
    """``(x - mean) * rstd`` from statistics that were saved."""
    saved = known(lambda x, eps: statistics(x, axes, eps))((mean, rstd), x, jnp.asarray(eps, x.dtype))
    return (x - saved[0]) * saved[1], saved[1]


def input_gradient(grad, unit, rstd, axes):
    """Gradient of the input of a standardization, from that of its result ``unit``."""
    return rstd * (grad - _mean(grad, axes) - unit * _mean(grad * unit, axes))


def _demand_floating(x, kernel):
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise NotImplementedError(
            f"\"{kernel}\" not implemented for '{from_np(x.dtype).scalar_name}' (floating-point tensors only)"
        )


def _demand_dtypes(name, x, parameters):
    """Parameters have the input's dtype, or float32 where that is shorter."""
    for p in parameters:
        if p is not None and p.dtype != x.dtype and not (is_reduced(x) and p.dtype == jnp.float32):
            raise RuntimeError(
                f"mixed dtype (CPU): expect parameter to have scalar type of {from_np(x.dtype).scalar_name}, "
                f"but {name} got {from_np(p.dtype).scalar_name}; convert one with .to(dtype)"
            )


def _affine(unit, weight, bias, shape, dtype):
    """``unit * weight + bias`` in ``dtype``, the parameters laid out as ``shape``."""
    if weight is not None:
        unit = unit * weight.astype(unit.dtype).reshape(shape)
    if bias is not None:
        unit = unit + bias.astype(unit.dtype).reshape(shape)
    return unit.astype(dtype)


# -- batch and instance normalisation ----------------------------------------------------------------


def _channel_shape(x):
    return (1, x.shape[1], *(1,) * (x.ndim - 2)) if x.ndim > 1 else (0,)


def _over(x, instances):
    """The axes that statistics are taken over: all but the channels, and with ``instances`` the batch."""
    return tuple(range(2, x.ndim)) if instances else (0, *range(2, x.ndim))


def _check_channels(name, x, **vectors):
    channels = x.shape[1] if x.ndim > 1 else 0
    for what, v in vectors.items():
        if v is not None and v.shape != (channels,):
            count = math.prod(v.shape)
            raise RuntimeError(f"{what} should contain {channels} elements not {count} (in {name})")
    if x.ndim < 2 and x.size:
        raise IndexError(f"{name}: expected an input [N, C, ...] of at least 2-D, but got size {list(x.shape)}")


def _refuse_gradient(name):
    raise RuntimeError(
        f"The function 'native_batch_norm' is not differentiable with respect to argument '{name}'. "
        "This input cannot have requires_grad True."
    )


_FROZEN = {
    "running_mean": lambda running_mean: _refuse_gradient("running_mean"),
    "running_var": lambda running_var: _refuse_gradient("running_var"),
}


def _without_statistics(names):
    """Forward mode of a training step: what has tangents but for the running statistics, which it does not read."""
    return [n for n in names if n not in _FROZEN]


def _beside_statistics(names):
    """Forward mode in evaluation: running statistics may have tangents where nothing else has."""
    rest = _without_statistics(names)
    if rest and len(rest) < len(names):
        raise RuntimeError(
            "batch_norm is not differentiable wrt running_mean and running_var, they cannot have forward grad defined"
        )
    return rest


def _moved(running, value, momentum):
    """The running statistic after a batch with this one; an empty batch has none."""
    if running is None:
        return jnp.zeros((0,))
    if value is None:
        return running
    momentum = jnp.asarray(momentum).astype(running.dtype)
    return (1 - momentum) * running + momentum * value.astype(running.dtype)


def _batch_norm_backward(grads, input, weight, bias_aval, result1, result2, eps, instances):
    axes, shape = _over(input, instances), _channel_shape(input)
    x, grad = wide(input), wide(grads[0])
    kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
    unit, rstd = standardized(x, axes, eps, result1.reshape(kept), result2.reshape(kept))
    scaled = grad if weight is None else grad * weight.astype(grad.dtype).reshape(shape)
    rest = (0, *range(2, x.ndim))
    return (
        input_gradient(scaled, unit, rstd, axes),
        None if weight is None else jnp.sum(grad * unit, rest),
        None if bias_aval is None else jnp.sum(grad, rest),
    )


def _shown_instances(grad, input, weight, bias_aval, running_mean_aval, running_var_aval, result1, result2, eps, needs):
    """As one batch whose channels are those of all elements."""
    n, c = input.shape[:2]
    flat = [1, n * c, *input.shape[2:]]
    grad = aten.view(grad, flat)
    each = lambda t: None if t is None else unseen(lambda t: jnp.broadcast_to(t, (n, c)).reshape(-1), t)  # noqa: E731
    none = lambda a: None if a is None else unseen(lambda x: jnp.zeros(n * c, a.dtype), input)  # noqa: E731
    running = none(running_mean_aval), none(running_var_aval)
    mask = [name in needs for name in ("input", "weight", "bias")]
    shapes = [like if there else None for like, there in zip((grad, result1, result1), mask, strict=True)]
    got = shaped_each(
        "native_batch_norm_backward", shapes, grad, unseen(lambda x: x.reshape(flat), input), each(weight), *running,
        result1, result2, True, eps, mask,
    )  # fmt: skip
    summed = lambda t: aten["sum.dim_IntList"](aten.view(t, [n, c]), [0])  # noqa: E731
    to_weight, to_bias = (None if t is None else later(summed, t, rank=i) for t, i in ((got[1], 2), (got[2], 1)))
    return None if got[0] is None else aten.view(got[0], [*input.shape]), to_bias, to_weight


@op("native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
    "running_var, float momentum, float eps, bool instances) -> (Tensor result0, Tensor result1, Tensor "
    "result2, Tensor running_mean, Tensor running_var)", aten=False,
    variants="", layout=result_layouts.batch_norm,
    vjp={"input, weight, bias": _batch_norm_backward, **_FROZEN}, jvp=_without_statistics,
    nondiff=(1, 2, 3, 4), saved={
        **{n: n for n in ("eps", "input", "result1", "result2", "weight")}, "training": lambda: True,
    }, edges=lambda instances: (0, 2, 1) if instances else (0, 1, 2),
    backward={"input, weight, bias": (
        "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
        "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, "
        "bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        {"save_mean": "result1", "save_invstd": "result2", "train": True,
         "when": lambda instances: not instances}), "input, bias, weight": (
             _shown_instances, {"when": lambda instances: instances})})  # fmt: skip
def batch_norm_training(input, weight, bias, running_mean, running_var, momentum, eps, instances):
    """The batch normalized by its own statistics, those statistics, and the running ones moved to them.

    ``instances``: every element of the batch has statistics of its own.
    """
    name = "instance_norm" if instances else "batch_norm"
    if (running_mean is None) != (running_var is None):
        raise ValueError(f"{name}: running_mean and running_var must either both be None or neither be None")
    _demand_floating(input, "batch_norm")
    _check_channels(name, input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _demand_dtypes(name, input, (weight, bias, running_mean, running_var))
    axes = _over(input, instances)
    x = wide(input)
    mean, rstd = statistics(x, axes, eps)
    out = _affine((x - mean) * rstd, weight, bias, _channel_shape(input), input.dtype)
    n = math.prod(input.shape[i] for i in axes)
    variance = _mean(jnp.square(x - mean), axes) * (n / max(n - 1, 1))
    rest = (0, *range(2, x.ndim))
    seen = (jnp.mean(mean, rest), jnp.mean(variance, rest)) if x.size else (None, None)
    moved = [_moved(r, v, momentum) for r, v in zip((running_mean, running_var), seen, strict=True)]
    return out, mean.reshape(-1), rstd.reshape(-1), *moved


def _batch_norm_eval_backward(grad, input, weight, bias_aval, running_mean, running_var, eps):
    shape, rest = _channel_shape(input), (0, *range(2, input.ndim))
    x, grad = wide(input), wide(grad)
    mean, rstd = _fixed(running_mean, running_var, eps, x.dtype)
    scale = rstd if weight is None else rstd * weight.astype(x.dtype)
    unit = (x - mean.reshape(shape)) * rstd.reshape(shape)
    return (
        grad * scale.reshape(shape),
        None if weight is None else jnp.sum(grad * unit, rest),
        None if bias_aval is None else jnp.sum(grad, rest),
    )


def _fixed(mean, variance, eps, dtype):
    return mean.astype(dtype), lax.rsqrt(variance.astype(dtype) + jnp.asarray(eps, dtype))


@op("_native_batch_norm_eval(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor "
    "running_var, "
    "float eps) -> Tensor", variants="", node="NativeBatchNormBackward",
    layout=result_layouts.batch_norm_eval,
    vjp={"input, weight, bias": _batch_norm_eval_backward, **_FROZEN}, jvp=_beside_statistics,
    saved={**{n: n for n in ("eps", "input", "running_mean", "running_var", "weight")},
           "training": lambda: False}, edges=lambda: (0, 1, 2),
    backward={"input, weight, bias": (
        "native_batch_norm_backward", {"save_mean": None, "save_invstd": None, "train": False})})  # fmt: skip
def batch_norm_eval(input, weight, bias, running_mean, running_var, eps):
    """The batch normalized by the running statistics."""
    _demand_floating(input, "batch_norm")
    _check_channels("batch_norm", input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _demand_dtypes("batch_norm", input, (weight, bias, running_mean, running_var))
    x, shape = wide(input), _channel_shape(input)
    mean, rstd = _fixed(running_mean, running_var, eps, x.dtype)
    scale = rstd if weight is None else rstd * weight.astype(x.dtype)
    return _affine((x - mean.reshape(shape)) * scale.reshape(shape), None, bias, shape, input.dtype)


# -- layer, group and root-mean-square normalisation -------------------------------------------------


def _check_normalized(name, input, normalized_shape, star, **parameters):
    shape, n = list(normalized_shape), len(normalized_shape)
    if not n:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
            f"but got normalized_shape = [] (in {name})"
        )
    for what, p in parameters.items():
        if p is not None and p.shape != tuple(normalized_shape):
            raise RuntimeError(
                f"Expected {what} to be of same shape as normalized_shape, but got {what} of shape "
                f"{list(p.shape)} and normalized_shape = {shape} (in {name})"
            )
    if input.ndim < n or input.shape[input.ndim - n :] != tuple(normalized_shape):
        raise RuntimeError(
            f"Given normalized_shape={shape}, expected input with shape "
            f"[*{star}{', '.join(map(str, shape))}], but got input of size{list(input.shape)} (in {name})"
        )


def _layer_norm_backward(grads, input, weight, bias_aval, result1, result2, normalized_shape, eps):
    n = len(normalized_shape)
    axes, rest = tuple(range(input.ndim - n, input.ndim)), tuple(range(input.ndim - n))
    x, grad = wide(input), wide(grads[0])
    unit, rstd = standardized(x, axes, eps, result1, result2)
    scaled = grad if weight is None else grad * weight.astype(grad.dtype)
    return (
        input_gradient(scaled, unit, rstd, axes),
        None if weight is None else jnp.sum(grad * unit, rest),
        None if bias_aval is None else jnp.sum(grad, rest),
    )


@op("native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
    "-> (Tensor result0, Tensor result1, Tensor result2)",
    variants="", autocast={"cuda": "fp32"},
    vjp={"input, weight, bias": _layer_norm_backward}, nondiff=(1, 2),
    saved="bias! input normalized_shape result1 result2 weight",
    backward={"input, weight, bias": (
        "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, "
        "Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        {"mean": "result1", "rstd": "result2"})},
    rows=lambda normalized_shape: "input" if len(normalized_shape) == 1 else "")  # fmt: skip
def layer_norm(input, normalized_shape, weight, bias, eps):
    """Standardized over the last dimensions, the mean and 1 / sqrt(variance + eps)."""
    _check_normalized("layer_norm", input, normalized_shape, ", ", weight=weight, bias=bias)
    _demand_dtypes("layer_norm", input, (weight, bias))
    _demand_floating(input, "LayerNormKernelImpl")
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    x = wide(input)
    mean, rstd = statistics(x, axes, eps)
    return _affine((x - mean) * rstd, weight, bias, normalized_shape, input.dtype), mean, rstd


def _grouped(x, groups):
    """[N, C, ...] as [N, groups, C / groups, positions]."""
    n, c = x.shape[:2]
    return x.reshape(n, groups, c // groups, math.prod(x.shape[2:]))


def _group_norm_backward(grads, input, weight, bias_aval, result1, result2, num_groups, eps):
    x, grad = _grouped(wide(input), num_groups), _grouped(wide(grads[0]), num_groups)
    mean, rstd = (s.reshape(*x.shape[:2], 1, 1) for s in (result1, result2))
    unit, rstd = standardized(x, (2, 3), eps, mean, rstd)
    scaled = grad if weight is None else grad * weight.astype(grad.dtype).reshape(1, num_groups, -1, 1)
    return (
        input_gradient(scaled, unit, rstd, (2, 3)).reshape(input.shape),
        None if weight is None else jnp.sum(grad * unit, (0, 3)).reshape(-1),
        None if bias_aval is None else jnp.sum(grad, (0, 3)).reshape(-1),
    )


def _group_calls(aten, input, groups, weight, bias, eps):
    n, c, *rest = input.shape
    return aten.native_group_norm(input, weight, bias, n, c, math.prod(rest), groups, eps)


@op("native_group_norm(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps) "
    "-> (Tensor result0, Tensor result1, Tensor result2)", aten={"own": True, "calls": _group_calls},
    variants="", layout=result_layouts.of_images, autocast={"cuda": "fp32"},
    vjp={"input, weight, bias": _group_norm_backward}, nondiff=(1, 2), saved={
        "input": "input", "weight": "weight", "result1": "result1", "result2": "result2", "eps": "eps",
        "group": "num_groups", "N": lambda input_aval: input_aval.shape[0], "C": lambda input_aval: input_aval.shape[1],
        "HxW": lambda input_aval: math.prod(input_aval.shape[2:]),
    },
    backward={"input, weight, bias": (
        "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, "
        "SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)", {
            "mean": "detached result1", "rstd": "detached result2", "group": "num_groups",
            "N": lambda input_aval: input_aval.shape[0], "C": lambda input_aval: input_aval.shape[1],
            "HxW": lambda input_aval: math.prod(input_aval.shape[2:]),
        })})  # fmt: skip
def group_norm(input, num_groups, weight, bias, eps):
    """Standardized over groups of channels, the mean and 1 / sqrt(variance + eps)."""
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim} (in group_norm)")
    if num_groups <= 0 or input.shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    for what, p in (("weight", weight), ("bias", bias)):
        if p is not None and p.shape != (input.shape[1],):
            raise RuntimeError(
                f"Expected {what} to be a vector of size equal to the number of channels in input, but got "
                f"{what} of shape {list(p.shape)} and input of shape {list(input.shape)}"
            )
    _demand_dtypes("group_norm", input, (weight, bias))
    _demand_floating(input, "GroupNormKernelImpl")
    x = _grouped(wide(input), num_groups)
    mean, rstd = statistics(x, (2, 3), eps)
    shape = (1, num_groups, -1, 1)
    out = _affine((x - mean) * rstd, weight, bias, shape, input.dtype).reshape(input.shape)
    return out, mean.reshape(x.shape[:2]), rstd.reshape(x.shape[:2])


def _root_mean_square(x, axes, eps):
    return lax.rsqrt(_mean(jnp.square(x), axes) + eps)


def _rms_eps(eps, x):
    return jnp.asarray(jnp.finfo(x.dtype).eps if eps is None else eps, x.dtype)


def _rms_norm_backward(grads, input, weight, result1, normalized_shape, eps):
    n = len(normalized_shape)
    axes, rest = tuple(range(input.ndim - n, input.ndim)), tuple(range(input.ndim - n))
    x, grad = wide(input), rules.conj(wide(grads[0]))  # holomorphic: conjugates around the plain formula
    rms = known(lambda x, eps: _root_mean_square(x, axes, eps))(result1, x, _rms_eps(eps, x))
    unit = x * rms
    scaled = grad if weight is None else grad * weight.astype(grad.dtype)
    inner = _mean(scaled * unit, axes)
    for_weight = None if weight is None else jnp.sum(grad * unit, rest)
    return rules.conj((rms * (scaled - unit * inner), for_weight))


@op("_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) "
    "-> (Tensor result0, Tensor result1)",
    variants="", node="FusedRmsNormBackward", layout=result_layouts.of_images,
    aten={"own": False, "out": None},
    autocast={"cuda": "fp32"}, vjp={"input, weight": _rms_norm_backward},
    nondiff=(1,))  # fmt: skip
def rms_norm(input, normalized_shape, weight, eps):
    """The input over its root mean square in the last dimensions, and 1 / that root."""
    _check_normalized("rms_norm", input, normalized_shape, "", weight=weight)
    if not jnp.issubdtype(input.dtype, jnp.inexact):
        raise NotImplementedError(f"\"rms_norm\" not implemented for '{from_np(input.dtype).scalar_name}'")
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    x = wide(input)
    rms = _root_mean_square(x, axes, _rms_eps(eps, x))
    out = x * rms
    if weight is not None:
        out = out * weight.astype(out.dtype)
    return out.astype(input.dtype), rms


@op("local_response_norm(Tensor input, int size, float alpha, float beta, float k) -> Tensor",
    aten={"own": True, "calls": _composed_sums.local_response_norm}, variants="", layout=result_layouts.like_first,
    node="DivBackward", saved="", autocast={"cuda": "fp32"})  # fmt: skip
def local_response_norm(input, size, alpha, beta, k):
    """Each element over (k + alpha * mean of squares in ``size`` neighbouring channels) ** beta."""
    if input.dtype != np.int64:
        refuse("local_response_norm", input, "b", "i", "u")
    squares = jnp.square(input)
    edges = [(0, 0)] * input.ndim
    edges[1] = (size // 2, (size - 1) // 2)
    padded = jnp.pad(squares, edges)
    total = sum(lax.slice_in_dim(padded, i, i + input.shape[1], axis=1) for i in range(size))
    if jnp.issubdtype(input.dtype, jnp.floating):
        mean = total / size
    else:  # PyTorch's mean of integers is an integer
        kind = get_default_dtype().np
        mean, input = (total // size).astype(kind), input.astype(kind)
    scale = jnp.asarray(k, input.dtype) + jnp.asarray(alpha, input.dtype) * mean
    return input / scale ** jnp.asarray(beta, input.dtype)


# -- weight normalisation ----------------------------------------------------------------------------


@op("_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor result0, Tensor result1)", variants="function",
    node="WeightNormInterfaceBackward", saved="dim g result1 v", nondiff=(1,))  # fmt: skip
def weight_norm_interface(v, g, dim):
    """``v`` with its norm over all dimensions but ``dim`` (the first or the last one) made ``g``; and that norm."""
    if dim not in (0, v.ndim - 1):
        raise RuntimeError(f"_weight_norm_interface(): dim must be the first or last dimension of v, but got {dim}")
    if v.dtype != g.dtype:
        raise RuntimeError(
            f"expected scalar type {from_np(v.dtype).scalar_name} but found {from_np(g.dtype).scalar_name} "
            "(_weight_norm_interface(): v and g)"
        )
    _demand_floating(v, "weight_norm_kernel")
    if g.size != v.shape[dim]:
        raise RuntimeError(f"_weight_norm_interface(): g of {g.size} elements does not fit v of size {list(v.shape)}")
    shape = tuple(n if i == dim else 1 for i, n in enumerate(v.shape))
    x = wide(v)
    length = jnp.sqrt(jnp.sum(jnp.square(x), tuple(i for i in range(v.ndim) if i != dim), keepdims=True))
    return (x * (g.astype(x.dtype).reshape(shape) / length)).astype(v.dtype), length
