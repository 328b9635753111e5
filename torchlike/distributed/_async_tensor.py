"""The class of what functional collectives give outside of compiled functions."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from torchlike._base.state import state
from torchlike._core.overrides.torch_function import arm, disabled
from torchlike._core.tensor.tensor import Tensor, alias

__all__ = ["AsyncCollectiveTensor", "awaited", "returns_async", "waits"]


class AsyncCollectiveTensor(Tensor):
    """A result of a functional collective, which code written for PyTorch may ask to :meth:`wait`.

    Its numbers are there when the collective returns. As in PyTorch its views are of this class and what is computed
    from it is a plain tensor.

    >>> import torchlike as torch
    >>> from torchlike.distributed._functional_collectives import AsyncCollectiveTensor
    >>> late = AsyncCollectiveTensor(torch.ones(2))
    >>> late[:1], late + 1
    (AsyncCollectiveTensor(tensor([1.])), tensor([2., 2.]))
    """

    completed = False

    @staticmethod
    def __new__(cls, elem: Tensor) -> Any:
        return waits(alias(elem, Tensor))

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if any(type(t).__torch_function__ not in _OWN for t in _tensors((args, kwargs))):
            return func(*awaited(args), **awaited(kwargs or {}))
        result = disabled(func, types, args, kwargs)
        if not isinstance(result, Tensor | tuple | list) or "wait_tensor" in getattr(func, "__name__", ""):
            return result
        storages = {id(t._storage) for t in _tensors((args, kwargs)) if isinstance(t, cls)}
        for t in _tensors(result):
            if type(t) is Tensor and id(t._storage) in storages:
                t.__class__ = cls
        return result

    def wait(self) -> Tensor:
        """The tensor as a plain one, which shares its memory and its history."""
        return self.as_subclass(Tensor)

    def trigger_wait(self) -> Tensor:
        """As :meth:`wait`."""
        return self.wait()

    elem = property(wait)

    def _get_acs_underlying_tensor(self) -> Tensor:
        return self.wait()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"AsyncCollectiveTensor({self.wait()!r})"


_OWN = (Tensor.__torch_function__, AsyncCollectiveTensor.__torch_function__)


def _tensors(given: Any) -> list[Tensor]:
    if isinstance(given, Tensor):
        return [given]
    if isinstance(given, dict):
        return _tensors([*given.values()])
    return [t for x in given for t in _tensors(x)] if isinstance(given, list | tuple) else []


def awaited(given: Any) -> Any:
    """The same with plain tensors for those of the class, in lists, tuples and dicts too."""
    if isinstance(given, AsyncCollectiveTensor):
        return given.wait()
    if isinstance(given, dict):
        return {k: awaited(v) for k, v in given.items()}
    if isinstance(given, list) or type(given) is tuple:
        return type(given)(awaited(x) for x in given)
    return given


def waits(result: Any) -> Any:
    """A new tensor, or each of a list, as one of the class; plain while a program is traced."""
    if state.capture is not None:
        return result
    arm()
    for t in _tensors(result):
        if type(t) is Tensor:
            t.__class__ = AsyncCollectiveTensor
    return result


def returns_async(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: results of the function are of the class."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return waits(function(*args, **kwargs))

    return called
