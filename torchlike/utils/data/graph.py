"""Which pipes a pipe is made of."""

from __future__ import annotations

import functools
import types
from collections.abc import Collection, Iterator
from typing import Any

from torchlike.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

_PLAIN = (str, bytes, int, float, complex, type(None), type, types.ModuleType)


def _parts(value: Any) -> Any:
    """What a value holds that pickling would write with it."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return [value.__self__]
    if isinstance(value, (*_PLAIN, types.FunctionType, types.BuiltinFunctionType, types.GeneratorType)):
        return ()
    return list(getattr(value, "__dict__", {}).values())


def _held(pipe: Any, everything: bool) -> Iterator[Any]:
    """The pipes that a pipe holds, in attributes that are pipes or containers or in all, not those that these hold."""
    kinds = object if everything else (IterDataPipe, MapDataPipe, Collection)
    seen, waiting = {id(pipe)}, [value for value in pipe._state().values() if isinstance(value, kinds)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, _PLAIN) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, IterDataPipe | MapDataPipe):
            yield value
        else:
            waiting.extend(_parts(value))


def _graph(pipe: Any, above: frozenset[int], everything: bool) -> dict[int, tuple[Any, dict]]:
    if id(pipe) in above:
        return {}
    above = above | {id(pipe)}
    found: dict[int, tuple[Any, dict]] = {}
    for inner in _held(pipe, everything):
        found.update(_graph(inner, above, everything))
    return {id(pipe): (pipe, found)}


def traverse_dps(datapipe: Any) -> dict[int, tuple[Any, dict]]:
    """``{id: (pipe, the same of the pipes that it holds)}``. RuntimeError for what is no pipe.

    >>> from torchlike.utils.data.datapipes.iter import IterableWrapper
    >>> pipe = IterableWrapper([1]).map(abs)
    >>> list(traverse_dps(pipe)[id(pipe)][1].values())
    [(IterableWrapperIterDataPipe, {})]
    """
    if not isinstance(datapipe, IterDataPipe | MapDataPipe):
        raise RuntimeError(f"Expected `IterDataPipe` or `MapDataPipe`, but {type(datapipe)} is found")
    return _graph(datapipe, frozenset(), everything=False)


def traverse(datapipe: Any, only_datapipe: bool | None = None) -> dict[int, tuple[Any, dict]]:
    """:func:`traverse_dps`, unless ``only_datapipe`` also of pipes that functions and other objects hold."""
    return traverse_dps(datapipe) if only_datapipe else _graph(datapipe, frozenset(), everything=True)
