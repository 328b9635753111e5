"""What operators do with quantized tensors: computed on the integers, or on the numbers and rounded again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torchlike._base.dtypes as dtypes
from torchlike._base.state import no_grad, state
from torchlike._core.dispatch.dispatch import NEW
from torchlike._core.quantized.quantize import again, dequantized, from_passing, in_order, in_passing, quantized
from torchlike._core.quantized.value import Affine, PerChannel, Quantized, quantized_of, tensor_of, unsupported
from torchlike._core.sparse.rules import OTHERS
from torchlike._core.tensor.mutation import bump
from torchlike._core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from torchlike._core.dispatch.layers import Call

RULES: dict[str, Callable[[Call], Any]] = {}


def rule(*names: str) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    """Register ``f(call)`` as what operators of these names, or forms of view, do."""

    def register(f: Callable[[Call], Any]) -> Callable[[Call], Any]:
        RULES.update(dict.fromkeys(names, f))
        return f

    return register


def _first(call: Call) -> tuple[Tensor, Quantized]:
    for t in call.inputs:
        if (v := quantized_of(t)) is not None:
            return t, v
    raise unsupported(call.op.name)


def _computed(call: Call, change: Callable[[Quantized], Tensor]) -> Any:
    """The results of the call with other tensors in the place of the quantized ones."""
    inputs = []
    for t in call.inputs:
        v = quantized_of(t)
        inputs.append(t if v is None else change(v))
    form = NEW if call.form.name == "inplace" else call.form
    op = call.op.op if form is not call.form else call.op
    return form.run(op, tuple(inputs), call.static)


def _numbers(v: Quantized) -> Tensor:
    return dequantized(tensor_of(v.codes, v.quantizer))


def _uniform(call: Call, v: Quantized) -> Affine:
    if not isinstance(v.quantizer, Affine):
        raise unsupported(f"{call.op.name} of channels with scales of their own: {call.op.name}")
    return v.quantizer


# -- on the integers -------------------------------------------------------------------------------------


@rule(
    "index_select", "index.Tensor", "_index_mask", "_index_true", "repeat", "flip", "max_pool1d_with_indices",
    "max_pool2d_with_indices", "max_pool3d_with_indices", "sort", "sort.stable", "topk", "max", "min", "max.dim",
    "min.dim",
)  # fmt: skip
def _on_codes(call: Call) -> Any:
    """What picks elements: the integers are in the order of the numbers."""
    _, v = _first(call)
    quantizer = _uniform(call, v)
    if quantizer.scale < 0:
        raise unsupported(f"{call.op.name} with a negative scale: {call.op.name}")
    return _each(_computed(call, lambda v: v.codes), v.codes.dtype, quantizer)


def _each(out: Any, kind: dtypes.dtype, quantizer: Affine) -> Any:
    """The tensors of integers among the results, quantized; indices stay."""
    if isinstance(out, Tensor):
        return tensor_of(out, quantizer) if out.dtype is kind else out
    parts = [_each(t, kind, quantizer) for t in out]
    return type(out)(parts)


@rule("view", "views")
def _view(call: Call) -> Any:
    """A view of the same integers."""
    _, v = _first(call)
    if isinstance(v.quantizer, PerChannel):
        return _view_of_channels(call, v, v.quantizer)
    return _each(_computed(call, lambda v: v.codes), v.codes.dtype, v.quantizer)


def _view_of_channels(call: Call, v: Quantized, q: PerChannel) -> Any:
    """A view of a tensor whose channels have scales of their own, where each element keeps its scale."""
    name, out = call.op.declaration.name, _computed(call, lambda v: v.codes)
    if name in ("select", "slice", "narrow") and call.static[0] % v.ndim == q.axis:
        chosen = call.form.run(call.op, (q.scale,), (0, *call.static[1:]))
        zeros = call.form.run(call.op, (q.zero_point,), (0, *call.static[1:]))
        if chosen.numel() == 1:
            return tensor_of(out, Affine(float(chosen), int(zeros)))
        return tensor_of(out, PerChannel(chosen, zeros, q.scheme, q.axis))
    if name in ("select", "slice", "narrow"):
        lost = name == "select" and call.static[0] % v.ndim < q.axis
        return tensor_of(out, q._replace(axis=q.axis - lost))
    if name == "unsqueeze":
        at = call.static[0] % (v.ndim + 1)
        return tensor_of(out, q._replace(axis=q.axis + (at <= q.axis)))
    if name in ("view", "_reshape_alias", "alias") and tuple(out.shape) == tuple(v.shape):
        return tensor_of(out, q)
    raise RuntimeError(
        f"{call.op.name}(): Setting strides is possible only on uniformly quantized tensor: each channel has a scale "
        "of its own; use .dequantize() first"
    )


@rule("clone")
def _clone(call: Call) -> Tensor:
    _, v = _first(call)
    return tensor_of(_computed(call, lambda v: v.codes), v.quantizer)


def copied(t: Tensor) -> Tensor:
    """The same over a copy of the integers."""
    v = quantized_of(t)
    assert v is not None
    return tensor_of(v.codes.clone(), v.quantizer)


def moved(t: Tensor, device: Any) -> Tensor:
    """The tensor on another device."""
    v = quantized_of(t)
    assert v is not None
    q = v.quantizer
    if isinstance(q, PerChannel):
        q = q._replace(scale=q.scale.to(device), zero_point=q.zero_point.to(device))
    return tensor_of(v.codes.to(device), q)


# -- on the numbers --------------------------------------------------------------------------------------


@rule(
    "relu", "relu6", "hardtanh", "threshold", "clamp", "clamp_min", "clamp_max", "std", "std.dim", "std.correction",
    "masked_fill.Scalar", "fill.Scalar", "constant_pad_nd",
)  # fmt: skip
def _rounded(call: Call) -> Tensor:
    """A function of the numbers, quantized as they are."""
    t, v = _first(call)
    _uniform(call, v)
    return again(_computed(call, _numbers), t, call.op.name)


@rule("leaky_relu", "gelu")
def _passed(call: Call) -> Tensor:
    """A function of the numbers that is rounded at once."""
    _, v = _first(call)
    out = _computed(call, lambda v: in_passing(tensor_of(v.codes, v.quantizer)))
    return from_passing(out, _uniform(call, v), v.dtype)


@rule(
    "mean", "mean.dim", "avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool1d", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d", "_upsample_nearest1d", "_upsample_nearest2d", "_upsample_nearest3d",
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "_upsample_bilinear2d",
)  # fmt: skip
def _averaged(call: Call) -> Tensor:
    """Averages of the integers, rounded to integers."""
    _, v = _first(call)
    quantizer = _uniform(call, v)
    out = _computed(call, lambda v: v.codes.float() - quantizer.zero_point)
    made = quantized_of(quantized(out, Affine(1.0, quantizer.zero_point), v.dtype))
    assert made is not None
    return tensor_of(made.codes, quantizer)


@rule("cat", "stack")
def _joined(call: Call) -> Tensor:
    """Tensors beside one another, quantized as the first."""
    found = [quantized_of(t) for t in call.inputs]
    if any(v is None or v.dtype is not found[0].dtype for v in found):  # type: ignore[union-attr]
        raise RuntimeError(f"{call.op.name}(): All dtypes must be the same, and all tensors quantized")
    first, v = _first(call)
    quantizer = _uniform(call, v)
    for other in found:
        assert other is not None
        _uniform(call, other)
    if all(other is not None and other.quantizer == quantizer for other in found):
        return tensor_of(_computed(call, lambda v: v.codes), quantizer)
    return again(_computed(call, _numbers), first, call.op.name)


@rule("sigmoid", "hardsigmoid")
def _between_0_and_1(call: Call) -> Tensor:
    t, v = _first(call)
    _uniform(call, v)
    return quantized(_computed(call, _numbers), Affine(1 / _STEPS[v.dtype], _LEAST[v.dtype]), v.dtype)


@rule("tanh")
def _between_minus_1_and_1(call: Call) -> Tensor:
    t, v = _first(call)
    _uniform(call, v)
    return quantized(_computed(call, _numbers), Affine(2 / _STEPS[v.dtype], _MIDDLE[v.dtype]), v.dtype)


# Of a range of length 1: how many steps it has, and which integers PyTorch takes for its start and its middle.
_STEPS = {dtypes.quint8: 2**8, dtypes.qint8: 2**8, dtypes.qint32: 2**32}
_LEAST = {dtypes.quint8: 0, dtypes.qint8: -128, dtypes.qint32: 0}
_MIDDLE = {dtypes.quint8: 128, dtypes.qint8: 0, dtypes.qint32: 0}


@rule("eq.Tensor", "ne.Tensor", "lt.Tensor", "le.Tensor", "gt.Tensor", "ge.Tensor")
def _compared(call: Call) -> Tensor:
    """Comparisons of the numbers."""
    return _computed(call, _numbers)


@rule("equal")
def _equal(call: Call) -> Any:
    """Whether two tensors are quantized alike and have the same integers."""
    a, b = (quantized_of(t) for t in call.inputs)
    if a is None or b is None:
        raise unsupported("equal between a quantized tensor and another one: equal")
    return equal(a, b)


def equal(a: Quantized, b: Quantized) -> bool:
    """Whether two values have the same dtype, quantizer, shape and integers."""
    if a.dtype is not b.dtype or a.shape != b.shape or not _same(a.quantizer, b.quantizer):
        return False
    return bool((a.codes == b.codes).all())


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Affine) or isinstance(b, Affine):
        return bool(a.scheme is b.scheme and a[:2] == b[:2])
    return bool(
        (a.scheme, a.axis) == (b.scheme, b.axis)
        and a.scale.tolist() == b.scale.tolist()
        and a.zero_point.tolist() == b.zero_point.tolist()
    )


# -- calls -----------------------------------------------------------------------------------------------


def _found(call: Call) -> Callable[[Call], Any] | None:
    declared = call.op.declaration
    return RULES.get(str(declared.full_name)) or RULES.get(call.form.name)


def _handle(call: Call) -> Any:
    """The result of a call some of whose tensors are quantized."""
    if state.capture is not None:
        state.capture.refuse(f"calls {call.op.name}() with quantized tensors")
    name = call.op.declaration.name
    if call.form.name == "inplace":
        return _in_place(call, name)
    f = _found(call)
    if f is None or call.form.name not in ("new", "view", "views") or state.levels:
        raise unsupported(call.op.name)
    with no_grad():
        return f(call)


def _in_place(call: Call, name: str) -> Tensor:
    """The first tensor, whose integers become those of the result."""
    target, v = call.inputs[0], quantized_of(call.inputs[0])
    if v is None or not isinstance(v.quantizer, Affine) or state.levels:
        raise unsupported(call.op.name)
    with no_grad():
        if name == "copy":
            new = _copied_into(v, call.inputs[1])
        else:
            f = RULES.get(str(call.op.declaration.full_name))
            if f not in (_rounded, _passed):
                raise unsupported(call.op.name)
            made = quantized_of(f(call))
            assert made is not None
            new = made.codes
        v.codes.copy_(new)
        bump(target)
    return target


def _copied_into(v: Quantized, source: Any) -> Tensor:
    """The integers of what is copied into a quantized tensor: numbers are quantized as it is."""
    own = quantized_of(source)
    if own is None:
        if not isinstance(source, Tensor) or source.dtype is not dtypes.float32:
            raise RuntimeError(f"copy_(): quantized copies only work with a torch.float32 source, got {source.dtype}")
        made = quantized_of(quantized(in_order(source).expand(tuple(v.shape)), v.quantizer, v.dtype))
        assert made is not None
        return made.codes
    if own.dtype is not v.dtype:
        raise RuntimeError(f"copy_(): expected a source of {v.dtype}, got {own.dtype}")
    if not _same(own.quantizer, v.quantizer):
        raise unsupported("copy_ between tensors with other scales: copy_")
    return own.codes


OTHERS[Quantized] = _handle
