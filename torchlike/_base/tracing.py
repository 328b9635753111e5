"""Whether jax traces a function now, and the errors for what cannot be known or done then."""

from typing import Any

import jax

try:
    from jax._src.core import trace_ctx, trace_state_clean
except ImportError:  # no public name tells; to assume a trace costs a microsecond each cut
    trace_ctx = None  # type: ignore[assignment]

    def trace_state_clean() -> bool:
        """Whether jax traces nothing now."""
        return False


class _Untold:
    """Stands for what jax knows of its traces, where that cannot be told."""

    value = None


try:
    from jax._src.core import trace_state as NOW
except ImportError:
    NOW = _Untold()
"""``NOW.value`` is a weak reference to the trace in which this thread is: the quickest question of all."""


def current_trace() -> Any:
    """What jax makes of the function that it traces now, None if that cannot be told."""
    return getattr(trace_ctx, "trace", None)


def inside(within: Any, trace: Any) -> bool:
    """Whether the trace ``within``, or None, is ``trace`` or one that was begun in it."""
    while within is not None and within is not trace:
        within = getattr(within, "parent_trace", None)
    return within is not None


def differentiated() -> bool:
    """Whether ``jax.grad`` or ``jax.vjp`` traces what runs now, and no program around it."""
    trace = current_trace()
    while trace is not None and type(trace).__name__ != "LinearizeTrace":
        trace = getattr(trace, "parent_trace", None)
    return trace is not None


_UNKNOWN = (
    "a number was asked for (item(), bool(), float(), int(), tolist(), numpy(), an `if` or `while` over a tensor) of a "
    "tensor of shape {shape} and dtype {dtype}, whose values are not known while jax traces the function (jit, vmap, "
    "scan, grad); choose between results with torch.where(condition, a, b), torch.cond() or jax.lax.cond(), pass what "
    "decides as a static argument (static_argnums=), return the tensor and read it outside, or print it by "
    "jax.debug.print('{{}}', t.jax()){where}"
)


class UnknownValueError(
    jax.errors.TracerBoolConversionError, jax.errors.TracerArrayConversionError, jax.errors.TracerIntegerConversionError
):
    """The values of a tensor were asked for inside of a function that jax traces; any of jax's own errors for that."""

    def __init__(self, tracer: Any) -> None:
        origin = getattr(tracer, "_origin_msg", str)()
        TypeError.__init__(self, _UNKNOWN.format(shape=list(tracer.shape), dtype=tracer.dtype, where=origin))


def demand_no_trace(name: str) -> None:
    """Refuse that a function which jax traces seeds a generator: its program would not, in any later call."""
    if not trace_state_clean():
        raise RuntimeError(
            f"{name}(): a generator would be seeded inside a function of jax (jit, grad, vmap, scan, to_jax), once for "
            "all its calls, and what is drawn there does not come from it; seed outside, or use "
            "torchlike.interop.to_jax(function) and pass it key=jax.random.key(seed)"
        )
