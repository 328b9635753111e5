"""torch.fx.traceback: what steps that are made know of where they come from."""

import contextlib
import copy
import functools
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from torchlike.interop.alias import missing_names

__all__ = [
    "annotate", "annotate_fn", "format_stack", "get_current_meta", "has_preserved_node_meta", "preserve_node_meta",
    "reset_grad_fn_seq_nr", "set_current_meta", "set_grad_fn_seq_nr", "set_stack_trace",
]  # fmt: skip

__getattr__ = missing_names(__name__)


class _Now(threading.local):
    """What steps made by this thread are given."""

    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}
        self.preserve = False


_now = _Now()


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """A context in which steps that an Interpreter makes of steps take over their ``meta``.

    >>> import torchlike as torch
    >>> with torch.fx.traceback.preserve_node_meta():
    ...     torch.fx.traceback.has_preserved_node_meta()
    True
    """
    before, meta = _now.preserve, dict(_now.meta)
    try:
        _now.preserve = _now.preserve or enable
        yield
    finally:
        _now.preserve, _now.meta = before, meta


def has_preserved_node_meta() -> bool:
    """Whether :func:`preserve_node_meta` is active."""
    return _now.preserve


def get_current_meta() -> dict[str, Any]:
    """The ``meta`` that steps made now take over."""
    return copy.copy(_now.meta)


@contextlib.contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """A context in which steps take over the ``meta`` of ``node``, if it is to be preserved."""
    if not (_now.preserve and node.meta):
        yield
        return
    before = _now.meta
    try:
        _now.meta = dict(node.meta)
        yield
    finally:
        _now.meta = before


@contextlib.contextmanager
def annotate(annotation_dict: dict) -> Iterator[None]:
    """A context whose steps have ``annotation_dict`` in ``meta["custom"]``, where meta is preserved."""
    before = _now.meta.get("custom")
    _now.meta["custom"] = {**(before or {}), **annotation_dict}
    try:
        yield
    finally:
        if before is None:
            _now.meta.pop("custom", None)
        else:
            _now.meta["custom"] = before


def annotate_fn(annotation_dict: dict) -> Callable[[Callable], Callable]:
    """A decorator: the function runs in :func:`annotate`."""

    def around(function: Callable) -> Callable:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return run

    return around


def set_stack_trace(stack: list[str]) -> None:
    """Have steps made now say that they come from ``stack``, where meta is preserved."""
    if _now.preserve and stack:
        _now.meta["stack_trace"] = "".join(stack)


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Have steps made now name the node of a backward graph, where meta is preserved."""
    if _now.preserve:
        _now.meta["grad_fn_seq_nr"] = [*_now.meta.get("grad_fn_seq_nr", []), seq_nr]


def reset_grad_fn_seq_nr() -> None:
    """Take back the last :func:`set_grad_fn_seq_nr`."""
    if _now.preserve:
        rest = _now.meta.get("grad_fn_seq_nr", [])[:-1]
        _now.meta.pop("grad_fn_seq_nr", None)
        if rest:
            _now.meta["grad_fn_seq_nr"] = rest


def format_stack() -> list[str]:
    """The stack that steps made now come from."""
    return (
        [_now.meta.get("stack_trace", "")] if _now.preserve else traceback.format_list(traceback.extract_stack()[:-1])
    )
