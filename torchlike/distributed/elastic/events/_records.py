"""What is recorded, as lines of a log."""

import logging
import os
import socket
import sys
import traceback

from torchlike.distributed.elastic.events.api import Event, NodeState, RdzvEvent

_HANDLERS = {"null": logging.NullHandler, "console": logging.StreamHandler, "dynamic_rendezvous": logging.NullHandler}


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """The handler "console", or one that drops all. KeyError for another name."""
    return _HANDLERS[destination]()


def _logger(destination: str) -> logging.Logger:
    logger = logging.getLogger(f"torchelastic-events-{destination}")
    if not logger.handlers:
        logger.setLevel(os.environ.get("LOGLEVEL", "INFO"))
        logger.propagate = False
        logger.addHandler(get_logging_handler(destination))
    return logger


def record(event: Event, destination: str = "null") -> None:
    """Write an event as a line of JSON, to "console" or nowhere."""
    _logger(destination).info(event.serialize())


def record_rdzv_event(event: RdzvEvent) -> None:
    """Nothing: events of a rendezvous are written nowhere."""
    _logger("dynamic_rendezvous").info(event.serialize())


def construct_and_record_rdzv_event(
    run_id: str, message: str, node_state: NodeState, name: str = "", hostname: str = "", pid: int | None = None,
    master_endpoint: str = "", local_id: int | None = None, rank: int | None = None,
) -> None:  # fmt: skip
    """:func:`record_rdzv_event` of an event of this process, with the error that is handled, if one is."""
    error = "".join(traceback.format_exc()) if sys.exc_info()[0] is not None else ""
    event = RdzvEvent(
        name, run_id, message, hostname or socket.getfqdn(), os.getpid() if pid is None else pid, node_state,
        master_endpoint, rank, local_id, error,
    )  # fmt: skip
    record_rdzv_event(event)
