"""``vmap``, ``grad`` and ``grad_and_value`` where functorch has them."""

from collections.abc import Callable
from typing import Any

from torchlike.func import grad as grad
from torchlike.func import grad_and_value as grad_and_value
from torchlike.func import vmap as vmap
from torchlike.func._vmap import batch_size
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def chunk_vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2
) -> Callable:
    """:func:`vmap` in ``chunks`` parts, as equal as they can be; all at once for 1.

    Raises RuntimeError unless ``chunks`` is positive.

    >>> import torchlike as torch
    >>> from torchlike._functorch.apis import chunk_vmap
    >>> chunk_vmap(torch.sin, chunks=2)(torch.zeros(3))
    tensor([0., 0., 0.])
    """
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks} (chunk_vmap)")

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        size = batch_size(in_dims, args, func)
        return vmap(func, in_dims, out_dims, randomness, chunk_size=max(1, -(-size // chunks)))(*args, **kwargs)

    return wrapped
