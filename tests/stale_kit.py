"""Stories of what a compiled function read and has changed since, in eager code and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compile_kit import numbers, same
from guard_kit import x2

import torchlike as torch


class Thing:
    scale = 2.0
    flag = True

    def factor(self):
        return self.scale


class Stories(dict):
    """Functions of what compiles, by name."""

    def story(self, function: Callable) -> Callable:
        self[function.__name__.removesuffix("_")] = function
        return function


def calls(run: Callable, change: Callable, times: int = 3) -> list[Any]:
    """The results of calls with ``change(i)`` between them; ahead of the first, some that make it run ahead."""
    found = [run(x2()), run(x2())]
    for i in range(times):
        found.append(run(x2()))
        change(i)
    return [*found, run(x2())]


def never_stale(story: Callable) -> None:
    """All results are the same in eager code and compiled, and what the story left behind."""
    found, watched = [], []

    def compiled(f):
        run = torch.compile(f)
        watched.append(getattr(run, "forward", run))
        return run

    for wrap in (lambda f: f, compiled):
        Thing.scale = 2.0
        torch.manual_seed(0)
        found.append(numbers(story(wrap)))
    same(*found)
    assert "Interpreter" not in str(watched.pop().eager)  # no error of the interpreter's own


def of_state(make: Callable, f: Callable, changes: list[Callable]) -> Callable:
    """The story of a function ``f(x, state)`` that is called twice, and twice more after each change of the state."""

    def story(wrap):
        state, found = make(), []
        run = wrap(lambda x: f(x, state))
        for change in [lambda s: None, *changes]:
            change(state)
            found += [run(x2()), run(x2())]
        return found

    return story
