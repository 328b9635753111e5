"""Functions that change Python objects, in eager code and as one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compile_kit import numbers, same
from guard_kit import x2

import torchlike as torch


class Cases(dict):
    """Makers of a function of a tensor, and of what shows the world; how many programs that is, and how many calls."""

    def case(self, programs: int | None = 1, calls: int = 4) -> Callable:
        """Register a case: ``make()`` gives a function of a tensor, and what shows the world."""

        def register(make: Callable) -> Callable:
            self[make.__name__.rstrip("_")] = make, programs, calls
            return make

        return register


def run(make: Callable, calls: int, wrap: Callable) -> tuple[list, Any]:
    """What the function gives, and what the world is, after each call; and the function."""
    torch.manual_seed(0)
    function, look = make()
    f, seen = wrap(function), []
    for i in range(calls):
        seen.append((numbers(f(x2(i + 1))), numbers(look())))
    return seen, f


def as_eager_code(make: Callable, programs: int | None, calls: int) -> None:
    """One program changes what eager code changes."""
    expected, _ = run(make, calls, lambda f: f)
    found, f = run(make, calls, lambda f: torch.compile(f, fullgraph=True))
    same(expected, found)
    if programs is not None:
        assert f.count == programs


def as_eager_code_in_pieces(make: Callable, calls: int) -> None:
    same(run(make, calls, lambda f: f)[0], run(make, calls, torch.compile)[0])
