"""torch.ao.quantization.fake_quantize: modules that round as quantization will, with gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torchlike._base.dtypes as dtypes
import torchlike._base.qschemes as qschemes
from torchlike.ao._torch import torch
from torchlike.ao.quantization._ranges import range_of
from torchlike.ao.quantization.observer import (
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    _with_args,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from torchlike.ao.quantization.observer.running import _CHANNEL, _SYMMETRIC
from torchlike.interop.refusing import refusing
from torchlike.nn import Module

__getattr__ = refusing(__name__, "this fake quantizer is not supported; FakeQuantize is")


class FakeQuantizeBase(ABC, Module):
    """What every fake quantizer is: a module with two switches, kept in buffers."""

    activation_post_process_is_fake = True
    fake_quant_enabled: Any
    observer_enabled: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.uint8))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.uint8))

    @abstractmethod
    def forward(self, x: Any) -> Any:
        """``x``, rounded."""

    @abstractmethod
    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Scale and zero point."""

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Round from now on, or do not."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        """Do not round."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Observe from now on, or do not."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        """Do not observe."""
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **kwargs: Any) -> Any:
        """A constructor with these arguments given."""
        return _with_args(cls, **kwargs)


class FakeQuantize(FakeQuantizeBase):
    """Observes its input, and rounds it to what the integers of the observer's dtype stand for.

    >>> import torchlike as torch
    >>> module = torch.ao.quantization.FakeQuantize()
    >>> module(torch.tensor([-1.0, 0.0, 1.3, 4.1]))
    tensor([-1.0000,  0.0000,  1.3000,  4.1000])
    """

    scale: Any
    zero_point: Any

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: Any = None, quant_max: Any = None,
        is_dynamic: bool = False, **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if quant_min is not None and quant_max is not None:
            _demand_range(quant_min, quant_max, observer_kwargs.get("dtype", dtypes.quint8), observer)
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        self.activation_post_process = observer(**observer_kwargs)
        watches = self.activation_post_process
        self.quant_min, self.quant_max = watches.quant_min, watches.quant_max
        self.is_dynamic = watches.is_dynamic
        kind = torch.float if watches.qscheme is qschemes.per_channel_affine_float_qparams else torch.int
        self.register_buffer("scale", torch.tensor([1.0], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([0], dtype=kind))
        self.dtype, self.qscheme = watches.dtype, watches.qscheme
        self.ch_axis = getattr(watches, "ch_axis", -1)
        self.is_per_channel = self.qscheme in _CHANNEL

    def calculate_qparams(self) -> Any:  # type: ignore[override]
        """Those of the observer."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Any) -> Any:
        """``X``, rounded."""
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self.calculate_qparams()
            if self.scale.shape != scale.shape:
                self.scale.resize_(scale.shape)
                self.zero_point.resize_(zero_point.shape)
            self.scale.copy_(scale)
            self.zero_point.copy_(zero_point)
        if self.fake_quant_enabled[0] != 1:
            return X
        limits = self.activation_post_process.quant_min, self.activation_post_process.quant_max
        if self.is_per_channel:
            return torch.fake_quantize_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis, *limits)
        return torch.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, *limits)

    def extra_repr(self) -> str:
        watches = self.activation_post_process
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"quant_min={watches.quant_min}, quant_max={watches.quant_max}, dtype={self.dtype}, "
            f"qscheme={self.qscheme}, ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for name in ("scale", "zero_point"):  # which may have one element for each channel there
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
        super()._load_from_state_dict(state_dict, prefix, *args)


def _demand_range(quant_min: int, quant_max: int, dtype: Any, observer: Any) -> None:
    if quant_min > quant_max:
        raise AssertionError(f"quant_min must be less than or equal to quant_max: {quant_min} and {quant_max}")
    dtype = getattr(getattr(observer, "p", observer), "keywords", {}).get("dtype", dtype)
    least, most = range_of(dtype, False)
    if quant_min < least:
        raise AssertionError(f"quant_min out of bound: {dtype} has integers from {least} on, not {quant_min}")
    if quant_max > most:
        raise AssertionError(f"quant_max out of bound: {dtype} has integers up to {most}, not {quant_max}")


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds with a scale and a zero point that are given."""

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        self.scale, self.zero_point = self.activation_post_process.scale, self.activation_post_process.zero_point

    def calculate_qparams(self) -> Any:  # type: ignore[override]
        """Those that were given."""
        return self.scale, self.zero_point

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}, "
            f"quant_min={self.activation_post_process.quant_min}, quant_max={self.activation_post_process.quant_max}, "
            f"qscheme={self.qscheme}"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """As :class:`FakeQuantize` over moving averages, by :func:`torch.fused_moving_avg_obs_fake_quant`."""

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int = 0, quant_max: int = 255,
        **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        if not isinstance(
            self.activation_post_process, MovingAverageMinMaxObserver | MovingAveragePerChannelMinMaxObserver
        ):
            raise AssertionError(
                "Fused observer+fake_quant module only works with MovingAverageMinMaxObserver or "
                "MovingAveragePerChannelMinMaxObserver"
            )
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.long))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.long))
        self.is_symmetric_quant = self.activation_post_process.qscheme in _SYMMETRIC

    def extra_repr(self) -> str:
        watches = self.activation_post_process
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}, quant_min={watches.quant_min}, "
            f"quant_max={watches.quant_max}, qscheme={self.qscheme}, reduce_range={watches.reduce_range}"
        )

    def forward(self, X: Any) -> Any:
        """``X``, rounded."""
        watches = self.activation_post_process
        return torch.fused_moving_avg_obs_fake_quant(
            X, self.observer_enabled, self.fake_quant_enabled, watches.min_val, watches.max_val, self.scale,
            self.zero_point, watches.averaging_constant, watches.quant_min, watches.quant_max, self.ch_axis,
            self.is_per_channel, self.is_symmetric_quant,
        )  # fmt: skip


# -- switches of all fake quantizers in a module: to be given to Module.apply -----------------------------


def disable_fake_quant(mod: Any) -> None:
    """``mod.disable_fake_quant()``, if it has that: ``model.apply(disable_fake_quant)``."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_fake_quant()


def enable_fake_quant(mod: Any) -> None:
    """``mod.enable_fake_quant()``, if it has that."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_fake_quant()


def disable_observer(mod: Any) -> None:
    """``mod.disable_observer()``, if it has that."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_observer()


def enable_observer(mod: Any) -> None:
    """``mod.enable_observer()``, if it has that."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_observer()


_Q8: dict[str, Any] = {"quant_min": 0, "quant_max": 255, "dtype": dtypes.quint8}
_W8: dict[str, Any] = {"quant_min": -128, "quant_max": 127, "dtype": dtypes.qint8}
_W127: dict[str, Any] = {"quant_min": -127, "quant_max": 127, "dtype": dtypes.qint8}
_MOVING, _MOVING_CHANNELS = MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver
_FLOATS = qschemes.per_channel_affine_float_qparams

default_fake_quant = FakeQuantize.with_args(
    observer=_MOVING, **_Q8, qscheme=qschemes.per_tensor_affine, reduce_range=True
)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=_MOVING, **_W8, qscheme=qschemes.per_tensor_symmetric, reduce_range=False
)
default_dynamic_fake_quant = FakeQuantize.with_args(
    observer=_MOVING, quant_min=0, quant_max=255, is_dynamic=True, dtype=dtypes.quint8, averaging_constant=1
)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=_MOVING_CHANNELS, **_W8, qscheme=qschemes.per_channel_symmetric, reduce_range=False, ch_axis=0
)
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=_MOVING_CHANNELS, qscheme=_FLOATS, dtype=dtypes.quint8, quant_min=0, quant_max=255, ch_axis=0,
    averaging_constant=1,
)  # fmt: skip
default_embedding_fake_quant_4bit = FakeQuantize.with_args(
    observer=_MOVING_CHANNELS, qscheme=_FLOATS, ch_axis=0, dtype=dtypes.quint4x2, averaging_constant=1
)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, **_Q8, qscheme=qschemes.per_tensor_affine, reduce_range=True
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(observer=_MOVING, **_Q8)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_MOVING, **_W8, qscheme=qschemes.per_tensor_symmetric
)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_MOVING_CHANNELS, **_W8, qscheme=qschemes.per_channel_symmetric
)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_MOVING, **_W127, qscheme=qschemes.per_tensor_symmetric, eps=2**-12
)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=_MOVING_CHANNELS, **_W127, qscheme=qschemes.per_channel_symmetric, eps=2**-12
)
