"""What ``torch.compile`` is asked for beside the function: backends, modes and options."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torchlike.compiler._failures import InvalidBackend
from torchlike.compiler._function import Compiled
from torchlike.compiler._settings import INDUCTOR

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_BACKENDS = ("cudagraphs", "inductor", "openxla")
_DEBUG = ("aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner", "eager", "eager_noexcept")
_OWN_OPTIONS = ("bucket", "guard_filter_fn")


registered: dict[str, Callable] = {}  # the functions of torch._dynamo.register_backend
_tags: dict[str, set[str]] = {}


class Default:
    """The backend that is meant where none is named."""

    backend: str | Callable = "inductor"


def list_backends(exclude_tags: Iterable[str] | None = ("debug", "experimental")) -> list[str]:
    """The names that ``torch.compile(backend=...)`` takes; whichever is named, XLA compiles.

    >>> import torchlike as torch
    >>> "inductor" in torch.compiler.list_backends()
    True
    """
    hidden = {name for name, tags in _tags.items() if tags.intersection(exclude_tags or ())}
    known = _BACKENDS if "debug" in (exclude_tags or ()) else _BACKENDS + _DEBUG
    return sorted({*known, *registered} - hidden)


def register_backend(
    compiler_fn: Callable | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Callable:
    """Give a backend a name for ``torch.compile(backend=name)``; also a decorator. Returns the function.

    Args:
        compiler_fn: given a GraphModule and a list of example inputs, it returns a function of these inputs.
        name: that of the function by default. tags: kinds of backends, which ``list_backends`` may leave out.

    Raises:
        AssertionError: the name is taken.

    >>> import torchlike as torch
    >>> @torch._dynamo.register_backend(name="plain")
    ... def plain(graph, inputs):
    ...     return graph.forward
    >>> torch.compile(torch.nn.ReLU(), backend="plain")(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise AssertionError(f"compiler_fn must be callable, got {type(compiler_fn)}")
    name = name or compiler_fn.__name__
    if name in registered or name in _BACKENDS + _DEBUG:
        raise AssertionError(f"duplicate name: {name}")
    registered[name], _tags[name] = compiler_fn, set(tags)
    return compiler_fn


def lookup_backend(compiler_fn: str | Callable) -> Callable:
    """The function behind a name: of (GraphModule, example inputs), it returns a function of these inputs.

    A function is given back; the names that torchlike knows itself give the GraphModule's ``forward``, which "inductor"
    compiles by XLA.

    Raises:
        InvalidBackend: there is none of this name.

    >>> import torchlike as torch
    >>> graph = torch.fx.symbolic_trace(lambda x: x * 2)
    >>> torch._dynamo.lookup_backend("eager")(graph, [torch.ones(2)])(torch.ones(2))
    tensor([2., 2.])
    """
    if not isinstance(compiler_fn, str):
        return compiler_fn
    _check_backend(compiler_fn)
    if compiler_fn in registered:
        return registered[compiler_fn]
    return _eager if compiler_fn in _DEBUG else _by_xla


def _eager(gm: Any, example_inputs: Sequence[Any]) -> Callable:
    return gm.forward


def _by_xla(gm: Any, example_inputs: Sequence[Any]) -> Callable:
    return Compiled(gm.forward)


def function_of(backend: str | Callable | None) -> Callable | None:
    """The function that is meant as backend; None: XLA compiles."""
    backend = Default.backend if backend is None else backend
    return registered.get(backend) if isinstance(backend, str) else backend


def set_default_backend(backend: str | Callable | None) -> None:
    """Name the backend of ``torch.compile`` where none is given; None takes that back.

    Raises:
        InvalidBackend: there is none of this name.
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
    if backend is None or callable(backend):
        return
    if not isinstance(backend, str) or backend not in (*_BACKENDS, *_DEBUG, *registered):
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
