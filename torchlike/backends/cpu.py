"""What the CPU can do."""

import platform
from pathlib import Path

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def get_cpu_capability() -> str:
    """The widest vectors that the processor has: "AVX512", "AVX2", "NEON" or "DEFAULT".

    >>> import torchlike as torch
    >>> torch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "NEON", "DEFAULT")
    True
    """
    if platform.machine() in ("aarch64", "arm64"):
        return "NEON"
    about = Path("/proc/cpuinfo")
    flags = about.read_text().split() if about.exists() else []
    return "AVX512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "DEFAULT"
