"""``torch.distributed.c10d_logger``: decorators of collectives, which log nothing here."""

import functools
import logging
from collections.abc import Callable
from typing import Any

__all__: list[str] = []

_c10d_logger = logging.getLogger("c10d-NullHandler-default")
_c10d_logger.addHandler(logging.NullHandler())
_c10d_logger.setLevel(logging.DEBUG)
_c10d_logger.propagate = False


def _exception_logger(func: Callable[..., Any]) -> Callable[..., Any]:
    """``func``, whose errors are logged."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except Exception as error:
            _c10d_logger.debug({"func_name": func.__name__, "error": str(error)})
            raise

    return wrapper


def _time_logger(func: Callable[..., Any]) -> Callable[..., Any]:
    """``func``."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapper
