"""Stories ``f(t, c)`` told by both libraries: ``t`` is one of them, ``c`` compiles a function or gives it back."""

import pytest
import torch

import torchlike


class Told:
    """The stories of a file, by name."""

    def __init__(self):
        self.cases = {}

    def __call__(self, f):
        """Register a story; a decorator."""
        self.cases[f.__name__] = f
        return f

    def expected(self, name):
        """How PyTorch's eager code tells it."""
        return self.cases[name](torch, lambda f: f)

    def in_pieces(self, name):
        """Compiled functions that may run in pieces tell it as eager code does."""
        assert self.cases[name](torchlike, torchlike.compile) == self.expected(name)

    def in_one(self, name, refused):
        """Functions that must be one program tell it so too, or are refused."""

        def told():
            return self.cases[name](torchlike, lambda f: torchlike.compile(f, fullgraph=True))

        if refused:
            with pytest.raises(RuntimeError, match="is not one program"):
                told()
        else:
            assert told() == self.expected(name)


def values(x):
    """What is compared."""
    if hasattr(x, "tolist"):
        return x.detach().tolist()
    return [values(v) for v in x] if isinstance(x, list | tuple) else x
