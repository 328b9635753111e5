"""Functions that change containers among their arguments, of both libraries, in eager code and as one program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

import torchlike


class Cases(dict):
    """Stories ``f(t, c)`` of a library and what compiles, by name."""

    def case(self, f: Callable) -> Callable:
        self[f.__name__] = f
        return f


def values(x: Any) -> Any:
    """What is compared."""
    if hasattr(x, "tolist"):
        return x.detach().tolist()
    if isinstance(x, dict):
        return {k: values(v) for k, v in x.items()}
    return [values(v) for v in x] if isinstance(x, list | tuple) else x


@dataclasses.dataclass
class State:
    h: object
    n: int = 0


def as_eager_code(story: Callable) -> None:
    """One program, and pieces of one, do what PyTorch's eager code does."""
    want = story(torch, lambda f: f)
    assert story(torchlike, lambda f: torchlike.compile(f, fullgraph=True)) == want
    assert story(torchlike, torchlike.compile) == want
