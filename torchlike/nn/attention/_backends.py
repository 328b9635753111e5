"""PyTorch's names for its attention kernels. XLA compiles one kernel, whatever is asked for."""

import enum
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class SDPBackend(enum.Enum):
    """The kernels that PyTorch chooses from."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Accepts a choice of attention kernels; the result is the same inside and outside.

    Raises:
        AssertionError: ``backends`` is neither an SDPBackend nor a list of them.

    >>> import torchlike as torch
    >>> x = torch.ones(1, 1, 2, 4)
    >>> with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
    ...     torch.nn.functional.scaled_dot_product_attention(x, x, x).shape
    torch.Size([1, 1, 2, 4])
    """
    given = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(given, list | tuple | set) or not all(isinstance(b, SDPBackend) for b in given):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    yield
