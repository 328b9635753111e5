"""cuSPARSELt, which torchlike does not call."""

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def is_available() -> bool:
    """Whether PyTorch's cuSPARSELt is there: no."""
    return False


def version() -> int | None:
    """Its version: none."""
    return None


def get_max_alg_id() -> int | None:
    """Its highest algorithm: none."""
    return None
