"""Profiles that follow a schedule of steps."""

from __future__ import annotations

import enum
import os
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from torchlike.autograd._recording import Recorder
from torchlike.autograd.profiler import record_function, warn_unrecorded
from torchlike.autograd.profiler_util import EventList
from torchlike.interop.alias import missing_names

__all__ = [
    "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity", "profile", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip

__getattr__ = missing_names(__name__)


class ProfilerActivity(enum.Enum):
    """What a profile looks at. Every one means the same here: what the host does, and how long kernels take."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class DeviceType(enum.Enum):
    """Kinds of devices."""

    CPU = 0
    CUDA = 1


class ProfilerAction(enum.Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """What a profile can look at."""
    return {ProfilerActivity.CPU}


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Each step is recorded."""
    return ProfilerAction.RECORD


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A schedule of cycles: ``wait`` steps of nothing, ``warmup`` steps, ``active`` steps that are recorded.

    Args:
        repeat: how many cycles (0: without end). skip_first: steps before the first cycle.
        skip_first_wait: unless 0, the first cycle does not wait.

    Raises:
        AssertionError: a negative number, or no active step.

    >>> import torchlike as torch
    >>> plan = torch.profiler.schedule(wait=1, warmup=1, active=2)
    >>> [plan(step).name for step in range(4)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )

    def planned(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        step %= cycle
        if step < wait:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if step < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return planned


def tensorboard_trace_handler(
    dir_name: str | os.PathLike, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """An ``on_trace_ready`` that writes each trace into a folder, which tensorboard's profiler plugin reads."""

    def write(prof: profile) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return write


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:  # noqa: N801
    """In this context, record operators, kernels and compilations, in the steps that ``schedule`` says.

    Args:
        activities: what to look at; accepted. schedule: maps the number of a step to a :class:`ProfilerAction`; without
            one everything is recorded. on_trace_ready: called with this when a recording ends.
        record_shapes: also record the shapes of tensors.
            profile_memory, with_stack, with_flops, with_modules: a warning says that they are not recorded.

    ``step()`` tells that a step ends. See :class:`torch.autograd.profiler.profile` for what is recorded.

    >>> import torchlike as torch
    >>> with torch.profiler.profile() as prof:
    ...     with torch.profiler.record_function("mine"):
    ...         y = torch.ones(3).exp()
    >>> [event.key for event in prof.events() if event.category == "user_annotation"]
    ['mine']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        **options: Any,
    ) -> None:
        warn_unrecorded(options)
        self.activities = set(activities) if activities is not None else supported_activities()
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self.on_trace_ready, self.record_shapes = on_trace_ready, record_shapes
        self._steps = schedule is not None
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._recorder: Recorder | None = None
        self._label: record_function | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin."""
        if self.current_action in _RECORDING:
            self._begin()
        self._name_step()

    def stop(self) -> None:
        """End, and hand over what is recorded."""
        self._end_step()
        if self.current_action in _RECORDING:
            self._finish()

    def step(self) -> None:
        """One step ends, and the next begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._finish()
            before = ProfilerAction.NONE
        elif before in _RECORDING and self.current_action not in _RECORDING:
            self._stop_recorder()
        if before not in _RECORDING and self.current_action in _RECORDING:
            self._begin()
        self._name_step()

    def _name_step(self) -> None:
        if self._steps:
            self._label = record_function(f"ProfilerStep#{self.step_num}").__enter__()

    def _end_step(self) -> None:
        if self._label is not None:
            self._label.__exit__(None, None, None)
            self._label = None

    def _begin(self) -> None:
        self._recorder = Recorder(self.record_shapes)
        self._recorder.start()

    def _stop_recorder(self) -> None:
        if self._recorder is not None:
            self._recorder.stop()

    def _finish(self) -> None:
        self._stop_recorder()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def events(self) -> EventList:
        """What was recorded. AssertionError if nothing was yet."""
        if self._recorder is None:
            raise AssertionError("Profiler must be initialized before accessing events")
        return self._recorder.events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **kwargs: Any) -> EventList:
        """What was recorded, added up by name."""
        return self.events().key_averages(group_by_input_shape)

    def export_chrome_trace(self, path: Any) -> None:
        """Write what was recorded for chrome://tracing or Perfetto; gzipped if the name ends in ".gz"."""
        self.events().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> NoReturn:
        """NotImplementedError: stacks are not recorded."""
        raise NotImplementedError("torch.profiler.profile.export_stacks: stacks are not recorded")

    def add_metadata(self, key: str, value: str) -> None:
        """Accepted."""

    add_metadata_json = add_metadata


class ExecutionTraceObserver:
    """NotImplementedError: PyTorch's execution traces are not written."""

    def __init__(self) -> None:
        raise NotImplementedError("torch.profiler.ExecutionTraceObserver: execution traces are not written")
