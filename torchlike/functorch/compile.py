"""``functorch.compile``: graphs of a function and its backward for a compiler of one's own (``aot_function``).

``torch.compile`` compiles a function with its backward; ``make_fx`` gives the graph of a function, also of one that
calls ``torch.autograd.grad``.
"""

from typing import Any

from torchlike._functorch.aot_autograd import aot_function as aot_function
from torchlike._functorch.aot_autograd import aot_module as aot_module
from torchlike._functorch.aot_autograd import make_boxed_compiler as make_boxed_compiler
from torchlike._functorch.aot_autograd import make_boxed_func as make_boxed_func
from torchlike._functorch.partitioners import default_partition as default_partition
from torchlike.compiler import compile
from torchlike.interop.refusing import refused_class

__all__ = ["aot_function", "aot_module", "default_partition", "make_boxed_compiler", "make_boxed_func",
           "memory_efficient_fusion", "nop"]  # fmt: skip


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


_WHY = "use aot_function or torch.compile; make_fx gives a graph"
_ABSENT = """
aot_module_simplified compiled_function compiled_module debug_compile
draw_graph draw_graph_compile min_cut_rematerialization_partition minifier print_compile pythonkey_decompose ts_compile
""".split()


def __getattr__(name: str) -> Any:
    if name not in _ABSENT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return refused_class("functorch.compile", name, _WHY)
