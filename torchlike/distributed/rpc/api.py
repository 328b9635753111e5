"""torch.distributed.rpc.api: packages decorate functions with what it has when they are imported."""

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "calls in other processes are not supported; torch.distributed has collectives")


def _require_initialized(func: Callable) -> Callable:
    """A decorator of functions that need calls between processes: they raise RuntimeError, since there are none."""

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")

    return decorated
