"""Compilers of graphs, for ``aot_function``: those that leave them as they are."""

from collections.abc import Callable
from typing import Any

from torchlike._functorch.aot_autograd import make_boxed_func
from torchlike.compiler import compile
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "use aot_function or torch.compile; make_fx gives a graph")


def nop(fx_g: Any, _: Any) -> Callable:
    """The compiler that leaves a graph as it is, as a function of a list."""
    return make_boxed_func(fx_g)


def print_compile(fx_g: Any, _: Any) -> Any:
    """The compiler that prints a graph's code and leaves it as it is."""
    print(fx_g.code)
    return fx_g


def memory_efficient_fusion(fn: Any, static_argnums: Any = None, **kwargs: Any) -> Any:
    """A function or module compiled as one program, with its backward; XLA fuses and decides what is kept.

    NotImplementedError for options.

    >>> import torchlike as torch
    >>> from torchlike.functorch.compile import memory_efficient_fusion
    >>> memory_efficient_fusion(lambda x: x.sin().cos())(torch.zeros(2))
    tensor([1., 1.])
    """
    if static_argnums is not None or kwargs:
        raise NotImplementedError("functorch.compile.memory_efficient_fusion() takes no options: use torch.compile")
    return compile(fn)
