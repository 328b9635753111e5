"""Arguments and results, cut up over devices and brought together, with the containers they are in."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torchlike._base.frames import warn
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn.parallel import comm
from torchlike.nn.parallel._places import places_of

__all__ = ["gather", "is_namedtuple", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    """Whether ``obj`` is a named tuple, or the class of one."""
    return hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def scatter(inputs: Any, target_gpus: Iterable[Any], dim: int = 0) -> Any:
    """``inputs`` for each device: tensors are cut along ``dim``, everything else is the same for all.

    Tensors are also found in tuples, named tuples, lists and dicts. Where a tensor has fewer pieces than there are
    devices, so has the result.

    Args:
        inputs: a tensor or any object. target_gpus: devices, or numbers of them.

    >>> import torchlike as torch
    >>> torch.nn.parallel.scatter((torch.arange(4), "text"), ["cpu", "cpu"])
    [(tensor([0, 1]), 'text'), (tensor([2, 3]), 'text')]
    """
    return _scattered(inputs, list(target_gpus), dim)


def _scattered(x: Any, devices: list[Any], dim: int) -> Sequence[Any]:
    if isinstance(x, Tensor):
        return comm.scatter(x, devices, dim=dim)
    if isinstance(x, tuple | list | dict) and x:
        items = x.items() if isinstance(x, dict) else x
        made: Callable = type(x)._make if is_namedtuple(x) else type(x)  # type: ignore[union-attr]
        return [made(each) for each in zip(*[_scattered(v, devices, dim) for v in items], strict=False)]
    return [x for _ in devices]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Iterable[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Positional and keyword arguments for each device; the fewer of them are filled up with empty ones.

    >>> import torchlike as torch
    >>> torch.nn.parallel.scatter_gather.scatter_kwargs((1,), {"a": 2}, ["cpu", "cpu"])
    (((1,), (1,)), ({'a': 2}, {'a': 2}))
    """
    devices = list(target_gpus)
    positional = list(scatter(inputs, devices, dim)) if inputs else []
    named = list(scatter(kwargs, devices, dim)) if kwargs else []
    n = max(len(positional), len(named))
    positional += [() for _ in range(n - len(positional))]
    return tuple(positional), tuple(named + [{} for _ in range(n - len(named))])


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """The results of several devices as one, on ``target_device`` (-1 is the CPU): tensors are joined along ``dim``.

    Dicts are gathered key by key, tuples, named tuples and lists item by item. None gives None; tensors without
    dimensions give a vector, with a warning.

    Raises:
        ValueError: dicts with another number of keys. TypeError: results of which nothing can be made.

    >>> import torchlike as torch
    >>> torch.nn.parallel.gather([{"a": torch.ones(1)}, {"a": torch.zeros(2)}], "cpu")
    {'a': tensor([1., 0., 0.])}
    """
    place = places_of(["cpu" if target_device == -1 else target_device])[0]
    return _gathered(outputs, place, dim)


def _gathered(outputs: Sequence[Any], place: Any, dim: int) -> Any:
    first = outputs[0]
    if isinstance(first, Tensor):
        if dim == 0 and all(t.dim() == 0 for t in outputs):
            warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze "
                "and return a vector.",
                UserWarning,
            )
            outputs = [t.unsqueeze(0) for t in outputs]
        return comm.gather(outputs, dim, place)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(x) != len(first) for x in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)([(k, _gathered([x[k] for x in outputs], place, dim)) for k in first])
    if isinstance(first, str) or not hasattr(first, "__iter__"):
        raise TypeError(
            f"'{type(first).__name__}' object is not iterable: gather() takes tensors, and dicts and sequences of them"
        )
    made: Callable = type(first)._make if is_namedtuple(first) else type(first)
    return made([_gathered(x, place, dim) for x in zip(*outputs, strict=True)])
