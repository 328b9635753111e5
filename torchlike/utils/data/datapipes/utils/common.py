"""Checks of functions that pipes call, paths, and open files."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
import warnings
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from typing import Any


def validate_input_col(fn: Callable, input_col: Any) -> None:
    """ValueError where ``fn`` cannot be called with as many arguments as there are columns (None: one item)."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # of C
        return
    count = len(input_col) if isinstance(input_col, list | tuple) else 1
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in places)
    keywords = sum(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    name = getattr(fn, "__name__", repr(fn))
    if keywords:
        raise ValueError(
            f"The function {name} takes {keywords} non-default keyword-only parameters, which is not allowed."
        )
    if input_col is not None and needed > count:
        raise ValueError(f"The function {name} takes {needed} positional parameters, but {count} are required.")
    any_more = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if input_col is not None and len(places) < count and not any_more:
        raise ValueError(f"The function {name} takes {len(places)} parameters, but {count} are required.")


def _check_unpickable_fn(fn: Any) -> None:
    """TypeError for what cannot be called; a UserWarning for functions that pickle cannot write."""
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    while isinstance(fn, functools.partial):
        fn = fn.func
    local = inspect.isfunction(fn) and "<locals>" in fn.__qualname__
    if not (local or getattr(fn, "__name__", "") == "<lambda>") or importlib.util.find_spec("dill") is not None:
        return
    warnings.warn(
        f"{'Local' if local else 'Lambda'} function is not supported by pickle, please use regular python function or "
        "functools.partial instead.",
        stacklevel=4,
    )


def match_masks(name: str, masks: str | list[str]) -> bool:
    """Whether a name fits a pattern as in a shell, or one of several; no pattern takes all."""
    return not masks or any(fnmatch(name, mask) for mask in ([masks] if isinstance(masks, str) else masks))


def _raised(error: OSError) -> None:
    warnings.warn(f"{error.filename} : {error.strerror}", stacklevel=4)
    raise error


def get_file_pathnames_from_root(
    root: str, masks: str | list[str], recursive: bool = False, abspath: bool = False, non_deterministic: bool = False
) -> Iterator[str]:
    """The paths of a file, or of the files in a folder, whose names fit; OSError where there is neither."""
    top = os.path.abspath(root) if abspath else root
    if os.path.isfile(root):
        if match_masks(os.path.basename(root), masks):
            yield top
        return
    for folder, within, names in os.walk(top, onerror=_raised):
        within[:] = sorted(within) if recursive else []
        for name in sorted(names):
            if match_masks(name, masks):
                yield os.path.join(folder, name)


class StreamWrapper:
    """An open file that is closed when nobody holds it any more.

    >>> import io
    >>> stream = StreamWrapper(io.StringIO("text"))
    >>> stream.read()
    'text'
    """

    def __init__(self, file_obj: Any, parent_stream: StreamWrapper | None = None, name: str | None = None) -> None:
        if parent_stream is not None and not isinstance(parent_stream, StreamWrapper):
            raise RuntimeError(f"Parent stream should be StreamWrapper, {type(parent_stream)} was given")
        self.file_obj, self.name, self.closed = file_obj, name, False
        self.parent_stream = parent_stream

    @classmethod
    def close_streams(cls, v: Any, depth: int = 0) -> None:
        """Close the streams in dicts, lists and tuples."""
        if isinstance(v, StreamWrapper):
            v.close()
        for inner in v.values() if isinstance(v, dict) else v if isinstance(v, list | tuple) else ():
            cls.close_streams(inner, depth + 1)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the file."""
        if not self.closed:
            self.closed = True
            try:
                self.file_obj.close(*args, **kwargs)
            except AttributeError:  # of what cannot be closed
                pass

    def autoclose(self) -> None:
        """Close the file now: nothing else reads it."""
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["file_obj"], name)

    def __dir__(self) -> list[str]:
        return [*vars(self), *dir(type(self)), *dir(self.file_obj)]

    def __iter__(self) -> Iterator:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __enter__(self) -> StreamWrapper:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if "file_obj" in self.__dict__:
            self.close()

    def __repr__(self) -> str:
        return f"StreamWrapper<{self.name if self.name is not None else repr(self.file_obj)}>"

    def __getstate__(self) -> Any:
        return self.file_obj

    def __setstate__(self, obj: Any) -> None:
        self.__dict__.update(file_obj=obj, name=None, closed=False, parent_stream=None)
