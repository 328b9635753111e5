"""``torch.jit.isinstance``."""

from typing import Any

from torchlike._jit_internal import _isinstance


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether ``obj`` is of a type that may say what its items are, or of any in a tuple of types.

    An empty list or dict fits any type of items, and a warning says so. Raises RuntimeError: a container's type
    without that of its items.

    >>> import torchlike as torch
    >>> torch.jit.isinstance([1, 2], list[int]), torch.jit.isinstance([1, 2.0], list[int])
    (True, False)
    """
    return _isinstance(obj, target_type)
