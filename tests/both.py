"""Scripts run on both libraries: ``agree(lambda t: ...)`` compares all that they return."""

from __future__ import annotations

import os
import random
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import currently_in_test_context
from narrow_kit import narrowed
from oracle import host

import torchlike


def plain(x: Any) -> Any:
    """What is compared of a value: a tensor by dtype, shape, numbers and whether it requires grad."""
    if isinstance(x, torch.Tensor | torchlike.Tensor):
        numbers = host(x)
        numbers = numbers.tolist() if numbers.dtype.kind in "biu" else text(numbers)
        return narrowed(str(x.dtype)), tuple(x.shape), numbers, x.requires_grad
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, tuple | list):
        return [plain(v) for v in x]
    if isinstance(x, Exception):
        return type(x).__name__
    if hasattr(x, "next_functions"):
        return x.name().rpartition(":")[2]
    if isinstance(x, float | complex):
        return text(x)
    return x if isinstance(x, bool | int | type(None)) else narrowed(str(x))


def text(numbers: Any) -> Any:
    """Numbers as text of ten significant digits (five in single precision); complex ones as pairs.

    What is less than one rounding of the largest is zero.
    """
    numbers = np.asarray(numbers)
    if numbers.dtype.kind == "c":
        return [text(numbers.real), text(numbers.imag)]
    digits = 10 if numbers.dtype == np.float64 else 5
    sizes = np.abs(numbers[np.isfinite(numbers)]) if numbers.dtype.kind == "f" else np.zeros(0)
    rounding = np.finfo(numbers.dtype).eps * sizes.max() if sizes.size else 0.0
    return [f"{0.0 if abs(v) < rounding else float(v) + 0.0:.{digits}g}" for v in np.ravel(numbers)]


def agree(f: Callable) -> None:
    """``f(torchlike)`` returns what ``f(torch)`` returns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = plain(f(torchlike)), _of_pytorch(f)
    assert ours == theirs, f"{ours}\nPyTorch: {theirs}"


# What PyTorch gave in the calls of a test in immediate execution, and the random states that it left.
_told: dict[str, list[tuple[Any, tuple[Any, ...]]]] = {}


def _of_pytorch(f: Callable) -> Any:
    """``plain(f(torch))``, which does not depend on our execution: a test's second run has that of its first."""
    name = os.environ.get("PYTEST_CURRENT_TEST", "")
    found = re.search(r"\[(immediate|recorded)\b-?", name)
    if found is None or currently_in_test_context() or threading.current_thread() is not threading.main_thread():
        return plain(f(torch))
    test = name.replace(found.group(), "[", 1)
    told = _told.setdefault(test, [])
    if found.group(1) == "recorded" and told:
        result, (of_python, of_numpy, of_torch) = told.pop(0)
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        torch.default_generator.set_state(of_torch)
        return result
    result = plain(f(torch))
    if found.group(1) == "immediate":
        told.append((result, (random.getstate(), np.random.get_state(), torch.default_generator.get_state())))
    return result


def attempt(f: Callable) -> Any:
    """The result of ``f()``, or the exception it raised."""
    try:
        return f()
    except Exception as error:
        return error


def agree_error(f: Callable, match: str) -> None:
    """``f`` raises the same type of exception on both libraries, with messages that both fit ``match``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:
            f(torch)
        with pytest.raises(Exception) as ours:
            f(torchlike)
    assert ours.type.__name__ == theirs.type.__name__, f"{ours.value!r}\nPyTorch: {theirs.value!r}"
    for error in (theirs.value, ours.value):
        assert re.search(match, str(error), re.DOTALL), f"{str(error)!r} does not match {match!r}"
