"""torch._dynamo.utils: what was counted of compilation, and helpers that programs import from there."""

import contextlib
import functools
import warnings
from collections.abc import Iterator

from torchlike._dynamo import config
from torchlike.compiler._function import counters as counters
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def is_compile_supported(device_type: str) -> bool:
    """Whether ``torch.compile`` compiles for a type of device: for every one that there is."""
    return True


@functools.lru_cache(None)
def warn_once(msg: str, stacklevel: int = 1) -> None:
    """A UserWarning, for each message once in a process."""
    warnings.warn(msg, UserWarning, stacklevel=stacklevel + 1)


@contextlib.contextmanager
def disable_cache_limit() -> Iterator[None]:
    """In this context a function is compiled for any number of kinds of inputs."""
    with config.patch(recompile_limit=2**31 - 1):
        yield
