"""Operators that PyTorch makes of several calls, where which ones depends on what only tensors have.

That is strides, history, and the cells that a call writes to or draws into; what arguments alone decide is said in the
declarations (``aten=``).
"""

import math
from typing import Any

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._aten.extra import SOURCE  # noqa: F401  (the overloads used here)
from torchlike._aten.jaxpr import constant
from torchlike._aten.lower import CALLS, as_one, lowers, redispatch, viewable
from torchlike._aten.packets import ops
from torchlike._aten.python_dispatch import invoke_with, normalised, without_dispatch
from torchlike._base.state import state
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.tensor import Tensor, contiguous_format, strided, value_of
from torchlike._decl.op import REGISTRY
from torchlike._executor.immediate import zeros
from torchlike._ops._composed_sums import repeat_interleave
from torchlike._ops.random import SELU_BOUND

_aten = ops.aten


def whole(name: str, values: tuple) -> Any:
    """An operator as one call of its own name; ``values``: of all its arguments."""
    op = REGISTRY[name]
    return as_one(op, dict(zip([a.name for a in op.schema.args], values, strict=True)))


@lowers("_fused_rms_norm", recorded=True)
def rms_norm(input: Any, normalized_shape: list, weight: Any, eps: float | None) -> Any:
    if input.dtype not in (dtypes.float32, dtypes.float64) or weight is not None and weight.dtype is not input.dtype:
        return whole("_fused_rms_norm", (input, normalized_shape, weight, eps))
    dims = [input.ndim - i for i in range(len(normalized_shape), 0, -1)]
    squares = redispatch(_aten.mean.dim, redispatch(_aten.pow.Tensor_Scalar, input, 2), dims, True)
    squares = redispatch(_aten.add_.Scalar, squares, dtypes.finfo(input.dtype).eps if eps is None else eps)
    root = redispatch(_aten.rsqrt.default, squares)
    out = redispatch(_aten.mul.Tensor, input, root)
    return out if weight is None else redispatch(_aten.mul.Tensor, out, weight), root


# -- products -------------------------------------------------------------------------------------------------------


@lowers("linear")
def linear(input: Any, weight: Any, bias: Any) -> Any:
    if bias is None:
        return matmul(input, redispatch(_aten.t.default, weight))
    if input.ndim == 2:
        return redispatch(_aten.addmm.default, bias, input, redispatch(_aten.t.default, weight))
    if not input.is_contiguous():
        return redispatch(_aten.add.Tensor, matmul(input, redispatch(_aten.t.default, weight)), bias)
    rows = math.prod(input.shape[:-1])
    flat = redispatch(_aten.view.default, input, [rows, input.shape[-1]])
    out = redispatch(_aten.addmm.default, bias, flat, redispatch(_aten.t.default, weight))
    return redispatch(_aten.view.default, out, [*input.shape[:-1], weight.shape[0]])


@lowers("matmul")
def matmul(self: Any, other: Any) -> Any:
    a, b = self.ndim, other.ndim
    if a <= 2 and b <= 2:
        return _small_product(self, other, a, b)
    folded, small = (self, other) if a >= b else (other, self)
    if small.ndim <= 2 and small.ndim and folded.ndim >= 3:
        transposed = folded is other
        if transposed:
            folded = redispatch(_aten.transpose.int, other, -2, -1) if b > 1 else other
        if small.requires_grad or viewable(folded, [math.prod(folded.shape[:-1]), folded.shape[-1]]):
            return _folded(folded, small, transposed)
    elif folded is other:
        redispatch(_aten.transpose.int, other, -2, -1)  # which PyTorch looks at
    return _batched(self, other)


def _small_product(self: Any, other: Any, a: int, b: int) -> Any:
    if a == 1 and b == 1:
        return redispatch(_aten.dot.default, self, other)
    if b == 1:
        return redispatch(_aten.mv.default, self, other)
    if a == 1:
        out = redispatch(_aten.mm.default, redispatch(_aten.unsqueeze.default, self, 0), other)
        return redispatch(_aten.squeeze_.dim, out, 0)
    return redispatch(_aten.mm.default, self, other)


def _folded(t: Any, small: Any, transposed: bool) -> Any:
    """A product of a stack of matrices and one matrix or vector, as one product of matrices."""
    if transposed:
        small = small if small.ndim == 1 else redispatch(_aten.t.default, small)
    flat = CALLS.reshaped(t, [math.prod(t.shape[:-1]), t.shape[-1]])
    if small.ndim == 1:
        out = redispatch(_aten.mv.default, flat, small)
        return redispatch(_aten._unsafe_view.default, out, list(t.shape[:-1]))
    out = redispatch(_aten.mm.default, flat, small)
    out = redispatch(_aten._unsafe_view.default, out, [*t.shape[:-1], small.shape[-1]])
    return redispatch(_aten.transpose.int, out, -2, -1) if transposed else out


def _batched(self: Any, other: Any) -> Any:
    """A product of stacks of matrices, whose stack dimensions broadcast."""
    vector = [t.ndim == 1 for t in (self, other)]
    b = redispatch(_aten.unsqueeze.default, other, 1) if vector[1] else other
    rows = 1 if vector[0] else self.shape[-2]
    batch = _broadcast(self.shape[:-2], b.shape[:-2])
    count = math.prod(batch)
    stacks = []
    for t, size in ((self, [rows, self.shape[-1]]), (b, b.shape[-2:])):
        t = redispatch(_aten.expand.default, t, [*batch, *size])
        stacks.append(CALLS.reshaped(t, [count, *t.shape[-2:]]))
    out = redispatch(_aten.bmm.default, *stacks)
    shape = [*batch, *([] if vector[0] else [rows]), *([] if vector[1] else [b.shape[-1]])]
    return redispatch(_aten._unsafe_view.default, out, shape)


def _broadcast(a: Any, b: Any) -> list[int]:
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + tuple(a), (1,) * (n - len(b)) + tuple(b)
    return [y if x == 1 else x for x, y in zip(a, b, strict=True)]


# -- pointwise and reductions ---------------------------------------------------------------------------------------


@lowers("where.self")
def where(condition: Any, self: Any, other: Any) -> Any:
    kind = next((t.dtype for t in (self, other) if isinstance(t, Tensor)), None)
    options = {"dtype": kind, "layout": strided, "device": condition.device}
    pair = [
        t if isinstance(t, Tensor) else redispatch(_aten.scalar_tensor.default, t, **(options if kind else {}))
        for t in (self, other)
    ]
    return redispatch(_aten.where.self, condition, *pair)


# -- shapes and indices ----------------------------------------------------------------------------------------------


@lowers("_index_true")
def index_true(self: Any, index: Any, dim: int, width: int) -> Any:
    with without_dispatch():
        count = math.prod(self.shape[dim : dim + width])
        flat = index.new_zeros(count).scatter(0, index, 1) if count else index.new_zeros(count)
        mask = flat.bool().view(*self.shape[dim : dim + width])
    return redispatch(_aten.index.Tensor, self, [None] * dim + [mask])


# -- layers ----------------------------------------------------------------------------------------------------------


def _unused(input: Any) -> None:
    """The empty buffer that PyTorch makes beside a batch norm."""
    options = {"dtype": dtypes.uint8, "layout": strided, "device": input.device}
    redispatch(_aten.empty.memory_format, [0], **options)


@lowers("native_batch_norm")
def native_batch_norm(
    input: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float, instances: bool
) -> Any:
    if instances:
        return _of_instances(input, weight, bias, mean, var, momentum, eps)
    op, new = REGISTRY["native_batch_norm"], {}

    def compute(input: Any, weight: Any, bias: Any, mean: Any, var: Any, *rest: Any) -> Any:
        *out, new["mean"], new["var"] = call(op, (input, weight, bias, mean, var, momentum, eps), (False,))
        return tuple(out)

    args = input, weight, bias, mean, var, True, momentum, eps
    _unused(input)
    func = _aten.native_batch_norm.default
    out = invoke_with(compute, func, *normalised(func, args, {}))
    _written_later(mean, var)
    return (*out, new.get("mean", mean), new.get("var", var))


def _of_instances(input: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float) -> tuple:
    """A batch of one, whose channels are those of all elements."""
    n, c, *rest = input.shape
    weight, bias, *stats = [
        t if t is None else redispatch(_aten.repeat.default, t, [n]) for t in (weight, bias, mean, var)
    ]
    if not input.is_contiguous():
        input = redispatch(_aten.clone.default, input, memory_format=contiguous_format)
    flat = redispatch(_aten.view.default, input, [1, n * c, *rest])
    _unused(input)
    args = flat, weight, bias, *stats, True, momentum, eps
    out, *kept = redispatch(_aten.native_batch_norm.default, *args)
    moved = [_mean_over_instances(t, new, [n, c]) for t, new in zip((mean, var), stats, strict=True)]
    _written_later(mean, var)
    return redispatch(_aten.view.default, out, [n, c, *rest]), *kept, *moved


def _mean_over_instances(running: Any, new: Any, shape: list) -> Any:
    """A running statistic, moved to the mean of those that all instances have moved."""
    if running is None:
        return constant(zeros((0,), np.dtype(np.float32)))
    target = redispatch(_aten.alias.default, running)
    mean = redispatch(_aten.mean.dim, redispatch(_aten.view.default, new, shape), [0])
    redispatch(_aten.copy_.default, target, mean)
    return mean


def _written_later(*running: Any) -> None:
    """Tell a trace that running statistics, which the call shown has moved, are written by the caller."""
    if state.trace is not None:
        for t in running:
            if t is not None:
                state.trace.expect(t._storage)


@lowers("_native_batch_norm_eval")
def batch_norm_eval(input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
    _unused(input)
    return redispatch(_aten.native_batch_norm.default, input, weight, bias, mean, var, False, 0.1, eps)[0]


@lowers("dropout")
def dropout(input: Any, words: Any, p: float, channels: int) -> Any:
    keep: list = []

    def draw(noise: Any, q: float = 0.5) -> Any:
        # The mask depends on the shape alone; `noise` is what is filled, whatever class `input` has.
        keep.append(call(REGISTRY["dropout"], (noise, words, p), (channels,))[1])
        write(noise, value_of(keep[0].to(noise.dtype).expand(noise.shape)))
        return noise

    func = _aten.bernoulli_.float
    if channels:
        whole = input.shape[:channels]
        noise = redispatch(_aten.new_empty.default, input, [*whole, *[1] * (input.ndim - channels)])
    else:
        noise = redispatch(_aten.empty_like.default, input)
    noise = invoke_with(draw, func, *normalised(func, (noise, 1 - p), {}))
    noise = redispatch(_aten.div_.Scalar, noise, 1 - p)
    out = redispatch(_aten.mul.Tensor, input, noise)
    drawn = keep and (state.trace is None or not input.requires_grad)  # else gradients need it as a step
    return out, keep[0] if drawn else redispatch(_aten.ne.Scalar, noise, 0)


@lowers("alpha_dropout")
def alpha_dropout(input: Any, words: Any, p: float, channels: int) -> Any:
    kept: list = []

    def draw(noise: Any, q: float = 0.5) -> Any:
        kept.extend(call(REGISTRY["alpha_dropout"], (noise, words, p), (channels,))[1:])
        write(noise, value_of((kept[0] != 0).to(noise.dtype).expand(noise.shape)))
        return noise

    if channels:
        whole = input.shape[:channels]
        noise = redispatch(_aten.new_empty.default, input, [*whole, *[1] * (input.ndim - channels)])
    else:
        noise = redispatch(_aten.empty_like.default, input)
    func = _aten.bernoulli_.float
    noise = invoke_with(draw, func, *normalised(func, (noise, 1 - p), {}))
    scale = 1 / math.sqrt((SELU_BOUND**2 * p + 1) * (1 - p))
    shift = redispatch(_aten.mul_.Scalar, redispatch(_aten.add.Scalar, noise, -1), SELU_BOUND * scale)
    shift = redispatch(_aten.add_.Scalar, shift, SELU_BOUND * scale * p)
    noise = redispatch(_aten.mul_.Scalar, noise, scale)
    out = redispatch(_aten.add_.Tensor, redispatch(_aten.mul.Tensor, input, noise), shift)
    drawn = kept and (state.trace is None or not input.requires_grad)  # else gradients need it as a step
    return out, *(kept if drawn else (noise, shift))


@lowers("rrelu")
def rrelu_of_mean(self: Any, slope: float) -> Any:
    noise = redispatch(_aten.empty_like.default, self, memory_format=contiguous_format)
    return redispatch(_aten.rrelu_with_noise.default, self, noise, slope, slope)


@lowers("rrelu_with_noise")
def rrelu(self: Any, words: Any, lower: float, upper: float) -> Any:
    drawn: list = []

    def draw(self: Any, noise: Any, *_: Any, **__: Any) -> Any:
        out, new = call(REGISTRY["rrelu_with_noise"], (self, words, lower, upper), ())
        drawn.append(new)
        write(noise, value_of(new))
        return out

    noise = redispatch(_aten.empty_like.default, self, memory_format=contiguous_format)
    func = _aten.rrelu_with_noise.default
    out = invoke_with(draw, func, *normalised(func, (self, noise, lower, upper, True), {}))
    return out, drawn[0] if drawn and state.trace is None else noise


def _scaled(t: Any, factor: float) -> Any:
    return redispatch(_aten.mul.Scalar, t, factor)


def _causal(query: Any, shape: list) -> Any:
    """What is added to the scores: 0 up to the diagonal, -inf beyond."""
    options = {"layout": strided, "device": query.device}
    allowed = redispatch(_aten.ones.default, shape, dtype=dtypes.bool, **options)
    return _added(query, redispatch(_aten.tril.default, allowed))


def _added(query: Any, allowed: Any) -> Any:
    """What is added to the scores for a mask: 0 where it allows, else -inf."""
    minus = redispatch(_aten.scalar_tensor.default, -math.inf, dtype=query.dtype, device=query.device)
    options = {"layout": strided, "device": query.device}
    none = redispatch(_aten.scalar_tensor.default, 0.0, dtype=query.dtype, **options)
    return redispatch(_aten.where.self, allowed, none, minus)


@lowers("_scaled_dot_product_attention", recorded=True)
def attention(
    query: Any, key: Any, value: Any, mask: Any, words: Any, p: float, causal: bool, scale: Any, gqa: bool
) -> Any:
    if words is not None:
        op = REGISTRY["_scaled_dot_product_attention"]
        inputs = (query, key, value, mask, words, p, scale)
        own = getattr(ops.torchlike, op.schema.name).default
        compute = lambda *_: call(op, inputs, (causal, gqa))  # noqa: E731
        return invoke_with(compute, own, (query, key, value, mask, p, causal, scale, gqa), {})
    given = mask is not None and mask.requires_grad
    if query.ndim == 4 and query.shape[-1] == value.shape[-1] and query.numel() and key.numel() and not given:
        func = _aten._scaled_dot_product_flash_attention_for_cpu.default
        return redispatch(func, query, key, value, p, causal, attn_mask=mask, scale=scale)[0]
    if mask is not None and mask.dtype is dtypes.bool:
        mask = _added(query, mask)
    factor = math.sqrt(scale if scale is not None else 1 / math.sqrt(query.shape[-1]))
    query = _scaled(query, factor)
    if gqa:
        key, value = (repeat_interleave(CALLS, t, query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    if causal:
        mask = _causal(query, [query.shape[-2], key.shape[-2]])
    key = _scaled(redispatch(_aten.transpose.int, key, -2, -1), factor)
    scores = matmul(query, key)
    if mask is not None:
        scores = redispatch(_aten.add.Tensor, scores, mask)
    weights = redispatch(_aten._safe_softmax.default, scores, -1)
    return matmul(weights, value)


@lowers("_embedding_bag")
def embedding_bag(weight: Any, indices: Any, offsets: Any, factors: Any, mode: int, last: bool, padding: int) -> Any:
    if factors is not None and not factors.is_contiguous():
        factors = CALLS.packed(factors)
    recorded = weight.requires_grad or (factors is not None and factors.requires_grad)
    func = _aten._embedding_bag.default if recorded else _aten._embedding_bag_forward_only.default
    return redispatch(func, weight, indices, offsets, False, mode, False, factors, last, padding)[0]
