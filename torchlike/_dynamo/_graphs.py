"""``torch.compile(backend=function)``: the function is given each graph, and what it returns is called."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import jax

from torchlike._core.conversion.convert import tensor as new_tensor
from torchlike._core.conversion.factories import empty_strided
from torchlike._dynamo._recorder import Recorder, Source
from torchlike._transforms.capture.calling import Writer, sharing
from torchlike._transforms.capture.capture import Trace
from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.capture.structure import containers
from torchlike._transforms.interpreter.run import Interpreter
from torchlike.compiler._failures import BackendCompilerFailed
from torchlike.compiler._function import Compiled, called_module
from torchlike.fx.graph_module import GraphModule


class Graphed(Compiled):
    """A function whose graphs a backend compiles.

    Attributes:
        backend: given (GraphModule, example inputs), it returns a function of these inputs. options: its other
            arguments.
    """

    def __init__(
        self, function: Callable, fullgraph: bool, limit: int | None, backend: Callable, options: dict[str, Any]
    ) -> None:
        super().__init__(function, fullgraph, limit)
        self.backend, self.options = backend, options

    def __deepcopy__(self, memo: dict) -> Graphed:
        function = copy.deepcopy(self.function, memo)
        made = type(self)(function, self.fullgraph, self.own_limit, self.backend, self.options)
        made.dynamic = self.dynamic
        return made

    _overlapping = staticmethod(lambda trace: None)  # type: ignore[assignment]  # its graphs are eager code

    def _traced(self, leaves: list, tree: Any, joined: Any) -> Any:
        self._names = argument_names(self.function, tree)
        return super()._traced(leaves, tree, joined)

    def _interpreter(self, patient: bool) -> Interpreter:
        interpreter = super()._interpreter(patient)
        interpreter.listener = Recorder(self._names, interpreter)
        interpreter.reads.names[id(called_module(self.function))] = "self"
        return interpreter

    def _program(self, trace: Trace, interpreter: Interpreter) -> Any:
        return GraphProgram(trace, interpreter.listener, self._compiled)

    def _compiled(self, graph: GraphModule, inputs: list) -> Callable:
        name = getattr(self.backend, "__name__", str(self.backend))
        try:
            made = self.backend(graph, inputs, **self.options)
        except Exception as error:
            raise BackendCompilerFailed(f"backend={name!r} raised:\n{type(error).__name__}: {error}") from error
        if not callable(made):
            why = f"AssertionError: compiler_fn did not return callable, but {type(made).__name__}"
            raise BackendCompilerFailed(f"backend={name!r} raised:\n{why}")
        return made

    def _break(self, error: Exception, args: tuple, kwargs: dict) -> Any:
        if isinstance(error, BackendCompilerFailed):
            raise error
        result = super()._break(error, args, kwargs)
        if self.eager:
            warnings.warn(
                f"torch.compile(backend=...): {self._name()} is not one graph, runs in eager code and is not given to "
                f"its backend: {self.eager}", stacklevel=5,
            )  # fmt: skip
        return result


class GraphProgram:
    """One graph, as a backend has compiled it, with what each call does around it.

    Attributes:
        graph: the GraphModule, None if the function computes nothing. compiled: what the backend made of it.
    """

    again, hold, calls_host = True, None, False
    arg_writes = grad_writes = with_grad = ()

    def __init__(self, trace: Trace, recorder: Recorder, compile: Callable) -> None:
        if trace.grads or trace.demanded:
            raise Unsupported("reads or changes a .grad, which a backend's graph does not have")
        self.effects, self.getters, self.passes = trace.effects, trace.getters, trace.passes
        self.width, self.shares, self._kept = len(trace.leaves), sharing(self, trace), trace.sharing  # type: ignore[arg-type]
        self.sources, self.results, self.out_tree = recorder.sources, recorder.results, trace.out_tree
        leaves = trace.leaves
        trace.record.rewind()
        trace.abandon()
        self.compiled: Callable | None = None
        self.graph: GraphModule | None = None
        if any(node.op not in ("placeholder", "output") for node in recorder.graph.nodes):
            self.graph = GraphModule({}, recorder.graph)
            inputs = [_input(source, leaves) for source in self.sources]
            _describe(recorder, inputs)
            self.compiled = compile(self.graph, inputs)
        self._run = self._straight(len(trace.result))

    def look_ahead(self, hold: Any) -> None:
        """Nothing: the backend's code runs after the guards."""

    def waste(self) -> None:
        """Nothing."""

    def holds(self, leaves: Any) -> bool:
        """Whether the arguments share what they shared."""
        return bool(self.shares(leaves))

    def __call__(self, leaves: list, given: Any = (), first: bool = False) -> Any:
        """Run on the arguments, ``leaves`` of ``given``."""
        if self.getters:
            leaves = [*leaves, *[g() for g in self.getters]]
        if self.passes:
            leaves = [*leaves, *containers(given)]
        return self._run(leaves)

    def _straight(self, n: int) -> Callable:
        """What a call does, as straight code."""
        w = Writer()
        w.names.update(compiled=self.compiled, checked=_checked, new_tensor=new_tensor, unflatten=jax.tree.unflatten)
        if self.effects is not None:
            self.effects.begin(w)
        outputs = len({x for how, x in self.results if how == "output"})
        if self.compiled is not None:
            w.add(f"outs = checked(compiled({', '.join([_expression(w, s) for s in self.sources])}), {outputs})")

        def expression(result: tuple[str, Any]) -> str:
            how, x = result
            if how == "output":
                return f"outs[{x}]"
            if how == "input":
                return _expression(w, x)
            return f"leaves[{self.width + x}]" if how == "given" else w.keep(x)

        made = [expression(r) for r in self.results]
        w.add(f"results = [{', '.join(made[:n])}]")
        if self.effects is not None:
            self.effects.write(w, made[n:], self.width)
        w.names["out_tree"] = self.out_tree
        w.add("return unflatten(out_tree, results)")
        return w.function("def run(leaves):")


def _expression(w: Writer, source: Source) -> str:
    """What gives an input of the graph."""
    if source.arg is not None:
        return f"leaves[{source.arg}]"
    if source.tensor is not None:
        return w.name(source.tensor)
    return f"new_tensor({w.keep(source.number)}(), dtype={w.name(source.dtype)})"


def _input(source: Source, leaves: list) -> Any:
    """An input of the graph now."""
    if source.arg is not None:
        return leaves[source.arg]
    return source.tensor if source.number is None else new_tensor(source.number(), dtype=source.dtype)


def _describe(recorder: Recorder, inputs: list) -> None:
    """Note in ``meta`` of each node a tensor without numbers like its value."""
    found = [
        (node, tuple(t.shape), t.stride(), t.dtype) for node, t in zip(recorder.placeholders(), inputs, strict=True)
    ]
    for node, shape, strides, dtype in (*found, *recorder.shapes):
        node.meta.setdefault("example_value", empty_strided(shape, strides, dtype=dtype, device="meta"))


def _checked(outs: Any, n: int) -> Any:
    """What a backend's function returned, if it is as many values as the graph gives."""
    if not isinstance(outs, tuple | list) or len(outs) != n:
        what = f"{len(outs)} values" if isinstance(outs, tuple | list) else f"a {type(outs).__name__}"
        raise RuntimeError(f"torch.compile: the backend's function returned {what}; its graph gives a tuple of {n}")
    return outs


def argument_names(function: Callable, tree: Any) -> list[str]:
    """How the function calls each of its arguments."""
    module = called_module(function)
    try:
        names = list(inspect.signature(function if module is None else module.forward).parameters.values())
    except (TypeError, ValueError):
        names = []
    paths = jax.tree_util.tree_flatten_with_path(jax.tree.unflatten(tree, range(tree.num_leaves)))[0]
    found = {number: path for path, number in paths if type(number) is int}
    return [_path(found.get(i), names) for i in range(tree.num_leaves)]


def _path(path: Any, parameters: list[inspect.Parameter]) -> str:
    if path is None:
        return "argument"
    whole, first, *rest = path
    if whole.idx == 1:
        return jax.tree_util.keystr((first, *rest), simple=True, separator="_")
    i, kinds = first.idx, [p.kind for p in parameters]
    if (
        i < len(parameters)
        and kinds[i] is not inspect.Parameter.VAR_POSITIONAL
        and inspect.Parameter.VAR_POSITIONAL not in kinds[:i]
    ):
        name = parameters[i].name
    else:
        name = f"args_{i}"
    return "_".join([name, *([jax.tree_util.keystr(tuple(rest), simple=True, separator="_")] if rest else [])])
