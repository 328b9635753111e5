"""Registration of composite functions under their public names."""

import torchlike._ops.all  # noqa: F401  (every family declares its operators)
from torchlike._core.dispatch import bind
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor

bind.install()  # before the composites, whose forms win over generated ones of the same name


def function(*names):
    """Register as ``torch.<name>`` (the function's own name by default)."""

    def register(f):
        for name in names or (f.__name__.rstrip("_"),):
            FUNCTIONS[name] = f
        return f

    return register


def method(*names):
    """Register as ``Tensor.<name>``."""

    def register(f):
        for name in names or (f.__name__,):
            setattr(Tensor, name, f)
        return f

    return register


def both(*names):
    """Register as a function and as a method."""

    def register(f):
        return function(*names)(method(*(names or (f.__name__.rstrip("_"),)))(f))

    return register


def spread(*names, one=True):
    """Register as ``Tensor.<name>``, which takes the ints of its only argument one by one, too.

    ``one``: whether a single int stands for a list of one, too, and not for a number of its own.
    """

    def register(f):
        def spreading(self, *args, **kwargs):
            if len(args) < 2 and not (one and args and isinstance(args[0], int | Tensor)):
                return f(self, *args, **kwargs)
            if kwargs or not all(isinstance(n, int | Tensor) and not isinstance(n, bool) for n in args):
                raise TypeError(f"{f.__name__}() takes 1 positional argument but {len(args) + len(kwargs)} were given")
            return f(self, args)

        spreading.__name__, spreading.__qualname__, spreading.__doc__ = f.__name__, f.__qualname__, f.__doc__
        method(*(names or (f.__name__,)))(spreading)
        return f

    return register


def prop(*names):
    """Register as a property of Tensor."""

    def register(f):
        for name in names or (f.__name__,):
            setattr(Tensor, name, property(f))
        return f

    return register
