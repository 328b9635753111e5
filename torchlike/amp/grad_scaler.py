"""Scaling of losses, so that gradients in float16 do not vanish, and steps that are skipped where they overflow."""

import functools
import operator
from collections import abc, defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

from torchlike._base import dtypes
from torchlike._base.device import is_present
from torchlike._base.frames import warn
from torchlike._base.volatile import volatile
from torchlike._core.conversion.factories import full
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.amp import (
    _amp_foreach_non_finite_check_and_unscale_,
    nonfinite,
    unscale_by,
)
from torchlike.amp._traced import decides_on_device, rescale, start, takes_scaler

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """What has been done with an optimizer since the last ``update()``."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def _by_device(optimizer: Any, allow_fp16: bool = False) -> dict[Any, list[Tensor]]:
    """The gradients of an optimizer's parameters, by their device; of sparse ones the values."""
    found: dict[Any, list[Tensor]] = {}
    for group in optimizer.param_groups:
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if grad.dtype is dtypes.float16 and not allow_fp16:
                raise ValueError(
                    "Attempting to unscale FP16 gradients. Keep the parameters in float32: autocast makes their "
                    "gradients float32, and only these can be divided by a scale without loss"
                )
            if grad.is_sparse:
                if grad.dtype is dtypes.float16:  # what stands for one element may overflow as it is summed
                    grad = param.grad = grad.coalesce()
                grad = grad._values()
            found.setdefault(grad.device, []).append(grad)
    return found


def _unscale(optimizer: Any, scale: Tensor, allow_fp16: bool) -> dict[Any, Tensor]:
    """Divide all gradients by the scale; for each device a tensor that is 1 where one of them is not finite."""
    return {place: unscale_by(grads, scale.to(place)) for place, grads in _by_device(optimizer, allow_fp16).items()}


def _nonfinite(optimizer: Any) -> dict[Any, Tensor]:
    """For each device a tensor that is 1 where a gradient is not finite."""
    return {place: nonfinite(grads) for place, grads in _by_device(optimizer, True).items()}


class GradScaler:
    """Scales losses, so that small gradients do not become zero in float16, and skips steps whose gradients overflow.

    An iteration is ``scaler.scale(loss).backward()``, ``scaler.step(optimizer)`` and ``scaler.update()``. ``step``
    divides the gradients by the scale, and does nothing where one of them is infinite or NaN; ``update`` makes the
    scale smaller then, and greater after a number of steps that went well. The scale is a tensor on the device of the
    losses. In eager code ``step`` reads one number from the device, which says whether to skip. Within
    ``torch.compile`` the device decides, and nothing is read; so it is with optimizers made with ``fused=True``.

    Args:
        device: type of the devices. Where there is no GPU, "cuda" warns and disables.
        init_scale: the first scale. growth_factor: what it is multiplied by after ``growth_interval`` steps in a row
            that went well. backoff_factor: what it is multiplied by after one that did not.
        enabled: False makes ``scale`` and ``update`` do nothing, and ``step`` the optimizer's own.

    AssertionError for a growth factor of 1 or less, or a backoff factor of 1 or more.

    >>> import torchlike as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.SGD([p], lr=0.5)
    >>> scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    >>> scaler.scale((p * p).sum()).backward()
    >>> p.grad
    tensor([2048.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> p.grad, p.item(), scaler.get_scale()
    (tensor([2.]), 0.0, 1024.0)
    """

    _allows_fp16 = False  # whether gradients in float16 are divided by the scale too

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        self._device, self._enabled = device, enabled
        if device == "cuda" and enabled and not (is_present("cuda") or is_present("xla")):
            warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
            self._enabled = False
        if not self._enabled:
            return
        if not growth_factor > 1.0:
            raise AssertionError(f"The growth factor must be > 1.0. GradScaler got {growth_factor}")
        if not backoff_factor < 1.0:
            raise AssertionError(f"The backoff factor must be < 1.0. GradScaler got {backoff_factor}")
        self._init_scale = init_scale
        self._scale: Any = None  # tensors, once something has been scaled
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Any = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_refresh_per_optimizer_state)

    # -- losses --------------------------------------------------------------------------------------
    def scale(self, outputs: Any) -> Any:
        """``outputs`` times the scale: a tensor, or lists, tuples and other iterables of tensors.

        Lists and tuples give the same, other iterables one that scales what is taken from it. ValueError for what is
        neither a tensor nor iterable.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return self._times(outputs, self._scale_on(outputs.device))
        return self._scaled(outputs, {})

    def _times(self, output: Tensor, scale: Tensor) -> Tensor:
        return output * scale

    def _scale_on(self, device: Any) -> Tensor:
        self._lazy_init_scale_growth_tracker(device)
        return self._scale.to(device)

    def _lazy_init_scale_growth_tracker(self, dev: Any) -> None:
        start(self, dev)

    def _scaled(self, outputs: Any, scales: dict[Any, Tensor]) -> Any:
        if isinstance(outputs, Tensor):
            device = outputs.device
            if device not in scales:
                scales[device] = self._scale_on(device)
            return self._times(outputs, scales[device])
        if not isinstance(outputs, abc.Iterable):
            raise ValueError(
                f"outputs must be a Tensor or an iterable of Tensors. GradScaler.scale() got {type(outputs).__name__}"
            )
        each = map(functools.partial(self._scaled, scales=scales), outputs)
        return type(outputs)(each) if isinstance(outputs, list | tuple) else each

    def _check_scale_growth_tracker(self, funcname: str) -> tuple[Tensor, Tensor]:
        for name, value in (("_scale", self._scale), ("_growth_tracker", self._growth_tracker)):
            if value is None:
                raise AssertionError(
                    f"Attempted {funcname} but {name} is None.  This may indicate your script did not use "
                    "scaler.scale(loss or outputs) earlier in the iteration."
                )
        return self._scale, self._growth_tracker

    # -- gradients -----------------------------------------------------------------------------------
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, in place, e.g. to clip them then.

        ``step`` does it where this was not called. All gradients of a device are one compiled call.

        Raises:
            RuntimeError: it was called before, or ``step`` was, since the last ``update``.
            AssertionError: nothing has been scaled yet. ValueError: gradients in float16.
            NotImplementedError: complex gradients.
        """
        if not self._enabled:
            return
        self._check_scale_growth_tracker("unscale_")
        kept = self._per_optimizer_states[id(optimizer)]
        if kept["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if kept["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        if type(self)._unscale_grads_ is GradScaler._unscale_grads_:
            found_inf = _unscale(optimizer, self._scale, self._allows_fp16)
        else:  # of a subclass
            inverse, found = (
                self._scale.double().reciprocal().float(),
                full((), 0.0, dtype=dtypes.float32, device=self._scale.device),
            )
            found_inf = self._unscale_grads_(optimizer, inverse, found, self._allows_fp16)
        kept["found_inf_per_device"] = self._agreed(found_inf)
        kept["stage"] = OptState.UNSCALED

    def _agreed(self, found: dict[Any, Tensor]) -> dict[Any, Tensor]:
        """What to go by, of what this process found in its gradients."""
        return found

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        """Multiply the gradients by ``inv_scale``; for each device ``found_inf``, or 1 where one is not finite."""
        flags = {}
        for place, grads in _by_device(optimizer, allow_fp16).items():
            flags[place] = found_inf.to(place)
            _amp_foreach_non_finite_check_and_unscale_(grads, flags[place], inv_scale.to(place))
        return flags

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        """Look for gradients that are not finite, and leave them as they are."""
        self._check_scale_growth_tracker("_check_inf_per_device")
        found = self._agreed(_nonfinite(optimizer))
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    # -- steps ---------------------------------------------------------------------------------------
    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step(*args, **kwargs)``, unless a gradient is infinite or NaN; what it returned, or None.

        An optimizer whose attribute ``_step_supports_amp_scaling`` is true is always called, with the attributes
        ``grad_scale`` (None after ``unscale_``) and ``found_inf`` set meanwhile, and does the rest itself.

        Raises:
            RuntimeError: a closure, or a second step since the last ``update``.
            AssertionError: nothing has been scaled yet, or no parameter has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError(
                "Closure use is not currently supported if GradScaler is enabled. Compute the loss and its gradients "
                "before scaler.step(optimizer)"
            )
        self._check_scale_growth_tracker("step")
        kept = self._per_optimizer_states[id(optimizer)]
        if kept["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._scaling_step(optimizer, kept, args, kwargs)
        else:
            result = self._skipping_step(optimizer, kept, args, kwargs)
        kept["stage"] = OptState.STEPPED
        return result

    def _skipping_step(self, optimizer: Any, kept: dict[str, Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        if kept["stage"] is OptState.READY:
            self.unscale_(optimizer)
        found = kept["found_inf_per_device"]
        if not found:
            raise AssertionError(
                "No inf checks were recorded for this optimizer. None of its parameters has a gradient: call "
                "backward() on a scaled loss first"
            )
        return self._maybe_opt_step(optimizer, kept, *args, **kwargs)

    def _maybe_opt_step(self, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        found = optimizer_state["found_inf_per_device"]
        if decides_on_device(optimizer, args, kwargs):
            return optimizer._step_unless(self._combined(found.values()))
        if sum([flag.item() for flag in found.values()]):
            return None
        return optimizer.step(*args, **kwargs)

    def _scaling_step(self, optimizer: Any, kept: dict[str, Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """A step of an optimizer that looks at ``grad_scale`` and ``found_inf``."""
        if takes_scaler(optimizer.step):
            warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the near "
                "future GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed optimizer and "
                "let the optimizer use them directly.",
                FutureWarning,
            )
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        if kept["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        found = self._combined(kept["found_inf_per_device"].values())
        if kept["stage"] is OptState.UNSCALED:
            scale = getattr(optimizer, "grad_scale", None)
        else:  # a copy, times what others have scaled by
            scale = self._scale * getattr(optimizer, "grad_scale", 1)
        if decides_on_device(optimizer, args, kwargs):
            return optimizer._step_unless(found, scale)
        optimizer.grad_scale, optimizer.found_inf = scale, found
        result = optimizer.step(*args, **kwargs)
        del optimizer.grad_scale, optimizer.found_inf
        return result

    def _combined(self, flags: Iterable[Tensor]) -> Any:
        """The sum of what was found on several devices, where the scale is; 0 where nothing was looked for."""
        there = [flag.to(self._scale.device) for flag in flags]
        return functools.reduce(operator.add, there) if there else 0

    # -- the scale -----------------------------------------------------------------------------------
    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale after the steps of all optimizers of an iteration, or set it.

        Args:
            new_scale: the next scale, a float or a tensor of one element that requires no grad. Its number is copied.

        AssertionError where nothing has been scaled, or no optimizer stepped, since the last ``update``.
        """
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            self._set_scale(scale, new_scale)
        else:
            found = [f for kept in self._per_optimizer_states.values() for f in kept["found_inf_per_device"].values()]
            if not found:
                raise AssertionError(
                    "No inf checks were recorded prior to update. Call step() or unscale_() of each optimizer first"
                )
            rescale(self, self._combined(found))
        self._per_optimizer_states.clear()

    def _set_scale(self, scale: Tensor, new_scale: Any) -> None:
        if isinstance(new_scale, float):
            scale.fill_(new_scale)
            return
        wanted = (
            "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
            "requires_grad=False."
        )
        if not isinstance(new_scale, Tensor):
            raise AttributeError(f"{wanted} GradScaler.update() got {type(new_scale).__name__}, which has no device")
        if new_scale.is_meta or new_scale.numel() != 1 or new_scale.requires_grad:
            raise AssertionError(f"{wanted} GradScaler.update() got a tensor of shape {tuple(new_scale.shape)}")
        scale.copy_(new_scale)

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        """The scale as a number, read from the device; 1.0 where the scaler is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after a step that was skipped."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps in a row the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of steps after which the scale grows."""
        self._growth_interval = new_interval

    @volatile
    def is_enabled(self) -> bool:
        """Whether it scales and skips."""
        return self._enabled

    # -- keeping -------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """The scale and what it is changed by, as numbers; empty where the scaler is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict()`` of another scaler gave. RuntimeError for that of a disabled one."""
        if not self._enabled:
            return
        if not len(state_dict):
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        keys = "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"
        scale, growth, backoff, interval, tracker = [state_dict[key] for key in keys]
        self._init_scale, self._init_growth_tracker = scale, tracker
        self._growth_factor, self._backoff_factor, self._growth_interval = growth, backoff, interval
        if self._scale is not None:
            self._scale.fill_(scale)
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(tracker)

    def __getstate__(self) -> dict[str, Any]:
        kept = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                    "scaler.update()."
                )
            kept["_init_scale"], kept["_init_growth_tracker"] = self.get_scale(), self._get_growth_tracker()
            kept["_scale"] = kept["_growth_tracker"] = None
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
