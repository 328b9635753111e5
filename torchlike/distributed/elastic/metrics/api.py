"""``torch.distributed.elastic.metrics.api``: who is told of numbers, by the group they belong to."""

import abc
import functools
import time
from collections import namedtuple
from typing import Any

__all__ = [
    "ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricStream", "MetricsConfig", "NullMetricHandler",
    "configure", "get_elapsed_time_ms", "getStream", "prof", "publish_metric", "put_metric",
]  # fmt: skip

MetricData = namedtuple("MetricData", ["timestamp", "group_name", "name", "value"])


class MetricsConfig:
    """Options of handlers."""

    __slots__ = ["params"]

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = params or {}


class MetricHandler(abc.ABC):
    """Is told of numbers."""

    @abc.abstractmethod
    def emit(self, metric_data: Any) -> None:
        """Take a number."""


class ConsoleMetricHandler(MetricHandler):
    """Prints them."""

    def emit(self, metric_data: Any) -> None:
        print(f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}")


class NullMetricHandler(MetricHandler):
    """Forgets them."""

    def emit(self, metric_data: Any) -> None:
        """Nothing."""


class MetricStream:
    """The numbers of a group."""

    def __init__(self, group_name: str, handler: MetricHandler) -> None:
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name: str, metric_value: int) -> None:
        """Tell the handler of a number."""
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


_handlers: dict[str, MetricHandler] = {}
_usual: list[MetricHandler] = [NullMetricHandler()]


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Let a handler be told of the numbers of a group, or of all that have none."""
    if group is None:
        _usual[0] = handler
    else:
        _handlers[group] = handler


def getStream(group: str) -> MetricStream:
    """The numbers of a group."""
    return MetricStream(group, _handlers.get(group, _usual[0]))


def put_metric(metric_name: str, metric_value: int, metric_group: str = "torchelastic") -> None:
    """Tell a number."""
    getStream(metric_group).add_value(metric_name, metric_value)


def publish_metric(metric_group: str, metric_name: str, metric_value: int) -> None:
    """As :func:`put_metric`, under an older name."""
    put_metric(metric_name, metric_value, metric_group)


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Milliseconds since a time."""
    return int((time.time() - start_time_in_seconds) * 1000)


def prof(fn: Any = None, group: str = "torchelastic") -> Any:
    """A decorator that tells of calls, failures and how long they take."""

    def wrap(f: Any) -> Any:
        @functools.wraps(f)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            begun, name = time.time(), f.__qualname__.replace("<locals>.", "")
            try:
                result = f(*args, **kwargs)
            except Exception:
                put_metric(f"{name}.failure", 1, group)
                raise
            else:
                put_metric(f"{name}.success", 1, group)
            finally:
                put_metric(f"{name}.duration.ms", get_elapsed_time_ms(begun), group)
            return result

        return wrapper

    return wrap(fn) if fn else wrap


def initialize_metrics(cfg: MetricsConfig | None = None) -> None:
    """Nothing: handlers are configured by :func:`configure`."""
