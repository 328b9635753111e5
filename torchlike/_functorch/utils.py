"""``torch._functorch.utils``."""

import contextlib
from collections.abc import Iterator

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
argnums_t = int | tuple[int, ...]


@contextlib.contextmanager
def enable_single_level_autograd_function() -> Iterator[None]:
    """A context around calls of custom Functions within transforms, which are taken in any case."""
    yield
