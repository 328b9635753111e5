"""PyTorch's names for its attention kernels. XLA compiles one kernel, whatever is asked for."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torchlike.backends.cuda import SDPBackend as SDPBackend

WARN_FOR_UNFUSED_KERNELS = False


_ALL = (
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.OVERRIDEABLE,
)


class _Allowed(threading.local):
    """The kernels that a thread allows, the preferred one first."""

    backends: tuple[SDPBackend, ...] = _ALL


_ALLOWED = _Allowed()


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The kernels that :func:`sdpa_kernel` allows in this thread."""
    return list(_ALLOWED.backends)


def _backend_from_string(name: str) -> SDPBackend:
    return SDPBackend[name]


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict[Any, Any]]:
    """Accepts a choice of attention kernels; the result is the same inside and outside.

    Raises:
        AssertionError: ``backends`` is neither an SDPBackend nor a list of them.

    >>> import torchlike as torch
    >>> x = torch.ones(1, 1, 2, 4)
    >>> with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
    ...     torch.nn.functional.scaled_dot_product_attention(x, x, x).shape
    torch.Size([1, 1, 2, 4])
    """
    if not isinstance(backends, list | SDPBackend):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, "
            f"got {type(backends).__name__}"
        )
    given = backends if isinstance(backends, list) else [backends]
    if not all(isinstance(b, SDPBackend) for b in given):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {given}"
        )
    before = _ALLOWED.backends
    _ALLOWED.backends = tuple(dict.fromkeys(given)) if set_priority else tuple([b for b in _ALL if b in given])
    try:
        yield {}
    finally:
        _ALLOWED.backends = before


# -- kernels that others register ------------------------------------------------------------------

_KNOWN = ("FA3", "FA4")  # PyTorch's, for NVIDIA's GPUs


class _Registry:
    """The registered kernels by name, and the one that is active."""

    def __init__(self) -> None:
        self.register: dict[str, Callable[[], Any]] = {}
        self.active: str | None = None
        self.handle: Any = None


_REGISTRY = _Registry()


def register_flash_attention_impl(impl: str, *, register_fn: Callable[[], Any]) -> None:
    """Register what :func:`activate_flash_attention_impl` calls for this name; it may give a handle with ``remove()``.

    >>> import torchlike as torch
    >>> torch.nn.attention.register_flash_attention_impl("mine", register_fn=lambda: None)
    >>> "mine" in torch.nn.attention.list_flash_attention_impls()
    True
    """
    _REGISTRY.register[impl] = register_fn


def list_flash_attention_impls() -> list[str]:
    """The names of kernels that PyTorch knows, and of those registered."""
    return sorted({*_KNOWN, *_REGISTRY.register})


def current_flash_attention_impl() -> str | None:
    """The name of the active kernel; None for XLA's own."""
    return _REGISTRY.active


def activate_flash_attention_impl(impl: str) -> None:
    """Call what was registered under this name; it is active if that gives a handle.

    Raises:
        ValueError: nobody registered it. NotImplementedError: it is one of PyTorch's own, which are for CUDA.
    """
    if impl not in _REGISTRY.register:
        if impl in _KNOWN:
            raise NotImplementedError(f"activate_flash_attention_impl({impl!r}): XLA compiles attention itself here")
        raise ValueError(
            f"Unknown flash attention impl {impl!r}. Available implementations: {list_flash_attention_impls()}"
        )
    handle = _REGISTRY.register[impl]()
    if handle is not None:
        _REGISTRY.handle, _REGISTRY.active = handle, impl


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Make XLA's own kernel the active one again, and call ``remove()`` of the handle that activating gave."""
    handle, _REGISTRY.handle, _REGISTRY.active = _REGISTRY.handle, None, None
    if handle is not None:
        handle.remove()
