"""Tests that are told as a story: ``f(t)`` for a library ``t`` returns what is compared."""

import re
import warnings

from both import agree, attempt


def story(f):
    """A test that ``f(t)`` returns the same on both libraries."""

    def test():
        agree(f)

    test.__name__, test.__doc__ = f.__name__, f.__doc__
    return test


def said(f, pattern=".*"):
    """The result of ``f()``; of an error its type and the part of its message that fits ``pattern``."""
    got = attempt(f)
    return tell(got, pattern) if isinstance(got, Exception) else got


def tell(error, pattern=".*"):
    """The type of an error or warning, and the part of its message that fits ``pattern`` (all, where none does)."""
    text = str(error).replace("torchlike", "torch")
    found = re.search(pattern, text, re.DOTALL)
    return f"{type(error).__name__}: {found.group() if found else text}"


def warned(f, pattern=".*"):
    """What ``f()`` warns of, as :func:`tell` tells it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f()
    return [tell(w.message, pattern) for w in caught]


def leaf(t, *values):
    """A double leaf with the given values, 1, 2, 3 by default."""
    return t.tensor([float(v) for v in values or (1, 2, 3)], dtype=t.float64, requires_grad=True)


def grid(t, rows=2, columns=3):
    """A double leaf of two dimensions, 1, 2, ..."""
    return t.arange(1.0, rows * columns + 1, dtype=t.float64).reshape(rows, columns).clone().requires_grad_()
