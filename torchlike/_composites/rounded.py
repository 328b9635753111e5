"""Overloads of quantized tensors and of quantization that is learned."""

from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike._aten.outs import writing
from torchlike._aten.packets import ops
from torchlike._composites._register import made
from torchlike._composites.elsewhere import faked
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.function_schema import parse_schema
from torchlike.autograd import Function

_aten = ops.aten
_new = FUNCTIONS

for _text in (
    "_make_per_channel_quantized_tensor(Tensor self, Tensor scale, Tensor zero_point, int axis) -> Tensor",
    "_make_per_tensor_quantized_tensor(Tensor self, float scale, int zero_point) -> Tensor",
    "fused_moving_avg_obs_fake_quant(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor(a!) running_min, "
    "Tensor(b!) running_max, Tensor(c!) scale, Tensor(d!) zero_point, float averaging_const, int quant_min, "
    "int quant_max, int ch_axis, bool per_row_fake_quant=False, bool symmetric_quant=False) -> Tensor",
    "quantize_per_tensor_dynamic(Tensor self, ScalarType dtype, bool reduce_range) -> Tensor",
):
    made(_text)(_new[_text[: _text.index("(")]])
made("dequantize.tensor(Tensor qtensor) -> Tensor")(lambda qtensor: qtensor.dequantize())
made("dequantize.tensors(Tensor[] tensors) -> Tensor[]")(lambda tensors: [q.dequantize() for q in tensors])
made("dequantize.list(Tensor[] qtensors) -> Tensor[]")(lambda qtensors: [q.dequantize() for q in qtensors])
made("quantize_per_tensor.tensors(Tensor[] tensors, Tensor scales, Tensor zero_points, ScalarType dtype) -> Tensor[]")(
    lambda tensors, scales, zero_points, dtype: [
        _new["quantize_per_tensor"](x, float(s), int(z), dtype)
        for x, s, z in zip(tensors, scales, zero_points, strict=True)
    ]
)


@made("_choose_qparams_per_tensor(Tensor self, bool reduce_range=False) -> (float, int)")
def _parameters(self: Tensor, reduce_range: bool = False) -> tuple[float, int]:
    q = _new["quantize_per_tensor_dynamic"](self, dtypes.quint8, reduce_range)
    return q.q_scale(), q.q_zero_point()


def _with_output(text: str, method: str) -> None:
    """The overload ``text`` that writes what the method of a quantized tensor gives."""
    name = text[: text.index(".")]
    outs = tuple([a.name for a in parse_schema(f"aten::{text}").arguments if a.is_out])
    made(text)(writing(name, lambda self: getattr(self, method)(), outs, False, False))


for _text, _method in (("dequantize.self_out", "dequantize"), ("int_repr.out", "int_repr"),
                       ("q_per_channel_scales.out", "q_per_channel_scales"),
                       ("q_per_channel_zero_points.out", "q_per_channel_zero_points")):  # fmt: skip
    _with_output(f"{_text}(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", _method)

# -- scales and zero points that are learned ----------------------------------------------------------------


def _along(x: Tensor, like: Tensor, axis: int | None) -> Tensor:
    """One number, or those of an axis, that broadcast to ``like``."""
    return x.reshape([-1 if i == axis else 1 for i in range(like.ndim)] if axis is not None else [])


def _levels(x: Tensor, scale: Tensor, zero: Tensor, axis: int | None, low: int, high: int) -> tuple[Tensor, ...]:
    """Scale, zero point and level of each element, the latter before it is cut off."""
    scale = _along(scale, x, axis)
    zero = _along(zero.round().clamp(low, high), x, axis)
    return scale, zero, (x * (1 / scale)).round() + zero


def _backward(
    grad: Tensor, self: Tensor, scale: Tensor, zero: Tensor, axis: int | None, low: int, high: int, factor: float
) -> tuple[Tensor, Tensor, Tensor]:
    if axis is None:  # PyTorch's backward of one number rounds ties of it up, its forward to even
        zero_point = (zero + 0.5).floor()
    else:
        zero_point = zero
    step, at, _ = _levels(self, scale, zero_point, axis, low, high)
    level = (self * (1 / step) + at).round()  # PyTorch rounds ties of levels here, not of what is added to the zero
    inside = (level >= low) & (level <= high)
    slope = _new["where"](inside, level - at - self / step, level.clamp(low, high) - at)
    drift = _new["where"](inside, 0.0, -step)
    dims = [d for d in range(self.ndim) if d != axis]
    of_scale, of_zero = ((grad * x * factor).sum(dims) if dims else grad * x * factor for x in (slope, drift))
    return grad * inside, of_scale.reshape(scale.shape), of_zero.reshape(zero.shape)


class _Learned(Function):
    """Fake quantization whose scale and zero point have gradients."""

    @staticmethod
    def forward(
        ctx: Any, self: Tensor, scale: Tensor, zero: Tensor, axis: int | None, low: int, high: int, factor: float
    ) -> Tensor:
        ctx.save_for_backward(self, scale, zero)
        ctx.rest = axis, low, high, factor
        step, at, level = _levels(self, scale, zero, axis, low, high)
        return (level.clamp(low, high) - at) * step

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *_backward(grads[0], *ctx.saved_tensors, *ctx.rest), None, None, None, None


_LEARNED = "Tensor self, Tensor scale, Tensor zero_point{axis}, int quant_min, int quant_max, float grad_factor=1."
for _kind, _axis in (("tensor", ""), ("channel", ", int axis")):
    _name, _arguments = f"_fake_quantize_learnable_per_{_kind}_affine", _LEARNED.format(axis=_axis)

    def _learned(self: Tensor, scale: Tensor, zero: Tensor, *rest: Any, _free: bool = not _axis) -> Tensor:
        axis, low, high, *factor = (None, *rest) if _free else rest
        return _Learned.apply(self, scale, zero, axis, low, high, factor[0] if factor else 1.0)

    def _of_learned(
        grad: Tensor, self: Tensor, scale: Tensor, zero: Tensor, *rest: Any, _free: bool = not _axis
    ) -> Any:
        axis, low, high, *factor = (None, *rest) if _free else rest
        return _backward(grad, self, scale, zero, axis, low, high, factor[0] if factor else 1.0)

    made(f"{_name}({_arguments}) -> Tensor", out=True)(_learned)
    made(f"{_name}_backward(Tensor grad, {_arguments}) -> (Tensor, Tensor, Tensor)")(_of_learned)


@made("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
      "Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)", out=True)  # fmt: skip
def _masked(
    self: Tensor, scale: Tensor, zero_point: Tensor, fake_quant_enabled: Tensor, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    if not fake_quant_enabled.item():
        return self.clone(), _new["ones_like"](self, dtype=dtypes.bool)
    return faked(self, scale, zero_point, quant_min, quant_max)
