"""What a function becomes when it is compiled: its program as text, and XLA's estimate of its cost."""

from collections.abc import Callable
from typing import Any

import jax

from torchlike._core.tensor.tensor import is_tensor
from torchlike._transforms.capture.capture import Trace
from torchlike._transforms.capture.program import Program


class Lowered:
    """The program of one call.

    Attributes:
        jax: the ``jax.stages.Lowered`` that answers everything else.
    """

    def __init__(self, lowered: Any) -> None:
        self.jax = lowered

    def text(self, optimized: bool = False) -> str:
        """The program in StableHLO; ``optimized``: in HLO, as XLA compiled it for this machine."""
        return self.jax.compile().as_text() if optimized else self.jax.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate for the compiled program: "flops", "bytes accessed" and more."""
        found = self.jax.compile().cost_analysis()
        return dict(found[0] if isinstance(found, list) else found)


def lowered(fn: Callable, *args: Any, **kwargs: Any) -> Lowered:
    """The program that ``torch.compile(fn)`` would run for these arguments; nothing is run, and nothing changes.

    Args:
        fn: a function, a module, or what ``torch.compile`` made of one.

    Raises what tracing raises where the function cannot be one program.

    >>> import torchlike as torch
    >>> program = torch.export.lowered(lambda x, y: x @ y, torch.ones(4, 8), torch.ones(8, 2))
    >>> "dot_general" in program.text(), program.cost_analysis()["flops"]
    (True, 128.0)
    """
    compiled = vars(fn).get("forward", fn) if hasattr(fn, "_orig_mod") else fn
    function = getattr(compiled, "function", compiled)
    leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=is_tensor)
    trace = Trace(function, leaves, tree)
    try:
        program = Program(trace)
        return Lowered(program.early.lower(*program.values(leaves, program.numbers.first)))
    finally:
        trace.record.rewind()
