"""CUDA's profiler, which torchlike does not drive."""

from typing import Any, NoReturn

from torchlike.cuda._devices import demand
from torchlike.interop.alias import missing_names

__all__ = ["init", "profile", "start", "stop"]

__getattr__ = missing_names(__name__)


def _refuse(name: str) -> NoReturn:
    demand()
    raise NotImplementedError(f"torch.cuda.profiler.{name}: use torch.profiler.profile or jax.profiler.trace")


def init(*args: Any, **kwargs: Any) -> NoReturn:
    """AssertionError without a GPU, NotImplementedError with one."""
    _refuse("init")


def start() -> NoReturn:
    """AssertionError without a GPU, NotImplementedError with one."""
    _refuse("start")


def stop() -> NoReturn:
    """AssertionError without a GPU, NotImplementedError with one."""
    _refuse("stop")


def profile() -> NoReturn:
    """AssertionError without a GPU, NotImplementedError with one."""
    _refuse("profile")
