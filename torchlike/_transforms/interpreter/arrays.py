"""Arrays of numpy: which ones a call writes to, and which show memory from outside."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from torchlike._transforms.interpreter import trust


class Arrays:
    """The part of the interpreter that knows which arrays are whose."""

    reads: Any

    def shows_outside(self, x: Any) -> bool:
        """Whether ``x`` is a view of an array that was there before."""
        if not isinstance(x, np.ndarray) or x.base is None:
            return False
        return any([np.may_share_memory(x, array) for array in self.arrays_read()])

    def arrays_read(self) -> list[np.ndarray]:
        """The arrays from outside that were read."""
        return [read.holder for read in self.reads.found.values() if read.kind == "array"]

    def under_settings(self, f: Any, args: tuple[Any, ...], writes: bool) -> None:
        """Note how numpy treats errors, or how it writes numbers, where ``f`` is its own or is given its values."""
        if trust.of_numpy(f) or any([isinstance(x, np.ndarray | np.generic) for x in args]):
            setting, name = (_options, "numpy's printoptions") if writes else (_errors, "numpy's errstate")
            self.reads.add("setting", setting, None, setting(), name)

    def shows_arrays(self, f: Any, args: tuple[Any, ...]) -> None:
        """Refuse a call that shows the memory of what was there before under another name, to write there."""
        if f in (memoryview, np.frombuffer) and args and not isinstance(args[0], bytes):
            if not self.is_made(args[0]):  # type: ignore[attr-defined]
                self.refuse_change(f"has {f.__name__} show {self.reads.name(args[0])}")  # type: ignore[attr-defined]

    def writes_arrays(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], owner: Any = None) -> None:
        """Refuse a call of numpy's that writes to arrays from outside, which a program would not do again."""
        self.shows_arrays(f, args)
        for x in _written(f, args, kwargs, owner):
            if isinstance(x, np.ndarray) and not self.is_made(x):  # type: ignore[attr-defined]
                self.refuse_change(f"writes to {self.reads.name(x)}")  # type: ignore[attr-defined]


# The variable that holds numpy's errstate, which takes 13 us to tell.
_errstate = getattr(getattr(np._core, "umath", None), "_extobj_contextvar", None)


def _errors() -> Any:
    return f"{np.geterr()}{np.geterrcall()}" if _errstate is None else _errstate.get()


def _options() -> str:
    return str(np.get_printoptions())


def _written(f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], owner: Any) -> list[Any]:
    """What a call may write to, beside the owner of a method."""
    out = kwargs.get("out")
    found = [*out] if isinstance(out, tuple) else [out]
    if isinstance(f, np.ufunc):
        return [*found, *args[f.nin :]]
    if isinstance(owner, np.ufunc):  # at(), reduce(), ...
        return [*found, *(args[:1] if f.__name__ == "at" else args[2:])]
    if isinstance(owner, np.ndarray):
        return [*found, *args[1:]]
    if not (getattr(f, "__module__", None) or "").startswith("numpy") or not args:
        return found
    try:
        return [*found, inspect.signature(f).bind(*args, **kwargs).arguments.get("out")]
    except (TypeError, ValueError):
        return [*found, *args]
