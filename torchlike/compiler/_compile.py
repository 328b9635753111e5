"""``torch.compile``: functions and modules that run as one XLA program for each kind of arguments."""

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from torchlike.compiler._backends import check, function_of
from torchlike.compiler._bucket import bucketed
from torchlike.compiler._function import Compiled, awaited
from torchlike.compiler._module import OptimizedModule
from torchlike.nn.modules.module import Module


def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """``model``, a function or a module, compiled to one XLA program for each kind of arguments.

    The first call traces the function: tensors that it reads and did not make become inputs of the
    program, those that it writes become outputs; the update of parameters, ``.grad``, buffers, optimizer
    state and random numbers happen in every call as in eager code. Later calls check that what the trace
    took for granted still holds (shapes, dtypes, ``training``, Python values that the function reads)
    and run the program; otherwise the function is traced anew, up to ``recompile_limit`` times.

    A function that needs the value of a tensor (``item()``, ``if tensor:``), changes Python objects, or cannot
    be traced for another reason runs in pieces, as eager code whose operators are compiled together up to that
    point; the line is logged (TORCHLIKE_LOG=graph_breaks). Numbers that change are inputs of the program.

    Args:
        fullgraph: raise an error where the function cannot be one program.
        recompile_limit: the number of programs, ``torch._dynamo.config.recompile_limit`` (8) by default.
        options: {"bucket": ...} pads arguments to a few sizes, for functions that treat rows independently (see the
            page on compilation); PyTorch's own options are accepted and change nothing.
        backend: a function of a torch.fx GraphModule and example inputs, that returns a function of these inputs: it
            is given the graph of calls for each kind of arguments, and what it returns is called. Or the name of one
            that was registered. PyTorch's own names are accepted; XLA is the compiler.
        dynamic: whether numbers among the arguments are inputs of the program from the first call on (True) or never
            (False); by default each is from its second value on. Shapes are static.
        mode, name, isolate_recompiles: accepted.
        disable: give back ``model`` itself.

    Raises:
        RuntimeError: a mode or option that does not exist, or both a mode and options; InvalidBackend is one too.
        NotImplementedError: ``shapes_spec``.
        BackendCompilerFailed (a RuntimeError): from a call, if the function that is the backend fails.
        Unsupported (a RuntimeError): from a call, with ``fullgraph``. FailOnRecompileLimitHit: the same, from a call
            that would need one program too many.

    >>> import torchlike as torch
    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = torch.optim.SGD([w], lr=0.1)
    >>> @torch.compile
    ... def step(x):
    ...     optimizer.zero_grad()
    ...     loss = (w * x).sum()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> step(torch.ones(2)).item(), step(torch.ones(2)).item()
    (2.0, 1.7999999523162842)
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, name=name,
            disable=disable, recompile_limit=recompile_limit, isolate_recompiles=isolate_recompiles,
            shapes_spec=shapes_spec,
        )  # fmt: skip
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if disable:
        return model
    if not isinstance(dynamic, bool | None):
        raise AssertionError(f"Expected enable to be a bool, got {type(dynamic)}")
    if shapes_spec is not None:
        raise NotImplementedError(
            "torch.compile(shapes_spec=...): programs have static shapes; options={'bucket': ...} makes few of them"
        )
    check(backend, mode, options)
    function = function_of(backend)
    given = {} if function is None else {k: v for k, v in (("mode", mode), ("options", options)) if v is not None}
    bucket = None if function is not None else (options or {}).get("bucket")
    return _compiled(model, _Wrapper(fullgraph, recompile_limit, bucket, function, given, dynamic))


KIND: list[type[Compiled]] = [Compiled]  # what `python -m torchlike plan` replaces


class _Wrapper(NamedTuple):
    """Makes the compiled form of a function."""

    fullgraph: bool
    limit: int | None
    bucket: Any
    backend: Callable | None
    given: dict[str, Any]
    dynamic: bool | None

    def __call__(self, function: Callable) -> Any:
        compiled = self._made(function)
        compiled.dynamic = self.dynamic
        if inspect.iscoroutinefunction(function):
            return awaited(compiled)
        return compiled if self.bucket is None else bucketed(function, compiled, self.bucket)

    def _made(self, function: Callable) -> Compiled:
        if self.backend is not None:
            graphs = importlib.import_module("torchlike._dynamo._graphs")  # torch.fx takes time to import
            return graphs.Graphed(function, self.fullgraph, self.limit, self.backend, self.given)
        return KIND[0](function, self.fullgraph, self.limit)


def _compiled(model: Any, wrap: _Wrapper) -> Any:
    if isinstance(model, OptimizedModule):
        model = model._orig_mod
    if isinstance(model, Module):
        return OptimizedModule(model, wrap)
    if isinstance(model, type):
        if any("__call__" in vars(cls) for cls in model.__mro__):
            model.__call__ = wrap(model.__call__)
        return model
    return wrap(model._torchdynamo_orig_callable if isinstance(model, Compiled) else model)
