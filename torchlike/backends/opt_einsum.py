"""The order of products in einsum, which XLA's einsum takes from the package opt_einsum."""

import importlib.util

from torchlike.backends._flags import flags as _flags
from torchlike.backends._flags import set_flags as _set_flags
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

enabled = True
strategy: str | None = "auto"
flags = _flags(globals(), ("enabled", "strategy"))
set_flags = _set_flags(globals(), ("enabled", "strategy"))


def is_available() -> bool:
    """Whether the package opt_einsum is installed; jax needs it."""
    return importlib.util.find_spec("opt_einsum") is not None
