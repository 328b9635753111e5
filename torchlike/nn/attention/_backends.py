"""PyTorch's names for its attention kernels. XLA compiles one kernel, whatever is asked for."""

import threading
from collections.abc import Iterator
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
