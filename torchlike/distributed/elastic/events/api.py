"""torch.distributed.elastic.events.api: the events."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, ClassVar, Self

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


class _Line:
    """What a line of JSON says; ``_teller`` is the field that is one of an Enum, which ``_kind`` is."""

    _teller: ClassVar[str]
    _kind: ClassVar[type[Enum]]

    def __str__(self) -> str:
        return self.serialize()

    @classmethod
    def deserialize(cls, data: Any) -> Self:
        """The event of a line of JSON."""
        if isinstance(data, cls):
            return data
        found: dict[str, Any] = json.loads(data)
        return cls(**{**found, cls._teller: cls._kind[found[cls._teller]]})

    def serialize(self) -> str:
        """It as a line of JSON."""
        return json.dumps(asdict(self))  # type: ignore[call-overload]


@dataclass
class Event(_Line):
    """What happened: a name, who tells, when (in milliseconds) and what else there is to know."""

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, EventMetadataValue] = field(default_factory=dict)

    _teller, _kind = "source", EventSource


@dataclass
class RdzvEvent(_Line):
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

    _teller, _kind = "node_state", NodeState
