"""``torch.distributed.elastic.utils.logging``: loggers by the name of who asks."""

import logging
import os
import sys

__all__ = ["get_logger"]


def get_logger(name: str | None = None) -> logging.Logger:
    """A logger at the level that LOGLEVEL says; without a name, of the module that asks."""
    found = logging.getLogger(name or sys._getframe(1).f_globals.get("__name__"))
    found.setLevel(os.environ.get("LOGLEVEL", "WARNING"))
    return found
