"""The classes of data pipes, and how a pipe becomes a method of all others."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, TypeVar

from torchlike.utils.data.datapipes import _hook_iterator as passes
from torchlike.utils.data.dataset import Dataset, IterableDataset

T_co = TypeVar("T_co", covariant=True)
_Pipe = TypeVar("_Pipe", bound=type)


class _Functional:
    """Whose methods are beside its own those that :func:`functional_datapipe` gave to its kind."""

    functions: ClassVar[dict[str, Callable]]
    reduce_ex_hook: ClassVar[Callable | None] = None
    getstate_hook: ClassVar[Callable | None] = None
    str_hook: ClassVar[Callable | None] = None
    repr_hook: ClassVar[Callable | None] = None

    def __getattr__(self, attribute_name: str) -> Any:
        made = type(self).functions.get(attribute_name)
        if made is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute_name}'")
        return partial(made, self)

    @classmethod
    def register_function(cls, function_name: str, function: Callable) -> None:
        """Let ``pipe.function_name(...)`` call ``function(pipe, ...)``."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: type, enable_df_api_tracing: bool = False
    ) -> None:
        """Let ``pipe.function_name(...)`` make a ``cls_to_register(pipe, ...)``. Exception if the name is taken."""
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")  # noqa: TRY002
        cls.functions[function_name] = cls_to_register

    def __repr__(self) -> str:
        return type(self).repr_hook(self) if type(self).repr_hook is not None else type(self).__qualname__

    def __str__(self) -> str:
        return type(self).str_hook(self) if type(self).str_hook is not None else type(self).__qualname__

    def _state(self) -> dict:
        return self.__dict__

    def __getstate__(self) -> Any:
        made = type(self).getstate_hook
        return self._state() if made is None else made(self._state())

    def __reduce_ex__(self, *args: Any) -> Any:
        if type(self).reduce_ex_hook is not None:
            try:
                return type(self).reduce_ex_hook(self)
            except NotImplementedError:
                pass
        return object.__reduce_ex__(self, *args)

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable | None) -> None:
        """Let pickling ask ``hook_fn`` for what a pipe's state becomes; RuntimeError while there is another."""
        if cls.getstate_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing getstate_hook")
        cls.getstate_hook = hook_fn

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable | None) -> None:
        """Let pickling ask ``hook_fn`` what a pipe becomes; RuntimeError while there is another."""
        if cls.reduce_ex_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing reduce_ex_hook")
        cls.reduce_ex_hook = hook_fn


class IterDataPipe(_Functional, IterableDataset[T_co]):
    """An iterable dataset that other pipes are made from, by methods: ``pipe.map(f)``, ``pipe.batch(2)``.

    A pipe has one iterator at a time: a new one begins anew, by way of :meth:`reset`, and RuntimeError comes from
    those that were made before.

    >>> from torchlike.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(["a", "b", "4"]).map(str.upper).filter(str.isalpha))
    ['A', 'B']
    """

    functions: ClassVar[dict[str, Callable]] = {}
    _valid_iterator_id = 0
    _number_of_samples_yielded = 0
    _snapshot_state = passes._SnapshotState.NotStarted
    _fast_forward_iterator: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        passes.hook(cls)

    def __iter__(self) -> Any:
        return self

    def reset(self) -> None:
        """Called when a pass begins."""

    def _begin(self) -> int:
        return passes.begin(self)

    def _demand_valid(self, number: int) -> None:
        passes.demand_valid(self, number)

    def _state(self) -> dict:
        return {k: v for k, v in self.__dict__.items() if k != "_fast_forward_iterator"}


class MapDataPipe(_Functional, Dataset[T_co]):
    """A dataset with indices that other pipes are made from, by methods.

    >>> from torchlike.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper(["a", "b"]).map(str.upper)[1]
    'B'
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


def length(pipe: Any, *sources: Any) -> list[int]:
    """The lengths of pipes, for that of ``pipe``: TypeError where one has none."""
    try:
        return [len(source) for source in sources]
    except TypeError:
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length") from None


class DataChunk(list):
    """A batch that a pipe makes: a list."""

    def as_str(self, indent: str = "") -> str:
        """Its items, in brackets."""
        return indent + "[" + ", ".join(str(item) for item in self) + "]"

    def raw_iterator(self) -> Any:
        """Its items."""
        return iter(self)


class _DataPipeSerializationWrapper:
    """A pipe for who sends it to another process: dill pickles what pickle does not, where it is there."""

    def __init__(self, datapipe: Any) -> None:
        self._datapipe = datapipe

    def __getstate__(self) -> Any:
        try:
            return pickle.dumps(self._datapipe), False
        except Exception:
            if importlib.util.find_spec("dill") is None:
                raise
            return importlib.import_module("dill").dumps(self._datapipe), True

    def __setstate__(self, state: Any) -> None:
        value, by_dill = state
        self._datapipe = (importlib.import_module("dill") if by_dill else pickle).loads(value)

    def __len__(self) -> int:
        try:
            return len(self._datapipe)
        except Exception:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length") from None


class _IterDataPipeSerializationWrapper(_DataPipeSerializationWrapper, IterDataPipe):
    def __init__(self, datapipe: Any) -> None:
        super().__init__(datapipe)
        self._datapipe_iter: Iterator[Any] | None = None

    def __iter__(self) -> Any:
        self._datapipe_iter = iter(self._datapipe)
        return self

    def __next__(self) -> Any:
        assert self._datapipe_iter is not None
        return next(self._datapipe_iter)


class _MapDataPipeSerializationWrapper(_DataPipeSerializationWrapper, MapDataPipe):
    def __getitem__(self, index: Any) -> Any:
        return self._datapipe[index]
