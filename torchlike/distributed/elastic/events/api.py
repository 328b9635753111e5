"""torch.distributed.elastic.events.api: the events."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

__all__ = ["Event", "EventMetadataValue", "EventSource", "NodeState", "RdzvEvent"]

EventMetadataValue = str | int | float | bool | None


class EventSource(str, Enum):  # noqa: UP042 as PyTorch's, whose texts have the class before them
    """Who tells of an event."""

    AGENT = "AGENT"
    WORKER = "WORKER"


class NodeState(str, Enum):  # noqa: UP042
    """How far a machine is."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass
class Event:
    """What happened: a name, who tells, when (in milliseconds) and what else there is to know."""

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, EventMetadataValue] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.serialize()

    @staticmethod
    def deserialize(data: str | Event) -> Event:
        """The event of a line of JSON."""
        if isinstance(data, Event):
            return data
        found: dict[str, Any] = json.loads(data)
        return Event(**{**found, "source": EventSource[found["source"]]})

    def serialize(self) -> str:
        """It as a line of JSON."""
        return json.dumps(asdict(self))


@dataclass
class RdzvEvent:
    """What happened in a rendezvous, and where."""

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    def __str__(self) -> str:
        return self.serialize()

    @staticmethod
    def deserialize(data: str | RdzvEvent) -> RdzvEvent:
        """The event of a line of JSON."""
        if isinstance(data, RdzvEvent):
            return data
        found: dict[str, Any] = json.loads(data)
        return RdzvEvent(**{**found, "node_state": NodeState[found["node_state"]]})

    def serialize(self) -> str:
        """It as a line of JSON."""
        return json.dumps(asdict(self))
