"""The arguments of modules that go on to the makers of their tensors."""

from typing import Any

_NAMES = {"device", "dtype", "memory_format"}


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """``kwargs`` of a module as those of the functions that make its tensors.

    Those in ``kwargs["factory_kwargs"]`` count too.

    Raises:
        TypeError: an argument other than ``device``, ``dtype`` and ``memory_format``, or one given twice.

    >>> import torchlike as torch
    >>> torch.nn.factory_kwargs({"device": "cpu"})
    {'device': 'cpu'}
    """
    given = dict(kwargs or {})
    inner = given.pop("factory_kwargs", {})
    unknown = given.keys() - _NAMES
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    for name in given.keys() & inner.keys():
        raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
    return {**inner, **given}
