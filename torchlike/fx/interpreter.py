"""torch.fx.interpreter: graphs run step by step."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from operator import is_
from typing import Any

from torchlike._base.state import state
from torchlike.fx import traceback as fx_traceback
from torchlike.fx._compatibility import compatibility as compatibility
from torchlike.fx._symbolic_trace import Tracer
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.node import Argument, Node, Target, map_aggregate, map_arg
from torchlike.fx.proxy import Proxy
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module

__all__ = ["Interpreter", "Transformer"]

__getattr__ = missing_names(__name__)

_NONE = inspect.Parameter.empty


class _Same:
    """Whether a graph still has the steps that a compiled function ran."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps = self._now()

    def _now(self) -> list[Any]:
        return [x for n in self.graph.nodes for x in (n, n.op, n.target, n.args, n.kwargs)]

    def __call__(self) -> bool:
        now = self._now()
        return len(now) == len(self.steps) and all(map(is_, now, self.steps))


class Interpreter:
    """Runs a graph step by step; subclasses change what steps of a kind do.

    Args:
        module: what has the parameters and submodules, and the graph unless that is given.
        garbage_collect_values: let values go when no further step needs them.
        graph: the steps.

    Attributes:
        env: the value of each step so far. extra_traceback: whether errors say which step they come from.

    >>> import torchlike as torch
    >>> class Negated(torch.fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         return -super().call_function(target, args, kwargs)
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.exp(x))
    >>> Negated(traced).run(torch.zeros(1))
    tensor([-1.])
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph  # type: ignore[assignment]
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values, self.extra_traceback = garbage_collect_values, True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            seen: set[Node] = set()
            for user in reversed(self.graph.nodes):
                for n in user.all_input_nodes:
                    if n not in seen:
                        seen.add(n)
                        self.user_to_last_uses.setdefault(user, []).append(n)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """The result of the graph.

        Args:
            args: for the placeholders, in their order.
            initial_env: the values of steps that are known already.
            enable_io_processing: take the arguments apart, and put the result together, as the graph's code does.
        """
        if state.capture is not None:
            state.capture.checks.append((_Same(self.graph), True))
        self.env = dict(initial_env or {})
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    where = f"While executing {node.format_node()}"
                    error.add_note(where + (f"\nOriginal traceback:\n{node.stack_trace}" if node.stack_trace else ""))
                raise
            for used in self.user_to_last_uses.get(node, ()):
                del self.env[used]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """As :meth:`run` with the arguments in a list, which is emptied, so that nothing else holds them."""
        given = list(args_list)
        args_list.clear()
        placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        return self.run(initial_env=dict(zip(placeholders, given, strict=True)))

    @contextlib.contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node):
            yield

    def run_node(self, n: Node) -> Any:
        """The value of a step, by the method of its kind."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # -- by kind -----------------------------------------------------------------------------------
    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument, or its default. Raises RuntimeError if there is neither."""
        if isinstance(target, str) and target.startswith("*"):
            return list(self.args_iter)
        found = next(self.args_iter, _NONE)
        if found is not _NONE:
            return found
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The attribute of the module at a path."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a function."""
        return target(*args, **kwargs)  # type: ignore[operator]

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a method of the first argument."""
        return getattr(args[0], str(target))(*args[1:], **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a submodule."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """What the graph gives."""
        return args[0]

    # -- helpers -----------------------------------------------------------------------------------
    def fetch_attr(self, target: str) -> Any:
        """The attribute at a path. Raises RuntimeError where there is none."""
        found: Any = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(found, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict]:
        """The arguments of a step, with values for steps."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)  # type: ignore[return-value]

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """``args`` with values for steps. Raises RuntimeError for a step that has not run."""

        def value(needed: Node) -> Any:
            if needed not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {needed}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[needed]

        return map_arg(args, value)


class _TransformerTracer(Tracer):
    """Adds to a new graph of a module's own steps."""

    def __init__(self, graph: Graph, module: Module) -> None:
        super().__init__()
        self.graph, self.root, self.tensor_attrs = graph, module, {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Makes a changed copy of a GraphModule: an Interpreter on proxies, whose steps make the steps of the copy.

    >>> import torchlike as torch
    >>> class ExpForRelu(torch.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(torch.exp if target is torch.relu else target, args, kwargs)
    >>> ExpForRelu(torch.fx.symbolic_trace(lambda x: torch.relu(x))).transform()(torch.zeros(1))
    tensor([1.])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph, module)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """A placeholder of the copy."""
        default = next(iter(args), ...)
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """A step of the copy."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A step of the copy."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A step of the copy."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The changed copy."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            old = self.graph.output_node()
            made = self.new_graph.output(map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a))
            made.meta.update(old.meta)
        return GraphModule(self.module, self.new_graph)
