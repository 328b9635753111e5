"""Events of a profile: ranges of time on the host, their averages, and how they are shown."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from torchlike.interop.alias import missing_names

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]

__getattr__ = missing_names(__name__)

OPERATOR, ANNOTATION, KERNEL, COMPILATION = "cpu_op", "user_annotation", "kernel", "compilation"


class Interval:
    """A stretch of time, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """Its length."""
        return self.end - self.start


class FunctionEvent:
    """One range: an operator's call, a kernel, a compilation, or what ``record_function`` names.

    Attributes:
        id, node_id: numbers of it and of the process, as they were given. name, category: what it is called and of
            which of the four kinds it is. thread: the thread's number.
        time_range: when, in microseconds. input_shapes: of the tensors, if they were asked for.
        cpu_children: the ranges directly inside it.
    """

    count = 1
    is_async = False

    def __init__(
        self, id: int, name: str, thread: int, start_us: float, end_us: float, *, category: str = "",
        input_shapes: Any = None, node_id: int = -1, **facts: Any,
    ) -> None:  # fmt: skip
        self.id, self.node_id, self.trace_name = id, node_id, name
        self.__dict__.update(facts)
        self.name = self.key = "ProfilerStep*" if name.startswith("ProfilerStep#") else name
        self.category, self.thread, self.input_shapes = category, thread, input_shapes
        self.time_range = Interval(start_us, end_us)
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    @property
    def cpu_time_total(self) -> float:
        """How long it took, in microseconds."""
        return self.time_range.elapsed_us()

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """:attr:`cpu_time_total` less that of what is inside it."""
        return max(0.0, self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children))

    def __repr__(self) -> str:
        start, end = self.time_range.start, self.time_range.end
        return f"<FunctionEvent {self.category} {self.name} {start:.0f}-{end:.0f}us thread={self.thread}>"


class FunctionEventAvg:
    """All events of one name (and, if asked for, of the same input shapes), added up."""

    def __init__(self, name: str, category: str, shapes: Any = None) -> None:
        self.key, self.category, self.input_shapes = name, category, shapes
        self.count, self.cpu_time_total, self.self_cpu_time_total = 0, 0.0, 0.0

    def add(self, other: FunctionEvent) -> FunctionEventAvg:
        """Take in one more."""
        self.count += 1
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        return self

    @property
    def cpu_time(self) -> float:
        """The mean, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return f"<FunctionEventAvg key={self.key} count={self.count} cpu_time={_time(self.cpu_time)}>"


_ORDERS: dict[str, Callable[[Any], Any]] = {
    "cpu_time": lambda e: -e.cpu_time,
    "cpu_time_total": lambda e: -e.cpu_time_total,
    "self_cpu_time_total": lambda e: -e.self_cpu_time_total,
    "count": lambda e: -e.count,
}


class EventList(list):
    """Events, or their averages."""

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all operators and annotations, less what is counted twice."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shape: bool = False, **kwargs: Any) -> EventList:
        """The events added up by name."""
        groups: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shape else None
            key = event.key, event.category, str(shapes)
            groups.setdefault(key, FunctionEventAvg(event.key, event.category, shapes)).add(event)
        return EventList(groups.values())

    def _populate_cpu_children(self) -> None:
        """Put each event under the one of its thread that was the last to begin before it and ends after it."""
        open_events: dict[int, list[FunctionEvent]] = {}
        for event in sorted(self, key=lambda e: (e.time_range.start, -e.time_range.end)):
            stack = open_events.setdefault(event.thread, [])
            while stack and not stack[-1].time_range.start <= event.time_range.start <= event.time_range.end <= (
                stack[-1].time_range.end
            ):
                stack.pop()
            if stack:
                event.cpu_parent = stack[-1]
                stack[-1].cpu_children.append(event)
            stack.append(event)

    def total_average(self) -> FunctionEventAvg:
        """All events as one."""
        total = FunctionEventAvg("Total", "")
        for event in self:
            total.add(event)
        return total

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
        top_level_events_only: bool = False, time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """The events as a table, a line each.

        Args:
            sort_by: "cpu_time", "cpu_time_total", "self_cpu_time_total" or "count". row_limit: how many lines.

        Raises:
            ValueError: it cannot sort by that.
        """
        rows: Iterable[Any] = self
        if sort_by is not None:
            order = _ORDERS.get(sort_by.replace("cuda", "cpu").replace("device", "cpu"))
            if order is None:
                raise ValueError(f"table(): cannot sort by {sort_by!r}, expected one of {', '.join(_ORDERS)}")
            rows = sorted(self, key=order)
        if top_level_events_only:
            rows = [event for event in rows if getattr(event, "cpu_parent", None) is None]
        rows, total = list(rows)[: None if row_limit < 0 else row_limit], self.self_cpu_time_total or 1.0
        with_shapes = any(event.input_shapes for event in rows)
        head = ["Name", "Kind", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
        lines = [[*head, "Input Shapes"] if with_shapes else head]
        for e in rows:
            name = e.key if len(e.key) <= max_name_column_width else e.key[: max_name_column_width - 3] + "..."
            shares = [f"{100 * share / total:.2f}%" for share in (e.self_cpu_time_total, e.cpu_time_total)]
            cells = [name, e.category, shares[0], _time(e.self_cpu_time_total), shares[1], _time(e.cpu_time_total)]
            cells += [_time(e.cpu_time), str(e.count)]
            lines.append([*cells, str(e.input_shapes)[:max_shapes_column_width]] if with_shapes else cells)
        text = _columns(lines, header)
        return f"{text}\nSelf CPU time total: {_time(self.self_cpu_time_total)}\n"

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | os.PathLike) -> None:
        """Write the events as a trace that chrome://tracing and Perfetto read; gzipped if the name ends in ".gz"."""
        process = os.getpid()
        events = [
            {
                "ph": "X", "cat": e.category, "name": e.trace_name, "pid": process, "tid": e.thread,
                "ts": e.time_range.start, "dur": e.cpu_time_total,
                "args": {} if e.input_shapes is None else {"Input Dims": e.input_shapes},
            }
            for e in self
        ]  # fmt: skip
        text = json.dumps({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": events})
        opened: Any = gzip.open if os.fspath(path).endswith(".gz") else open
        with opened(path, "wt", encoding="utf-8") as file:
            file.write(text)


def _time(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def _columns(lines: list[list[str]], header: str | None) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    rule = "  ".join("-" * width for width in widths)
    text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    top = [] if header is None else [header]
    return "\n".join([*top, rule, text[0], rule, *text[1:], rule])
