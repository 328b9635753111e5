"""Modules that watch the least and the greatest of tensors and choose the integers to stand for them."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import OrderedDict
from functools import partial
from typing import Any

import torchlike._base.dtypes as dtypes
import torchlike._base.qschemes as qschemes
from torchlike.ao._torch import torch
from torchlike.ao.quantization._ranges import checked_range, demand_dtype, range_of
from torchlike.nn import Module

_EPS = float(2.0**-23)
_TENSOR = (qschemes.per_tensor_affine, qschemes.per_tensor_symmetric)
_CHANNEL = (
    qschemes.per_channel_affine,
    qschemes.per_channel_symmetric,
    qschemes.per_channel_affine_float_qparams,
)
_SYMMETRIC = (qschemes.per_tensor_symmetric, qschemes.per_channel_symmetric)


class _PartialWrapper:
    """A constructor with some arguments given, and some that are computed when it is called."""

    def __init__(self, p: Any) -> None:
        self.p, self.callable_args = p, {}  # type: ignore[var-annotated]

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        computed = {name: value() for name, value in self.callable_args.items() if name not in keywords}
        return self.p(*args, **computed, **keywords)

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs: Any) -> _PartialWrapper:
        """As it is, with more arguments given."""
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs: Any) -> _PartialWrapper:
        """As it is, with more arguments that are computed when it is called."""
        new = _PartialWrapper(self.p)
        new.callable_args = {**self.callable_args, **kwargs}
        return new


def _with_args(cls_or_self: Any, **kwargs: Any) -> _PartialWrapper:
    new = _PartialWrapper(partial(cls_or_self, **kwargs))
    if isinstance(cls_or_self, _PartialWrapper):
        new = _PartialWrapper(partial(cls_or_self.p, **kwargs))
        new.callable_args = dict(cls_or_self.callable_args)
    return new


def _with_callable_args(cls_or_self: Any, **kwargs: Any) -> _PartialWrapper:
    return _PartialWrapper(partial(cls_or_self)).with_callable_args(**kwargs)


class ObserverBase(ABC, Module):
    """What every observer is: a module that gives its input back, and ``calculate_qparams()``."""

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @abstractmethod
    def forward(self, x: Any) -> Any:
        """``x``, which was looked at."""

    @abstractmethod
    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Scale and zero point for what was seen."""

    with_args = classmethod(_with_args)
    with_callable_args = classmethod(_with_callable_args)


class UniformQuantizationObserverBase(ObserverBase):
    """Observers that choose scale and zero point by the least and the greatest number.

    ``dtype``, ``quant_min`` and ``quant_max``: the integers. ``reduce_range``: leave out the last bit.
    ``qscheme``: symmetric ones have 0, or the middle of unsigned integers, for 0.
    """

    _version = 3
    _schemes: tuple[Any, ...] = (*_TENSOR, *_CHANNEL)

    def __init__(
        self, dtype: Any = dtypes.quint8, qscheme: Any = qschemes.per_tensor_affine, reduce_range: bool = False,
        quant_min: Any = None, quant_max: Any = None, factory_kwargs: Any = None, eps: float = _EPS,
        is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        if reduce_range:
            warnings.warn(
                "Please use quant_min and quant_max to specify the range for observers.                     "
                "reduce_range will be deprecated in a future release of PyTorch.",
                stacklevel=3,
            )
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.register_buffer("eps", torch.tensor([eps], **_given(factory_kwargs)))
        if qscheme not in (*_TENSOR, *_CHANNEL):
            raise AssertionError(f"an observer takes a scheme such as torch.per_tensor_affine, not {qscheme}")
        demand_dtype(dtype)
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if self.has_customized_qrange:
            self.quant_min, self.quant_max = checked_range(quant_min, quant_max, dtype, reduce_range)
        else:
            self.quant_min, self.quant_max = range_of(dtype, reduce_range)

    def _calculate_qparams(self, min_val: Any, max_val: Any) -> tuple[Any, Any]:
        if not _has_range(min_val, max_val):
            return torch.tensor([1.0], device=min_val.device), torch.tensor([0], device=min_val.device)
        least, most = self.quant_min, self.quant_max
        low, high = min_val.clamp(max=0), max_val.clamp(min=0)
        zero_point = torch.zeros(low.shape, dtype=torch.int64, device=low.device)
        if self.qscheme in _SYMMETRIC:
            scale = torch.maximum(-low, high) / (float(most - least) / 2)
            scale = torch.maximum(scale, self.eps)
            if self.dtype in (dtypes.quint8, dtypes.uint8):
                zero_point = zero_point + ((least + most) // 2 if self.has_customized_qrange else 128)
            elif self.dtype is dtypes.uint16:
                zero_point = zero_point + 2**15
        elif self.qscheme is qschemes.per_channel_affine_float_qparams:
            scale = (max_val - min_val) / float(most - least)
            scale = torch.where(scale > self.eps, scale, torch.ones_like(scale))
            zero_point = -1 * min_val / scale
        else:
            scale = torch.maximum((high - low) / float(most - least), self.eps)
            zero_point = (least - torch.round(low / scale).to(torch.int)).clamp(least, most)
        return _at_least_1(scale, zero_point)

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        raise NotImplementedError("Cannot reset min/max values in the given observer.")


def _given(factory_kwargs: Any) -> dict[str, Any]:
    return dict(factory_kwargs or {})


def _at_least_1(scale: Any, zero_point: Any) -> tuple[Any, Any]:
    """Both with a dimension."""
    return tuple(t.reshape(1) if not t.ndim else t for t in (scale, zero_point))  # type: ignore[return-value]


def _has_range(min_val: Any, max_val: Any) -> bool:
    """Whether there was something to see: what is not there yet is no range, and said so."""
    if min_val.numel() == 0 or max_val.numel() == 0 or (
        not min_val.ndim and min_val == float("inf") and max_val == float("-inf")
    ):  # fmt: skip
        warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=4)
        return False
    if not (min_val <= max_val).all():
        raise AssertionError(f"the least number seen, {min_val}, is above the greatest, {max_val}")
    return True


def _demand_scheme(observer: Any, among: tuple[Any, ...]) -> None:
    if observer.qscheme not in among:
        raise NotImplementedError(
            f"{type(observer).__name__}'s qscheme only support {', '.join(map(str, among))}, but got: "
            f"{observer.qscheme}"
        )


class MinMaxObserver(UniformQuantizationObserverBase):
    """Keeps the least and the greatest number of all that it was called with.

    >>> import torchlike as torch
    >>> observer = torch.ao.quantization.MinMaxObserver()
    >>> _ = observer(torch.tensor([-1.0, 4.1]))
    >>> observer.calculate_qparams()
    (tensor([0.0200]), tensor([50], dtype=torch.int32))
    """

    min_val: Any
    max_val: Any
    _among = _TENSOR

    def __init__(
        self, dtype: Any = dtypes.quint8, qscheme: Any = qschemes.per_tensor_affine, reduce_range: bool = False,
        quant_min: Any = None, quant_max: Any = None, factory_kwargs: Any = None, eps: float = _EPS,
        is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        _demand_scheme(self, self._among)
        given = _given(factory_kwargs)
        self.register_buffer("min_val", torch.tensor(float("inf"), **given))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **given))

    def forward(self, x_orig: Any) -> Any:
        """``x_orig``, whose least and greatest numbers are kept."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = torch.aminmax(x_orig.detach().to(self.min_val.dtype))
        self._keep(low, high)
        return x_orig

    def _keep(self, low: Any, high: Any) -> None:
        self.min_val.copy_(torch.min(low, self.min_val))
        self.max_val.copy_(torch.max(high, self.max_val))

    def calculate_qparams(self) -> Any:  # type: ignore[override]
        """Scale and zero point."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self.min_val.copy_(torch.tensor(float("inf")))
        self.max_val.copy_(torch.tensor(float("-inf")))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """As :class:`MinMaxObserver`, with moving averages: each call counts by ``averaging_constant``."""

    def __init__(
        self, averaging_constant: float = 0.01, dtype: Any = dtypes.quint8, qscheme: Any = qschemes.per_tensor_affine,
        reduce_range: bool = False, quant_min: Any = None, quant_max: Any = None, eps: float = _EPS,
        is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError(
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging constant of "
                f"{averaging_constant}"
            )
        self.averaging_constant = averaging_constant
        super().__init__(
            dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max, eps=eps,
            is_dynamic=is_dynamic, **kwargs,
        )  # fmt: skip

    def _keep(self, low: Any, high: Any) -> None:
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            self.min_val.copy_(low)
            self.max_val.copy_(high)
            return
        self.min_val.copy_(self.min_val + self.averaging_constant * (low - self.min_val))
        self.max_val.copy_(self.max_val + self.averaging_constant * (high - self.max_val))


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """Keeps the least and the greatest number for each place along ``ch_axis``."""

    min_val: Any
    max_val: Any

    def __init__(
        self, ch_axis: int = 0, dtype: Any = dtypes.quint8, qscheme: Any = qschemes.per_channel_affine,
        reduce_range: bool = False, quant_min: Any = None, quant_max: Any = None, factory_kwargs: Any = None,
        eps: float = _EPS, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        if is_dynamic:
            raise NotImplementedError("PerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.ch_axis = ch_axis
        self.register_buffer("min_val", torch.tensor([], **_given(factory_kwargs)))
        self.register_buffer("max_val", torch.tensor([], **_given(factory_kwargs)))
        _demand_scheme(self, _CHANNEL)

    def forward(self, x_orig: Any) -> Any:
        """``x_orig``, whose least and greatest numbers of each place are kept."""
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype).transpose(0, self.ch_axis).flatten(start_dim=1)
        low, high = torch.aminmax(x, dim=1)
        self._keep(low, high)
        return x_orig

    def _keep(self, low: Any, high: Any) -> None:
        if self.min_val.numel():
            low, high = self._joined(low, high)
        self.min_val.resize_(low.shape)
        self.max_val.resize_(high.shape)
        self.min_val.copy_(low)
        self.max_val.copy_(high)

    def _joined(self, low: Any, high: Any) -> tuple[Any, Any]:
        return torch.min(low, self.min_val), torch.max(high, self.max_val)

    def calculate_qparams(self) -> Any:  # type: ignore[override]
        """Scales and zero points."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for name in ("min_val", "max_val"):  # which had no place yet when they were made
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self.min_val, self.max_val = torch.rand(0), torch.rand(0)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """As :class:`PerChannelMinMaxObserver`, with moving averages."""

    def __init__(
        self, averaging_constant: float = 0.01, ch_axis: int = 0, dtype: Any = dtypes.quint8,
        qscheme: Any = qschemes.per_channel_affine, reduce_range: bool = False, quant_min: Any = None,
        quant_max: Any = None, eps: float = _EPS, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        if is_dynamic:
            raise NotImplementedError("MovingAveragePerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(
            ch_axis=ch_axis, dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min,
            quant_max=quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs,
        )  # fmt: skip
        self.averaging_constant = averaging_constant

    def _joined(self, low: Any, high: Any) -> tuple[Any, Any]:
        c = self.averaging_constant
        return self.min_val + c * (low - self.min_val), self.max_val + c * (high - self.max_val)


# -- observers that choose nothing -----------------------------------------------------------------------


class FixedQParamsObserver(ObserverBase):
    """An observer whose scale and zero point are given."""

    scale: Any
    zero_point: Any

    def __init__(
        self, scale: Any, zero_point: Any, dtype: Any = dtypes.quint8, qscheme: Any = qschemes.per_tensor_affine,
        quant_min: int = 0, quant_max: int = 255, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", torch.tensor([scale], dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.int))

    def forward(self, X: Any) -> Any:
        """``X``."""
        return X

    def calculate_qparams(self) -> Any:  # type: ignore[override]
        """What was given."""
        return self.scale, self.zero_point


class _Silent(ObserverBase):
    """An observer that has no parameters."""

    def forward(self, x: Any) -> Any:
        """``x``."""
        return x

    def calculate_qparams(self) -> Any:  # type: ignore[override]
        """Exception: there are none."""
        raise Exception(f"calculate_qparams should not be called for {type(self).__name__}")  # noqa: TRY002


class PlaceholderObserver(_Silent):
    """Says how a tensor is to be quantized, when its numbers are known at run time only, or are of float16."""

    def __init__(
        self, dtype: Any = dtypes.float32, custom_op_name: str = "", compute_dtype: Any = None, quant_min: Any = None,
        quant_max: Any = None, qscheme: Any = None, eps: Any = None, is_dynamic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = qschemes.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = _EPS if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            self.is_dynamic = True
            warnings.warn("Please use `is_dynamic` instead of `compute_dtype`.", stacklevel=2)

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class RecordingObserver(_Silent):
    """Keeps copies of all tensors that it was called with."""

    def __init__(self, dtype: Any = dtypes.quint8) -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val: list[Any] = []

    def forward(self, x: Any) -> Any:
        """``x``, a copy of which is kept."""
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self) -> list[Any]:
        """What was kept."""
        return self.tensor_val


class NoopObserver(_Silent):
    """An observer that does nothing."""

    def __init__(self, dtype: Any = dtypes.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype=dtype, is_dynamic=False)
        self.custom_op = custom_op_name


class ReuseInputObserver(_Silent):
    """Says that a result is quantized as the input is."""

    def __init__(self) -> None:
        super().__init__(dtypes.quint8, is_dynamic=False)


# -- states ----------------------------------------------------------------------------------------------


def _is_activation_post_process(module: Any) -> bool:
    """Whether a module is an observer or a fake quantizer."""
    return isinstance(module, ObserverBase) or hasattr(module, "activation_post_process_is_fake")


def get_observer_state_dict(mod: Any) -> Any:
    """The part of the state dict of ``mod`` that belongs to its observers."""
    found = OrderedDict((k, v) for k, v in mod.state_dict().items() if "activation_post_process" in k)
    found._metadata = mod.state_dict()._metadata  # type: ignore[attr-defined]
    return found


def load_observer_state_dict(mod: Any, obs_dict: Any) -> None:
    """Give the observers of ``mod`` a state that :func:`get_observer_state_dict` took."""
    missing, unexpected = mod.load_state_dict(obs_dict, strict=False)
    missing = [k for k in missing if "observer" in k or "activation_post_process" in k]
    if missing or unexpected:
        raise Exception(  # noqa: TRY002
            f"Missing keys for observer {missing} in state_dict, unexpected keys for observer {unexpected}"
        )


default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_reuse_input_observer = ReuseInputObserver
default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_weight_observer = MinMaxObserver.with_args(dtype=dtypes.qint8, qscheme=qschemes.per_tensor_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=dtypes.qint8, qscheme=qschemes.per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=dtypes.qint8, qscheme=qschemes.per_channel_symmetric
)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=dtypes.qint8, qscheme=qschemes.per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(  # type: ignore[attr-defined]
    dtype=dtypes.quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=dtypes.quint8, qscheme=qschemes.per_channel_affine_float_qparams, ch_axis=0
)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=dtypes.quint4x2, qscheme=qschemes.per_channel_affine_float_qparams, ch_axis=0
)
default_affine_fixed_qparams_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=dtypes.quint8, quant_min=0, quant_max=255
)
default_symmetric_fixed_qparams_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=dtypes.quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer = default_affine_fixed_qparams_observer
default_fixed_qparams_range_neg1to1_observer = default_symmetric_fixed_qparams_observer
