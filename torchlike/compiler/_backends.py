"""What ``torch.compile`` is asked for beside the function: backends, modes and options."""

from collections.abc import Callable, Iterable
from typing import Any

from torchlike.compiler._failures import InvalidBackend
from torchlike.compiler._settings import INDUCTOR

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_BACKENDS = ("cudagraphs", "inductor", "openxla")
_DEBUG = ("aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner", "eager", "eager_noexcept")
_OWN_OPTIONS = ("bucket", "guard_filter_fn")


class Default:
    """The backend that is meant where none is named."""

    backend: str | Callable = "inductor"


def list_backends(exclude_tags: Iterable[str] | None = ("debug", "experimental")) -> list[str]:
    """The names that ``torch.compile(backend=...)`` takes; whichever is named, XLA compiles.

    >>> import torchlike as torch
    >>> "inductor" in torch.compiler.list_backends()
    True
    """
    return sorted(_BACKENDS if "debug" in (exclude_tags or ()) else _BACKENDS + _DEBUG)


def set_default_backend(backend: str | Callable | None) -> None:
    """Name the backend of ``torch.compile`` where none is given; None takes that back.

    Raises:
        InvalidBackend: there is none of this name. NotImplementedError: a function.
    """
    _check_backend(backend)
    Default.backend = "inductor" if backend is None else backend


def get_default_backend() -> str | Callable:
    """The backend of ``torch.compile`` where none is named."""
    return Default.backend


def check(backend: Any, mode: Any, options: Any) -> None:
    """Raise the error of a backend, mode or option that does not exist."""
    _check_backend(backend)
    options = options or {}
    if (Default.backend if backend is None else backend) != "inductor":
        return
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    for name, value in options.items():
        _check_option(name.replace("-", "_"), value)


def _check_backend(backend: Any) -> None:
    if callable(backend):
        raise NotImplementedError(
            f"torch.compile(backend={backend!r}): a function as backend is given torch.fx graphs, which torch.compile "
            "does not make here; leave backend out, and XLA compiles"
        )
    if backend is not None and backend not in _BACKENDS + _DEBUG:
        known = "see `torch._dynamo.list_backends()` for available backends."
        raise InvalidBackend(f"Invalid backend: {backend!r}, {known}")


def _check_option(name: str, value: Any) -> None:
    if name in _OWN_OPTIONS:
        return
    if name not in INDUCTOR:
        known = [*_OWN_OPTIONS, *sorted(INDUCTOR)]
        raise RuntimeError(f"Unexpected optimization option {name}, known options are {known}")
    expected = type(INDUCTOR[name])
    if INDUCTOR[name] is not None and type(value) is not expected:
        given = type(value).__name__
        raise RuntimeError(f"Unexpected type of attr {name}, got {given} should be {expected.__name__}")
