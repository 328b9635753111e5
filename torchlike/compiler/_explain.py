"""``torch._dynamo.explain``: whether a function is one program, and what keeps it from being one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from torchlike._core.tensor.tensor import is_tensor
from torchlike._transforms.capture.capture import Trace
from torchlike.compiler._compile import compile
from torchlike.compiler._failures import Unsupported
from torchlike.compiler._module import OptimizedModule


class BreakReason(NamedTuple):
    """Why a function is not one program.

    Attributes:
        reason: with the line of the function. graph_break: True.
    """

    reason: str
    graph_break: bool = True


class ExplainOutput(NamedTuple):
    """What ``explain`` found.

    Attributes:
        graph_count: 1, or 0 for a function that runs in eager code. graph_break_count: 0 or 1.
        break_reasons: what stands in the way. op_count: operators in the program.
    """

    graph_count: int
    graph_break_count: int
    break_reasons: list[BreakReason]
    op_count: int

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}"]
        lines += [f"Op Count: {self.op_count}", "Break Reasons:"]
        for i, one in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {i}:", f"    Reason: {one.reason}"]
        return "\n".join(lines)


def explain(f: Callable, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """A function of the arguments of ``f`` that runs it and says whether it is one program.

    >>> import torchlike as torch
    >>> print(torch._dynamo.explain(lambda x: x.sin() + 1)(torch.ones(2)))
    Graph Count: 1
    Graph Break Count: 0
    Op Count: 2
    Break Reasons:
    """

    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        function = f._orig_mod if isinstance(f, OptimizedModule) else getattr(f, "_torchdynamo_orig_callable", f)
        run = compile(function.__call__ if isinstance(f, OptimizedModule) else function, fullgraph=True)
        call = run.forward if isinstance(run, OptimizedModule) else run
        leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=is_tensor)
        try:
            call(*args, **kwargs)
        except Unsupported as error:
            function(*args, **kwargs)
            return ExplainOutput(0, 1, [BreakReason(str(error).partition("is not one program: ")[2])], 0)
        return ExplainOutput(1, 0, [], len(Trace(call.function, leaves, tree).jaxpr.eqns))

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner
