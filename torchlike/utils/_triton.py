"""``torch.utils._triton``: whether Triton's kernels can be used. They cannot: XLA compiles."""

from torchlike.interop.alias import missing_names

__all__ = ["get_triton_version", "has_triton", "has_triton_package", "has_triton_tma", "has_triton_tma_device"]
__getattr__ = missing_names(__name__)


def get_triton_version(fallback: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """``fallback``: no version of Triton is used."""
    return fallback


def has_triton() -> bool:
    """False: nothing here compiles by Triton."""
    return False


has_triton_package = has_triton_tma = has_triton_tma_device = has_triton
