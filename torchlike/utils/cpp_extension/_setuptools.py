"""Packaging of extensions by setuptools, which this package does not do: the names exist and say what to use."""

from typing import Any, NoReturn

CUDA_HOME: str | None = None


def _refused(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}: building an extension when a package is installed is not supported; ship its C++ sources and call "
        "torch.utils.cpp_extension.load(name, sources), which builds them on first use and keeps the library"
    )


def CppExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: ship the sources, and build them by ``load`` on first use."""
    _refused("CppExtension")


def CUDAExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: C++ extensions run on the CPU."""
    _refused("CUDAExtension")


def SyclExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: C++ extensions run on the CPU."""
    _refused("SyclExtension")


class BuildExtension:
    """Raises NotImplementedError when made: ship the sources, and build them by ``load`` on first use."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refused("BuildExtension")

    @classmethod
    def with_options(cls, **options: Any) -> NoReturn:
        """Raises NotImplementedError, as making one does."""
        _refused("BuildExtension")
