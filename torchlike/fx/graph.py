"""torch.fx.graph: the steps of a function."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torchlike.fx._codegen import CodeGen as CodeGen
from torchlike.fx._codegen import PythonCode as PythonCode
from torchlike.fx._codegen import TransformCodeFunc as TransformCodeFunc
from torchlike.fx._compatibility import compatibility as compatibility
from torchlike.fx._lint import lint
from torchlike.fx._names import CUSTOM_BUILTINS as _custom_builtins
from torchlike.fx._names import CustomBuiltin as _CustomBuiltin
from torchlike.fx._names import Namespace as _Namespace
from torchlike.fx._names import is_magic as _is_magic
from torchlike.fx._names import snake_case as _snake_case
from torchlike.fx._qualified import target_name
from torchlike.fx.node import Argument, Node, Target, map_arg
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter

if TYPE_CHECKING:
    from torchlike.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

__getattr__ = missing_names(__name__)


def _register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    """Have every generated code know ``name``."""
    _custom_builtins[name] = _CustomBuiltin(import_str, obj)


class _InsertPoint:
    """Where new steps go; as a context, until its end."""

    def __init__(self, graph: Graph, new_insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.orig_insert, graph._insert = graph._insert, new_insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.orig_insert


class _node_list:
    """The steps of a graph in their order; steps may come and go while it is read."""

    def __init__(self, graph: Graph, direction: str = "next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = node = self.graph._root
        forward = self.direction == "next"
        while True:
            node = node._next if forward else node._prev
            if node is root:
                return
            if not node._erased:
                yield node

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "prev" if self.direction == "next" else "next")


def _is_there(module: GraphModule, path: str) -> bool:
    """Whether a module has a submodule, parameter or buffer at a path."""
    prefix, _, name = path.rpartition(".")
    try:
        parent = module.get_submodule(prefix)
    except AttributeError:
        warnings.warn(f"Failed to fetch module {prefix}!", stacklevel=3)
        return False
    found = getattr(parent, name, None)
    return isinstance(found, Module | Parameter) or name in parent._buffers


class Graph:
    """The steps of a function: placeholders for its arguments, calls, and an output.

    Args:
        owning_module: the GraphModule that it is of. tracer_cls: the class of the tracer that made it.
        tracer_extras: what such a tracer needs besides.

    Each method that adds a step returns its :class:`torch.fx.Node`.

    >>> import torchlike as torch
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.relu, (x,))
    >>> _ = graph.output(y)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        return relu
    >>> torch.fx.GraphModule(torch.nn.Module(), graph)(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._ordered = True
        self._used_names: dict[str, int] = {}
        self._graph_namespace = _Namespace()
        self.owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._co_fields: Any = None

    @property
    def nodes(self) -> _node_list:
        """The steps in their order."""
        return _node_list(self)

    def _reordered(self) -> None:
        self._ordered = False

    def _number(self) -> None:
        """Number the steps, if any has moved since."""
        if not self._ordered:
            for i, node in enumerate(self.nodes):
                node._order = i
            self._ordered = True

    # -- adding ------------------------------------------------------------------------------------
    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a step at the insert point, the end by default.

        Args:
            op: placeholder, get_attr, call_function, call_method, call_module or output.
            target: the function, or the name of the method, module, attribute or argument.
            args, kwargs: its arguments. name: of its variable. type_expr: its annotation.

        Raises:
            AssertionError: op or arguments of another kind. ValueError: a target of another kind.
        """
        if op not in ("call_function", "call_method", "get_attr", "call_module", "placeholder", "output"):
            raise AssertionError(f"op '{op}' is not one of those that a step of a graph can be")
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        if op not in ("call_function", "placeholder", "output") and not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}: it names what op '{op}' calls")
        candidate = name if name is not None else self._target_to_str(target)
        name = self._graph_namespace.create_name(candidate, None)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        for hook in getattr(self.owning_module, "_create_node_hooks", ()) or ():
            hook(node)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        self._ordered = False
        return node

    def placeholder(self, name: str, type_expr: Any | None = None, default_value: Any = ...) -> Node:
        """An argument of the function; ``*name`` and ``**name`` are as in Python."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """A parameter or other attribute of the module, by its path. Warns if the module has none of that name."""
        if self.owning_module is not None and not _is_there(self.owning_module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the "
                "necessary Parameter, or nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """A call of a submodule, by its path. AttributeError if the graph's module has none of that name."""
        if self.owning_module is not None:
            self.owning_module.get_submodule(module_name)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """A call of a method of ``args[0]``."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """What the function returns."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Add a copy of a step of another graph.

        Args:
            arg_transform: gives for each Node among its arguments what the copy has in its place.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Add copies of all steps of ``g`` but the output.

        Args:
            val_map: what stands for steps of ``g`` already; the copies are added to it.
            return_output_node: also return the output step of ``g``.

        Returns:
            what the output of ``g`` gives, in terms of the copies; None if it has none.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict | None = None) -> Graph:
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        copies: dict[Node, Node] = {}
        found = made.graph_copy(self, copies, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen)
        memo[id(self)] = made
        memo.update({id(old): new for old, new in copies.items()})
        if found is not None:
            result, old = found
            made.output(result, type_expr=old.type).meta = copy.copy(old.meta)
        return made

    # -- where -------------------------------------------------------------------------------------
    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Have new steps go before ``n`` (the first one by default), until the end of the context if it is used as one.

        >>> import torchlike as torch
        >>> graph = torch.fx.symbolic_trace(lambda x: x + 1).graph
        >>> add = graph.output_node().args[0]
        >>> with graph.inserting_before(add):
        ...     relu = graph.call_function(torch.relu, add.args[:1])
        >>> [node.name for node in graph.nodes]
        ['x', 'relu', 'add', 'output']
        """
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Have new steps go behind ``n`` (the last one by default), each behind the one before."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def erase_node(self, to_erase: Node) -> None:
        """Take a step out. Raises RuntimeError if another uses it."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}! Have them use another first: replace_all_uses_with"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()) or ():
            hook(to_erase)
        before, after = to_erase._prev, to_erase._next
        before._next, after._prev = after, before
        to_erase._erased = True
        self._len -= 1
        self._ordered = False
        to_erase._set_arguments(map_arg(to_erase.args, lambda n: None), map_arg(to_erase.kwargs, lambda n: None))

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out what nobody uses; whether there was any.

        Args:
            is_impure_node: says which steps stay in any case; :meth:`Node.is_impure` by default.
        """
        self.lint()
        keep = is_impure_node or (lambda node: node.is_impure())
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not keep(node):
                self.erase_node(node)
                changed = True
        return changed

    # -- looking -----------------------------------------------------------------------------------
    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The steps of a kind, in their order.

        Args:
            op: of the steps. target: theirs, which may be left out but for "call_function" (AssertionError).
        """
        if op == "call_function" and target is None:
            raise AssertionError("find_nodes: target must not be None for call_function op")
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The output; AssertionError if the last step is none."""
        node = next(iter(reversed(self.nodes)))
        if node.op != "output":
            raise AssertionError(f"Expected output node, got op={node.op}")
        return node

    def lint(self) -> None:
        """Raise RuntimeError or ValueError where the graph is not well formed."""
        lint(self)

    def __str__(self) -> str:
        return "graph():" + "".join([f"\n    {node.format_node()}" for node in self.nodes])

    def print_tabular(self) -> None:
        """Print the steps as a table: opcode, name, target, args, kwargs."""
        head = ["opcode", "name", "target", "args", "kwargs"]
        rows = [[str(x) for x in (n.op, n.name, n.target, n.args, n.kwargs)] for n in self.nodes]
        # As the package tabulate does, which PyTorch asks: columns are wider than their heads.
        widths = [max([len(name) + 2, *map(len, column)]) for name, *column in zip(head, *rows, strict=True)]
        for row in (head, ["-" * width for width in widths], *rows):
            print("  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]).rstrip())

    # -- code --------------------------------------------------------------------------------------
    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """The graph as a Python function.

        Args:
            root_module: the expression of the module, "self".
            verbose: with comments on where steps come from, and shapes where ``meta`` has them.
            include_stride, include_device: in those shapes. expanded_def: an argument on each line.

        Raises:
            NotImplementedError: colored, record_func or additional_meta.
        """
        for name, given in (("colored", colored), ("record_func", record_func), ("additional_meta", additional_meta)):
            if given:
                raise NotImplementedError(f"torch.fx.Graph.python_code({name}={given!r})")
        namespace = _Namespace()
        shown = [(node, node._repr_fn) for node in self.nodes]
        for node in self.nodes:
            node._repr_fn = lambda n: namespace.create_name(n.name, n)
        try:
            return self._codegen._gen_python_code(
                self.nodes, root_module, namespace, verbose=verbose, include_stride=include_stride,
                include_device=include_device, expanded_def=expanded_def,
            )  # fmt: skip
        finally:
            for node, how in shown:
                node._repr_fn = how

    def process_inputs(self, *args: Any) -> Any:
        """The arguments of the function as the placeholders take them (leaves, if it takes containers)."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What the function returns, of what the output gives."""
        return self._codegen.process_outputs(out)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Have ``codegen`` make the code from now on."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """Have the lines of the code changed when it is made; as a context, until its end.

        Args:
            make_transformer: given the present transformer (a function of the lines to the lines, or None), the new.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def until_the_end() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return until_the_end()

    def _target_to_str(self, target: Target | None) -> str:
        """The name that a step of this target is given."""
        name = target_name(target) if callable(target) else str(target)
        return _snake_case(name[2:-2] if _is_magic(name) else name)
