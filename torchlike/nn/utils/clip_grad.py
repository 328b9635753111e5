"""Clipping of gradients: one compiled program over all of them."""

import types
import warnings
from collections.abc import Iterable
from typing import Any

from jax.sharding import NamedSharding, PartitionSpec

from torchlike._base.state import no_grad, state
from torchlike._core.conversion.factories import tensor
from torchlike._core.dispatch.observers import subclassed
from torchlike._core.tensor.memory_order import apart
from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.tensor import Tensor, carried_on, carry, value_of, wrap
from torchlike._executor import fused
from torchlike._executor.spread import SPANNING, laid, layout_of
from torchlike._functions._install import FUNCTIONS
from torchlike._functions.linalg import vector_norm
from torchlike._ops import clip

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_"]


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    generated = isinstance(parameters, types.GeneratorType)
    parameters = list(parameters)
    if generated and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    return [p.grad for p in parameters if p.grad is not None]


def _demand_alike(name: str, grads: list[Tensor]) -> None:
    """Let the classes that do not go with plain tensors refuse those."""
    kinds = {*map(type, grads)}
    if len(kinds) > 1:
        for kind in kinds:
            demand = getattr(kind, "_demand_alike", None)
            if demand is not None:
                demand(name, grads)


def _demand_finite(norm: Tensor, order: float) -> None:
    if not norm.isfinite():
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot "
            "be clipped. To "
            "disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )


def _write(tensors: list[Tensor], values: list) -> None:
    for t, value in zip(tensors, values, strict=True):
        write(t, value)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements of some tensors (0 for none).

    Raises:
        RuntimeError: integer tensors, or a norm that is not finite if ``error_if_nonfinite``.

    >>> import torchlike as torch
    >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not tensors:
        return tensor(0.0)
    order = float(norm_type)
    if foreach is not False:
        _demand_alike("get_total_norm", tensors)
    if state.levels:  # a transform sees operators only
        norm = vector_norm(FUNCTIONS["stack"]([vector_norm(t, order) for t in tensors]), order)
    elif _watched(tensors):
        norm = _norm_by_operators(tensors, order)
    else:
        norm = wrap(fused.run(clip.total_norm, (("ord", order),), [value_of(t) for t in tensors]))
        carry(norm, carried_on(tensors[0]))
    if error_if_nonfinite:
        _demand_finite(norm, order)
    return norm


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients, in place, by ``min(1, max_norm / (total_norm + 1e-6))``."""
    grads = _gradients(parameters)
    if grads:
        if foreach is not False:
            _demand_alike("clip_grads_with_norm_", grads)
        if _watched(grads):
            _scale_by_operators(grads, max_norm, total_norm)
            return
        most = value_of(max_norm) if isinstance(max_norm, Tensor) else float(max_norm)
        _scale(apart(grads), most, _beside(value_of(total_norm), grads))


def _beside(norm: Any, grads: list[Tensor]) -> Any:
    """A norm where gradients over several processes are: each has it whole."""
    layouts = [layout_of(value_of(g)) for g in grads] if SPANNING else []
    wide = [x for x in layouts if isinstance(x, NamedSharding) and not x.is_fully_addressable]
    return laid(norm, NamedSharding(wide[0].mesh, PartitionSpec())) if wide else norm


def _watched(tensors: list[Tensor]) -> bool:
    """Whether a mode or the class of a tensor is to see operators."""
    return bool(state.dispatch_modes) or any(map(subclassed, tensors))


def _norm_by_operators(tensors: list[Tensor], order: float) -> Tensor:
    return vector_norm(FUNCTIONS["stack"](list(FUNCTIONS["_foreach_norm"](tensors, order))), order)


@no_grad()
def _scale_by_operators(grads: list[Tensor], max_norm: Any, norm: Tensor) -> None:
    factor = max_norm / (norm + 1e-6)
    FUNCTIONS["_foreach_mul_"](grads, factor.clamp(max=1.0).to(grads[0].device))


def _scale(parts: list[list[Tensor]], most: Any, norm: Any) -> None:
    for part in parts:  # memory that is named twice is scaled twice, as PyTorch's loop does
        _write(part, fused.run(clip.scaled, (), [value_of(g) for g in part], most, norm))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of the parameters, in place, so that their norm together is at most ``max_norm``.

    Args:
        norm_type: order of the norm, ``inf`` too. error_if_nonfinite: raise before anything is changed.
        foreach: accepted; it is one program in any case.

    Returns the norm before. RuntimeError as in :func:`get_total_norm`.

    >>> import torchlike as torch
    >>> p = torch.nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([3.0, 4.0])
    >>> torch.nn.utils.clip_grad_norm_([p], 1.0)
    tensor(5.)
    >>> p.grad
    tensor([0.6000, 0.8000])
    """
    order = float(norm_type)
    most = value_of(max_norm) if isinstance(max_norm, Tensor) else float(max_norm)
    grads = _gradients(parameters)
    if not grads:
        return tensor(0.0)
    _demand_alike("clip_grad_norm_", grads)
    if _watched(grads):
        with no_grad():
            norm = get_total_norm(grads, order, error_if_nonfinite)
        _scale_by_operators(grads, max_norm, norm)
        return norm
    norm, values = fused.run(clip.clipped, (("ord", order),), [value_of(g) for g in grads], most)
    norm = wrap(norm)
    carry(norm, carried_on(grads[0]))
    if error_if_nonfinite:
        _demand_finite(norm, order)
    parts = apart(grads)
    if len(parts) == 1:
        _write(grads, values)
    else:
        _scale(parts, most, value_of(norm))
    return norm


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of :func:`clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Keep each element of the gradients within +-clip_value, in place. NotImplementedError for complex
    gradients.
    """
    limit, grads = float(clip_value), _gradients(parameters)
    if any(g.is_complex() for g in grads):
        raise NotImplementedError("clamp is not supported for complex types: clip_grad_value_ takes real gradients")
    if grads:
        if foreach is not False:
            _demand_alike("clip_grad_value_", grads)
        if _watched(grads):
            with no_grad():
                FUNCTIONS["_foreach_clamp_min_"](grads, -limit)
                FUNCTIONS["_foreach_clamp_max_"](grads, limit)
            return
        _write(grads, fused.run(clip.limited, (), [value_of(g) for g in grads], limit))
