"""The two operators of gradient scaling, each one compiled call over all that it is given."""

import torchlike._base.dtypes as dtypes
from torchlike._base.state import state
from torchlike._core.conversion.factories import full
from torchlike._core.dispatch.inplace import demand_distinct, demand_writable
from torchlike._core.dispatch.observers import redispatch, subclassed
from torchlike._core.tensor.arguments import no_tensor
from torchlike._core.tensor.memory_order import apart
from torchlike._core.tensor.mutation import wholes, write
from torchlike._core.tensor.tensor import Tensor, value_of, wrap
from torchlike._executor import fused
from torchlike._executor.spread import copy_here
from torchlike._functions._install import function
from torchlike._ops import amp as kernels

_UNSCALE, _UPDATE = "_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"


@function(_UNSCALE)
def _amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale):
    """Multiply tensors by ``inv_scale``, in place; ``found_inf`` becomes 1 where one of them is not finite.

    Args:
        self: tensors of any floating dtypes. found_inf, inv_scale: float32 tensors of one element.

    Raises:
        RuntimeError: ``found_inf`` or ``inv_scale`` has another dtype or more elements.
        NotImplementedError: one of the tensors is not floating.
    """
    if not isinstance(self, list | tuple):
        raise TypeError(
            f"{_UNSCALE}(): argument 'self' (position 1) must be tuple of Tensors, not {type(self).__name__}"
        )
    for i, t in enumerate(self):
        if not isinstance(t, Tensor):
            raise TypeError(f"{_UNSCALE}(): expected Tensor as element {i} in argument 0, but got {type(t).__name__}")
    _demand_tensors(_UNSCALE, found_inf=(2, found_inf), inv_scale=(3, inv_scale))
    if state.dispatch_modes or any(map(subclassed, (*self, found_inf, inv_scale))):
        return redispatch(f"{_UNSCALE}.default", self, found_inf, inv_scale)
    if not self:
        return None
    _demand_one(_UNSCALE, inv_scale=inv_scale, found_inf=found_inf)
    _demand_fit(self)
    for part in apart(self):
        write(found_inf, _unscaled(part, found=value_of(found_inf), inverse=value_of(inv_scale)))
    return None


@function(_UPDATE)
def _amp_update_scale_(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
    """Change a scale, in place, as a step went: it shrinks after one that failed, and grows after many that did not.

    Args:
        self: the scale, a float32 tensor of one element. growth_tracker: the steps since it last changed, an int32
            tensor of one element, changed too. found_inf: a float32 tensor of one element, not 0 if the step failed.
        scale_growth_factor, scale_backoff_factor: what the scale is multiplied by. growth_interval: after how many
            steps it grows, unless it would become infinite.

    Raises:
        RuntimeError: a tensor has another dtype or more elements.
    """
    tensors = {"self": (1, self), "growth_tracker": (2, growth_tracker), "found_inf": (3, found_inf)}
    _demand_tensors(_UPDATE, **tensors)
    if isinstance(growth_interval, float):
        raise TypeError(f"{_UPDATE}(): argument 'growth_interval' (position 6) must be int, not float")
    factors = scale_growth_factor, scale_backoff_factor, growth_interval
    if state.dispatch_modes or any([subclassed(t) for _, t in tensors.values()]):
        return redispatch(f"{_UPDATE}.default", self, growth_tracker, found_inf, *factors)
    _demand_one(_UPDATE, growth_tracker=growth_tracker, current_scale=self, found_inf=found_inf)
    values = value_of(self), value_of(growth_tracker), value_of(found_inf)
    scale, tracker = fused.run(kernels.rescaled, (), *values, *factors)
    write(self, scale)
    write(growth_tracker, tracker)
    return self


def unscale_by(tensors, scale):
    """Divide tensors by a scale on their device, in place; a new tensor that is 1 if one of them is not finite."""
    if state.dispatch_modes or any(map(subclassed, tensors)):
        found = full((), 0.0, dtype=dtypes.float32, device=scale.device)
        _amp_foreach_non_finite_check_and_unscale_(tensors, found, scale.double().reciprocal().float())
        return found
    _demand_fit(tensors)
    first, *rest = apart(tensors)
    found = _flag(_unscaled(first, scale=value_of(scale)))
    for part in rest:
        found = found.maximum(_flag(_unscaled(part, scale=value_of(scale))))
    return found


def nonfinite(tensors):
    """A new tensor that is 1 if one of some tensors is not finite, else 0."""
    _demand_fit(tensors)
    return _flag(fused.run(kernels.nonfinite, (), [value_of(t) for t in tensors]))


def _flag(value):
    """What was found in gradients, which may lie over several processes, where a scaler decides."""
    return wrap(copy_here(value))


def unscale_unless(tensors, scale, found):
    """Divide tensors by a scale, in place, unless ``found`` is not 0."""
    found = value_of(found) if isinstance(found, Tensor) else found
    for part in apart(tensors):
        values = fused.run(kernels.unscaled_unless, (), [value_of(t) for t in part], value_of(scale), found)
        for t, value in zip(part, values, strict=True):
            write(t, value)


@fused.in_turn
def _unscaled(tensors, **numbers):
    """Divide tensors, none of which overlaps another, as the kernel does; the value of whether one is not finite."""
    found = []

    def keep(new):
        for t, value in zip(tensors, new[0], strict=True):
            write(t, value)
        found[:] = new[1:]

    values = [value_of(t) for t in tensors]
    fused.replace(kernels.unscaled, (), (0,), [values, numbers], keep, wholes(tensors))
    return found[0]


def _demand_tensors(name, **given):
    for what, (position, x) in given.items():
        if not isinstance(x, Tensor):
            raise no_tensor(name, what, position - 1, x)


def _demand_one(name, **given):
    """Tensors of one element; the growth tracker counts in int32, the others are float32."""
    for what, t in given.items():
        if t.numel() != 1:
            raise RuntimeError(f"{what} must be a 1-element tensor. {name}() got one of shape {tuple(t.shape)}")
    for what, t in given.items():
        dtype, kind = (dtypes.int32, "an int") if what == "growth_tracker" else (dtypes.float32, "a float")
        if t.dtype is not dtype:
            raise RuntimeError(f"{what} must be {kind} tensor. {name}() takes {dtype}, but got {t.dtype}")


def _demand_fit(tensors):
    for t in tensors:
        if not t.is_floating_point():
            raise NotImplementedError(
                f'"{_UNSCALE}" not implemented for {t.dtype}: it takes floating point tensors, the real and imaginary '
                "parts of complex ones as torch.view_as_real gives them"
            )
        demand_writable(t)
        demand_distinct(_UNSCALE, t)
