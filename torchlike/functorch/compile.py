"""``functorch.compile``: graphs of a function and its backward for a compiler of one's own (``aot_function``).

``torch.compile`` compiles a function with its backward; ``make_fx`` gives the graph of a function, also of one that
calls ``torch.autograd.grad``.
"""

from typing import Any

from torchlike._functorch import config as config
from torchlike._functorch.aot_autograd import aot_function as aot_function
from torchlike._functorch.aot_autograd import aot_module as aot_module
from torchlike._functorch.aot_autograd import make_boxed_compiler as make_boxed_compiler
from torchlike._functorch.aot_autograd import make_boxed_func as make_boxed_func
from torchlike._functorch.compilers import memory_efficient_fusion as memory_efficient_fusion
from torchlike._functorch.compilers import nop as nop
from torchlike._functorch.compilers import print_compile as print_compile
from torchlike._functorch.partitioners import default_partition as default_partition
from torchlike.interop.refusing import refused_class

__all__ = ["aot_function", "aot_module", "default_partition", "make_boxed_compiler", "make_boxed_func",
           "memory_efficient_fusion", "nop", "print_compile"]  # fmt: skip


_WHY = "use aot_function or torch.compile; make_fx gives a graph"
_ABSENT = """
aot_module_simplified compiled_function compiled_module debug_compile default_decompositions draw_graph
draw_graph_compile get_aot_compilation_context get_aot_graph_name get_graph_being_compiled
min_cut_rematerialization_partition minifier nnc_jit pythonkey_decompose ts_compile
""".split()


def __getattr__(name: str) -> Any:
    if name not in _ABSENT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return refused_class("functorch.compile", name, _WHY)
