"""torch.autograd.profiler: where the time of a program goes, and names for stretches of it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any

import jax

from torchlike.autograd._recording import Recorder, _profiler_enabled, annotated
from torchlike.autograd.profiler_util import EventList, FunctionEvent
from torchlike.interop.alias import missing_names

__all__ = [
    "EventList", "FunctionEvent", "emit_itt", "emit_nvtx", "kineto_available", "load_nvprof", "parse_nvprof_trace",
    "profile", "record_function",
]  # fmt: skip

__getattr__ = missing_names(__name__)

_WITHOUT_EFFECT = ("profile_memory", "with_stack", "with_flops", "with_modules")


def kineto_available() -> bool:
    """Whether PyTorch's tracing library is there: no. Profiles are recorded by torchlike itself."""
    return False


def warn_unrecorded(options: dict[str, Any], stacklevel: int = 3) -> None:
    """Say which wishes a profile does not fulfil."""
    asked = [name for name in _WITHOUT_EFFECT if options.get(name)]
    if asked:
        warnings.warn(
            f"torch.profiler: {', '.join(asked)}: not recorded; jax.profiler.trace and "
            "jax.profiler.device_memory_profile record more",
            UserWarning,
            stacklevel=stacklevel,
        )


class profile:  # noqa: N801
    """In this context, record operators, kernels and compilations.

    Operators are those of the thread that enters it; compiled functions run operator by operator, and each operator is
    waited for, so that its own time is known. Outside the context nothing is recorded, and nothing is slower.

    Args:
        enabled: whether to record at all. record_shapes: also the shapes of tensors.
            use_cpu, use_device, use_kineto: accepted. profile_memory, with_stack, with_flops, with_modules: a warning.

    >>> import torchlike as torch
    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.ones(3) + 1
    >>> [event.name for event in prof.function_events if event.category == "cpu_op"]
    ['aten::ones', 'aten::add']
    """

    def __init__(self, enabled: bool = True, *, record_shapes: bool = False, **options: Any) -> None:
        warn_unrecorded(options)
        self.enabled, self._shapes = enabled, record_shapes
        self._recorder: Recorder | None = None

    def __enter__(self) -> profile:
        if self.enabled:
            if self._recorder is not None:
                raise RuntimeError("Profiler context manager is not reentrant")
            self._recorder = Recorder(self._shapes)
            self._recorder.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._recorder is not None:
            self._recorder.stop()

    @property
    def function_events(self) -> EventList:
        """What was recorded. RuntimeError before the context."""
        if self._recorder is None:
            raise RuntimeError("Profiler didn't finish running")
        return self._recorder.events

    def key_averages(self, group_by_input_shape: bool = False, **kwargs: Any) -> EventList:
        """:meth:`EventList.key_averages` of what was recorded."""
        return self.function_events.key_averages(group_by_input_shape)

    def total_average(self) -> Any:
        """:meth:`EventList.total_average` of what was recorded."""
        return self.function_events.total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **kwargs: Any) -> str:
        """:meth:`EventList.table` of what was recorded."""
        return self.function_events.table(sort_by, row_limit, **kwargs)

    def export_chrome_trace(self, path: Any) -> None:
        """:meth:`EventList.export_chrome_trace` of what was recorded."""
        self.function_events.export_chrome_trace(path)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all that was recorded."""
        return self.function_events.self_cpu_time_total

    def __repr__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._recorder is None else repr(self.function_events)

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._recorder is None else self.table()


class record_function:  # noqa: N801
    """In this context, or in calls of what it decorates, profiles and traces of JAX's profiler show ``name``.

    Args:
        name: the label. args: a text that is shown with it.

    >>> import torchlike as torch
    >>> with torch.autograd.profiler.record_function("double"):
    ...     y = torch.ones(2) * 2
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"record_function(): name must be a str, not {type(name).__name__}")
        self.name, self.args = name, args
        self._annotations: list[Any] = []

    def __enter__(self) -> record_function:
        more = {} if self.args is None else {"args": self.args}
        annotation = jax.profiler.TraceAnnotation(self.name, **more)
        annotation.__enter__()
        self._annotations.append((annotation, annotated(self.name) if _profiler_enabled() else ()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        annotation, ranges = self._annotations.pop()
        for recorder, event in ranges:
            recorder.end(event)
        annotation.__exit__(kind, error, trace)

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return annotated


class _Unheard:
    """A context that does nothing and says so."""

    _listener = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> _Unheard:
        if self.enabled:
            name = type(self).__name__
            warnings.warn(
                f"torch.autograd.profiler.{name}: {self._listener} is told nothing; use torch.profiler.profile or "
                "jax.profiler.trace",
                UserWarning,
                stacklevel=2,
            )
        return self

    def __exit__(self, *exc: object) -> None: ...


class emit_nvtx(_Unheard):  # noqa: N801
    """A context in which PyTorch tells NVTX of operators; here it does nothing but warn."""

    _listener = "NVTX"


class emit_itt(_Unheard):  # noqa: N801
    """A context in which PyTorch tells Intel's VTune of operators; here it does nothing but warn."""

    _listener = "VTune"


def load_nvprof(path: str) -> Any:
    """NotImplementedError: traces of nvprof are not read."""
    raise NotImplementedError("torch.autograd.profiler.load_nvprof: traces of nvprof are not read")


parse_nvprof_trace = load_nvprof
