"""The classes of data pipes, and how a pipe becomes a method of all others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeVar

from torchlike.utils.data.dataset import Dataset, IterableDataset

T_co = TypeVar("T_co", covariant=True)
_Pipe = TypeVar("_Pipe", bound=type)


class _Functional:
    """Whose methods are beside its own those that :func:`functional_datapipe` gave to its kind."""

    functions: ClassVar[dict[str, Callable]]

    def __getattr__(self, attribute_name: str) -> Any:
        made = type(self).functions.get(attribute_name)
        if made is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute_name}'")
        return partial(made, self)

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: type) -> None:
        """Let ``pipe.function_name(...)`` make a ``cls_to_register(pipe, ...)``. Exception if the name is taken."""
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")  # noqa: TRY002
        cls.functions[function_name] = cls_to_register

    def __repr__(self) -> str:
        return type(self).__qualname__

    def __reduce_ex__(self, *args: Any) -> Any:
        return object.__reduce_ex__(self, *args)


class IterDataPipe(_Functional, IterableDataset[T_co]):
    """An iterable dataset that other pipes are made from, by methods: ``pipe.map(f)``, ``pipe.batch(2)``.

    >>> from torchlike.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2, 3]).map(lambda x: x * 2).filter(lambda x: x > 2))
    [4, 6]
    """

    functions: ClassVar[dict[str, Callable]] = {}

    def __iter__(self) -> Any:
        return self


class MapDataPipe(_Functional, Dataset[T_co]):
    """A dataset with indices that other pipes are made from, by methods.

    >>> from torchlike.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper([1, 2]).map(lambda x: x * 2)[1]
    4
    """

    functions: ClassVar[dict[str, Callable]] = {}


class functional_datapipe:  # noqa: N801
    """Decorate a subclass of IterDataPipe or MapDataPipe to make it a method of all pipes of its kind.

    Exception if the name is taken. Other classes stay as they are.
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: _Pipe) -> _Pipe:
        for kind in (IterDataPipe, MapDataPipe):
            if isinstance(cls, type) and issubclass(cls, kind):
                kind.register_datapipe_as_function(self.name, cls)
        return cls


class DataChunk(list):
    """A batch that a pipe makes: a list."""

    def raw_iterator(self) -> Any:
        """Its items."""
        return iter(self)
