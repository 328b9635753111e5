"""An observer that keeps a histogram, and chooses the range that loses least."""

from __future__ import annotations

from typing import Any

import numpy as np

import torchlike._base.dtypes as dtypes
import torchlike._base.qschemes as qschemes
from torchlike.ao._torch import torch
from torchlike.ao.quantization.observer.running import (
    _EPS,
    _TENSOR,
    UniformQuantizationObserverBase,
    _demand_scheme,
    _given,
)

_STEP = 1e-5  # what part of the numbers may be left out at an end, from one try to the next


class HistogramObserver(UniformQuantizationObserverBase):
    """Keeps a histogram of ``bins`` bins; ``calculate_qparams`` leaves out ends while the squared error falls.

    >>> import torchlike as torch
    >>> observer = torch.ao.quantization.HistogramObserver()
    >>> _ = observer(torch.arange(100.0))
    >>> observer.calculate_qparams()[1]
    tensor([0], dtype=torch.int32)
    """

    histogram: Any
    min_val: Any
    max_val: Any

    def __init__(
        self, bins: int = 2048, dtype: Any = dtypes.quint8, qscheme: Any = qschemes.per_tensor_affine,
        reduce_range: bool = False, quant_min: Any = None, quant_max: Any = None, factory_kwargs: Any = None,
        eps: float = _EPS, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        _demand_scheme(self, _TENSOR)
        given = _given(factory_kwargs)
        self.bins = bins
        self.register_buffer("histogram", torch.zeros(bins, **given))
        self.register_buffer("min_val", torch.tensor(float("inf"), **given))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **given))
        self.dst_nbins = 2 ** (8 * dtype.itemsize)
        self.upsample_rate = 16

    def reset_histogram(self, x: Any, min_val: Any, max_val: Any) -> None:
        """Let the histogram be that of ``x`` alone."""
        self.min_val.resize_(min_val.shape)
        self.max_val.resize_(max_val.shape)
        self.min_val.copy_(min_val)
        self.max_val.copy_(max_val)
        self.histogram.copy_(torch.histc(x, self.bins, min=min_val.item(), max=max_val.item()))

    def forward(self, x_orig: Any) -> Any:
        """``x_orig``, which is counted."""
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype)
        low, high = torch.aminmax(x)
        if not (low.isfinite() and high.isfinite()):
            finite = x[x.isfinite()]
            if not finite.numel():
                return x_orig
            low, high = torch.aminmax(finite)
        if self.min_val == float("inf") or self.max_val == float("-inf"):
            self.reset_histogram(x, low, high)
            return x_orig
        least, most = torch.min(self.min_val, low), torch.max(self.max_val, high)
        new = torch.histc(x, self.bins, min=least.item(), max=most.item())
        total = self._combined(new, least, most)
        self.histogram.copy_(total)
        self.min_val.copy_(least)
        self.max_val.copy_(most)
        return x_orig

    def _combined(self, new: Any, least: Any, most: Any) -> Any:
        """The histogram so far and a new one of the range ``least`` to ``most``."""
        if least == self.min_val and most == self.max_val:
            return self.histogram + new
        if self.min_val == self.max_val:
            one = torch.histc(self.min_val, bins=self.bins, min=least.item(), max=most.item())
            return one * self.histogram.sum() + new
        return new + self._spread(least, most)

    def _spread(self, least: Any, most: Any) -> Any:
        """The histogram so far over a wider range: each bin is cut in pieces, which go where their middles are."""
        pieces = self.bins * self.upsample_rate
        heights = (self.histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate).cpu()
        width = (self.max_val - self.min_val) / pieces
        middles = torch.linspace(self.min_val.item(), self.max_val.item(), pieces + 1)[:-1] + 0.5 * width.cpu()
        edges = torch.linspace(least.item(), most.item(), self.bins + 1)
        place = (torch.bucketize(middles, edges, right=True) - 1).clamp(0, self.bins - 1)
        return torch.bincount(place, weights=heights, minlength=self.bins).to(self.histogram.device)

    def calculate_qparams(self) -> Any:  # type: ignore[override]
        """Scale and zero point of the range that loses least."""
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            return self._calculate_qparams(self.min_val, self.max_val)
        if self.bins != len(self.histogram):
            raise AssertionError(f"the histogram has {len(self.histogram)} bins, but the observer {self.bins}")
        return self._calculate_qparams(*self._non_linear_param_search())

    def _non_linear_param_search(self) -> tuple[Any, Any]:
        heights = self.histogram.cpu().numpy()
        low, high = np.float32(self.min_val.item()), np.float32(self.max_val.item())
        width = np.float32((high - low) / np.float32(self.bins))
        first, last = _searched(heights, width, self.dst_nbins)
        device = self.min_val.device
        new_low = torch.tensor(float(low + width * np.float32(first)), device=device)
        return new_low, torch.tensor(float(low + width * np.float32(last + 1)), device=device)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for name in ("min_val", "max_val"):
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
        super()._load_from_state_dict(state_dict, prefix, *args)


def _searched(heights: np.ndarray, width: np.float32, steps: int) -> tuple[int, int]:
    """The first and the last bin to keep: ends are left out, the longer one first, until the error grows."""
    total, counts = float(heights.sum(dtype=np.float32)), np.cumsum(heights, dtype=np.float32)
    left, right, first, last = 0.0, 1.0, 0, len(heights) - 1
    best = np.inf
    while left < right:
        next_left, next_right = left + _STEP, right - _STEP
        i, j = _pushed(counts, first, last, next_left * total, next_right * total)
        kept = first, last
        if i - first > last - j:
            left, kept = next_left, (i, last)
        else:
            right, kept = next_right, (first, j)
        if kept == (first, last):
            continue
        error = _error(heights, width, steps, *kept)
        if error > best:
            break
        best = error
        first, last = kept
    return first, last


def _pushed(counts: np.ndarray, first: int, last: int, below: float, above: float) -> tuple[int, int]:
    """The bins to which both ends go so that at most such parts of the numbers lie outside."""
    i, j = first, last
    while i < last and counts[i] < below:
        i += 1
    while j > first and counts[j] > above:
        j -= 1
    return i, j


def _cubes(heights: np.ndarray, start: Any, end: Any) -> np.ndarray:
    """The squared distances from 0 between two places, each counted by a density."""
    return heights * (end * end * end - start * start * start) / np.float32(3)


def _error(heights: np.ndarray, width: np.float32, steps: int, first: int, last: int) -> float:
    """What is lost where the bins from ``first`` to ``last`` are rounded to ``steps`` values."""
    f = np.float32
    step = f(width * f(last - first + 1) / f(steps))
    if step == 0:
        return 0.0
    begin = (np.arange(len(heights), dtype=f) - f(first)) * width
    end = begin + width
    at_begin = np.clip(np.floor(begin / step), 0, steps - 1).astype(f)
    at_end = np.clip(np.floor(end / step), 0, steps - 1).astype(f)
    density, half = heights / width, f(step / f(2))
    lost = _cubes(density, begin - (at_begin + f(0.5)) * step, np.full_like(begin, half))
    lost = lost + (at_end - at_begin - f(1)) * _cubes(density, -half, half)
    lost = lost + _cubes(density, np.full_like(begin, -half), end - (at_end * step + half))
    return float(lost.sum(dtype=f))


default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
