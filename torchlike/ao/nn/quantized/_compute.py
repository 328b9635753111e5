"""What quantized layers compute: exact sums of products of integers, scaled and rounded as PyTorch's kernels do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike._base.state import no_grad
from torchlike._core.quantized import kernels
from torchlike._core.quantized.quantize import parameters
from torchlike._core.quantized.value import KINDS, Affine, PerChannel, Quantized, quantized_of, range_of, tensor_of
from torchlike.ao._torch import F, torch

_EXACT = 2**24  # integers that float32 holds


def demand_quantized(name: str, x: Any) -> Quantized:
    """The value of the input of a quantized layer."""
    v = quantized_of(x)
    if v is None or not isinstance(v.quantizer, Affine) or v.dtype not in (dtypes.quint8, dtypes.qint8):
        kind = x.dtype if isinstance(x, torch.Tensor) else type(x).__name__
        raise NotImplementedError(
            f"{name}: expected an input quantized by torch.quantize_per_tensor to torch.quint8, but got {kind}: put a "
            "QuantStub before it"
        )
    return v


def _wide(weight: Quantized, count: int) -> Any:
    """The float dtype in which sums of ``count`` products are exact."""
    return torch.float32 if count * 256 * 256 < _EXACT else torch.float64


def _integers(v: Quantized, kind: Any, shape: Any = None) -> Any:
    """The integers less the zero point, as floats; ``shape``: along which zero points of channels lie."""
    q = v.quantizer
    zero = q.zero_point if isinstance(q, Affine) else q.zero_point.reshape(shape).to(kind)
    return v.codes.to(kind) - zero


def _steps(x: Affine, weight: Quantized) -> Any:
    """What 1 of a sum of products stands for: one number, or one for each output."""
    q = weight.quantizer
    scales = torch.tensor([q.scale]) if isinstance(q, Affine) else q.scale.float()
    return torch.tensor(x.scale) * scales


def sums(layer: Callable[[Any, Any], Any], x: Quantized, weight: Quantized, count: int = 0) -> Any:
    """``layer`` of the integers of an input and of weights, exactly; ``count`` products each, those of weights[0]."""
    kind = _wide(weight, count or weight.codes[0].numel())
    shape = [-1 if d == weight.quantizer.axis else 1 for d in range(weight.ndim)]
    return layer(_integers(x, kind), _integers(weight, kind, shape))


def layer_of(
    layer: Callable[[Any, Any], Any], x: Any, weight: Any, bias: Any, scale: Any, zero_point: Any, relu: bool,
    name: str, spatial: int = 0, count: int = 0,
) -> Any:  # fmt: skip
    """A linear layer or convolution over quantized tensors, quantized anew.

    ``spatial``: how many dimensions stand behind that of the outputs; ``count`` as in :func:`sums`.
    """
    v, w = demand_quantized(name, x), quantized_of(weight)
    assert w is not None and isinstance(v.quantizer, Affine)
    with no_grad():
        total = sums(layer, v, w, count)
        step = _along(_steps(v.quantizer, w), spatial)
        extra = torch.zeros(1) if bias is None else bias.detach().float()
        scale, zero_point = float(scale), int(zero_point)
        least = zero_point if relu else range_of(v.dtype)[0]
        codes = kernels.requantized(
            total, _along(extra, spatial), step, torch.tensor(scale), torch.tensor(zero_point), torch.tensor(least),
            torch.zeros((), dtype=KINDS[v.dtype]),
        )  # fmt: skip
        return tensor_of(codes, Affine(scale, zero_point))


def _along(numbers: Any, spatial: int) -> Any:
    return numbers.reshape(-1, *[1] * spatial)


def linear(x: Any, weight: Any, bias: Any, scale: Any, zero_point: Any, relu: bool = False) -> Any:
    """``torch.ops.quantized.linear``."""
    return layer_of(F.linear, x, weight, bias, scale, zero_point, relu, "quantized.linear")


def dynamic_parameters(x: Any, reduce_range: bool = True) -> Affine:
    """Scale and zero point of a whole tensor, as it is."""
    low, high = (x.min().item(), x.max().item()) if x.numel() else (0.0, 0.0)
    return parameters(low, high, 0, 255, reduce_range)


def dynamic_linear(x: Any, weight: Any, bias: Any, relu: bool = False, reduce_range: bool = True) -> Any:
    """A linear layer of floats whose input is quantized by its own range; the result is of floats."""
    w = quantized_of(weight)
    with no_grad():
        x = x.detach()
        if w is None:  # weights of float16
            out = F.linear(x, weight.float(), bias)
            return out.relu() if relu else out
        found = dynamic_parameters(x, reduce_range)
        v = quantized_of(torch.quantize_per_tensor(x, found.scale, found.zero_point, torch.quint8))
        assert v is not None and isinstance(v.quantizer, Affine)
        extra = torch.zeros(1) if bias is None else bias.detach().float()
        out = kernels.scaled_sums(sums(F.linear, v, w), extra, _steps(v.quantizer, w))
        return out.relu() if relu else out


def quantized_weight(weight: Any, observer: Any) -> Any:
    """Weights as int8, with the scales that an observer has chosen."""
    scale, zero_point = observer.calculate_qparams()
    weight = weight.detach().float()
    if observer.qscheme in (torch.per_tensor_symmetric, torch.per_tensor_affine):
        return torch.quantize_per_tensor(weight, float(scale), int(zero_point), torch.qint8)
    if observer.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine):
        return torch.quantize_per_channel(
            weight, scale.to(torch.double), zero_point.to(torch.int64), observer.ch_axis, torch.qint8
        )
    raise ValueError(f"Unexpected qscheme {observer.qscheme}: weights are quantized per tensor or per channel")


def uniform(q: Any) -> bool:
    """Whether a quantizer has one scale for all channels."""
    return not isinstance(q, PerChannel)
