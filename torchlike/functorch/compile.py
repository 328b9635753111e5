"""``functorch.compile``: what remains of it without the graphs of forward and backward that PyTorch's compiler cuts.

``torch.compile`` compiles a function with its backward; ``make_fx`` gives the graph of a function, also of one that
calls ``torch.autograd.grad``.
"""

from collections.abc import Callable
from typing import Any

from torchlike.compiler import compile
from torchlike.interop.refusing import refused_class

__all__ = ["make_boxed_compiler", "make_boxed_func", "memory_efficient_fusion", "nop"]


def make_boxed_func(f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """``f`` as a function of a list of arguments.

    >>> from torchlike.functorch.compile import make_boxed_func
    >>> make_boxed_func(max)([1, 3])
    3
    """

    def g(args: list[Any]) -> Any:
        return f(*args)

    g._boxed_call = True  # type: ignore[attr-defined]
    return g


def make_boxed_compiler(compiler: Callable[[Any, Any], Callable[..., Any]]) -> Callable[[Any, Any], Any]:
    """A compiler of graphs whose results take a list of arguments."""
    return lambda graph, inputs: make_boxed_func(compiler(graph, inputs))


def nop(fx_g: Any, _: Any) -> Any:
    """The compiler that leaves a graph as it is, as a function of a list."""
    return make_boxed_func(fx_g)


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


_WHY = "graphs of forward and backward are not cut apart here; torch.compile compiles both, make_fx gives a graph"
_ABSENT = """
aot_function aot_module aot_module_simplified compiled_function compiled_module debug_compile default_partition
draw_graph draw_graph_compile min_cut_rematerialization_partition minifier print_compile pythonkey_decompose ts_compile
""".split()


def __getattr__(name: str) -> Any:
    if name not in _ABSENT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return refused_class("functorch.compile", name, _WHY)
