"""Changing what a compiled function takes for granted, between its calls."""

from compile_kit import numbers, same

import torchlike as torch


def x2(value=1.0):
    return torch.full((2,), float(value))


def flips(make, change, back=None, programs=2):
    """``make()`` gives a function and what ``change`` (and ``back``) is called with: same results, few programs."""
    seen = []
    for wrap in (lambda f: f, lambda f: torch.compile(f, fullgraph=True)):
        torch.manual_seed(0)
        f, what = make()
        run = wrap(f)
        out = [run(x2()), run(x2(2))]
        change(what)
        out += [run(x2()), run(x2(2))]
        if back is not None:
            back(what)
            out += [run(x2())]
        seen.append(numbers(out))
    same(*seen)
    count = getattr(run, "forward", run).count
    assert count == programs, f"{count} programs"


def set_scale(value):
    return lambda box: setattr(box, "scale", value)


def put(key, value):
    return lambda container: container.__setitem__(key, value)
