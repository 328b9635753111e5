"""Run one piece of code with torch and with torchlike, and compare what came of it."""

from __future__ import annotations

import collections
import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

import torchlike

BOTH = {"torch": torch, "torchlike": torchlike}


class Observed(NamedTuple):
    """What a call did: its value or its error, and the categories of the warnings on the way."""

    value: Any
    error: tuple[str, str] | None
    warned: list[str]


def text(value: Any) -> str:
    return str(value).replace("torchlike", "torch")


def plain(x: Any) -> Any:
    """``x`` in terms that both libraries share: numpy values, texts, plain containers."""
    for library in BOTH.values():
        if isinstance(x, library.Tensor):
            kind = "Parameter" if isinstance(x, library.nn.Parameter) else "Tensor"
            values = x.detach().double().numpy() if not x.is_complex() else x.detach().numpy()
            return kind, str(x.dtype), tuple(x.shape), x.requires_grad, values.tolist()
        if isinstance(x, library.nn.Module):
            return "Module", text(x)
        if isinstance(x, (library.dtype, library.device, library.Size)):
            return text(x)
    if isinstance(x, dict):
        return type(x).__name__, [(plain(k), plain(v)) for k, v in x.items()]
    if isinstance(x, (list, tuple)):
        return type(x).__name__, [plain(v) for v in x]
    if isinstance(x, (set, frozenset)):
        return type(x).__name__, sorted(map(text, x))
    if isinstance(x, (type(collections.OrderedDict().keys()), type({}.keys()), types.GeneratorType)):
        return [plain(v) for v in x]
    if isinstance(x, type):
        return x.__name__
    if isinstance(x, np.ndarray):
        return "ndarray", str(x.dtype), x.shape, x.tolist()
    return x if isinstance(x, (int, float, complex, bytes, str, type(None))) else text(x)


def observe(code: Callable, library) -> Observed:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value, error = plain(code(library)), None
        except Exception as e:
            value, error = None, (type(e).__name__, text(e.args[0] if e.args else ""))
    return Observed(value, error, [w.category.__name__ for w in caught])


def agree(code: Callable, *, message: bool = True, warned: bool = True) -> Observed:
    """Assert that ``code(library)`` does the same with both libraries; returns what torchlike did.

    ``message=False``: of an error compare the type only. ``warned=False``: ignore warnings.
    """
    expected, got = observe(code, torch), observe(code, torchlike)
    assert repr(got.value) == repr(expected.value), f"\ntorchlike: {got}\ntorch:     {expected}"
    if message or not (got.error and expected.error):
        assert got.error == expected.error, f"\ntorchlike: {got}\ntorch:     {expected}"
    else:
        assert got.error[0] == expected.error[0], f"\ntorchlike: {got}\ntorch:     {expected}"
    if warned:
        assert got.warned == expected.warned, f"\ntorchlike: {got}\ntorch:     {expected}"
    return got
