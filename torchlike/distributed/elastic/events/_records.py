"""What is recorded, as lines of a log."""

import logging

_HANDLERS = {"null": logging.NullHandler, "console": logging.StreamHandler, "dynamic_rendezvous": logging.NullHandler}


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """The handler "console", or one that drops all. KeyError for another name."""
    return
