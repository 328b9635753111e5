"""torch.fx.node: one step of a graph."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchlike._base import dtypes
from torchlike._base.device import device
from torchlike.fx._compatibility import compatibility as compatibility
from torchlike.fx._qualified import qualified_name, type_text
from torchlike.fx.immutable_collections import immutable_dict, immutable_list
from torchlike.interop.alias import missing_names

if TYPE_CHECKING:
    from torchlike.fx.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

__getattr__ = missing_names(__name__)

BaseArgumentTypes = str | int | float | bool | complex | dtypes.dtype | device
Target = Callable[..., Any] | str
Argument = Any

_legal_ops = dict.fromkeys((
    "placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root",
))  # fmt: skip
_side_effectful_functions: set[Callable] = {operator.setitem, operator.iadd, operator.isub, operator.imul}
_legal_side_effects_free = frozenset(("placeholder", "output"))
_RANDOM = frozenset((
    "bernoulli", "dropout", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm",
))  # fmt: skip
_KEPT = frozenset((
    "_assert", "_assert_is_none", "_assert_async", "_assert_scalar", "_record_function_enter",
    "_record_function_enter_new", "_record_function_exit",
))  # fmt: skip


def has_side_effect(fn: Callable) -> Callable:
    """Keep calls of ``fn`` in graphs though nobody reads their result; a decorator.

    >>> import torchlike as torch
    >>> @torch.fx.has_side_effect
    ... def report(x):
    ...     print(x)
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """``a`` with ``fn`` applied to everything within its tuples, lists, dicts and slices; lists become immutable.

    >>> import torchlike as torch
    >>> torch.fx.node.map_aggregate((1, [2, {"a": 3}]), lambda x: x + 1)
    (2, [3, {'a': 4}])
    """
    if isinstance(a, tuple):
        mapped = [map_aggregate(x, fn) for x in a]
        return type(a)(*mapped) if hasattr(a, "_fields") else tuple(mapped)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict([(k, map_aggregate(v, fn)) for k, v in a.items()])
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """``a`` with ``fn`` applied to every Node within; see :func:`map_aggregate`. AssertionError if not callable."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _get_qualified_name(func: Callable) -> str:
    return qualified_name(func)


def _type_repr(obj: object) -> str:
    return type_text(obj)


def _format_arg(arg: object, max_list_len: float = float("inf")) -> str:
    """How str(graph) writes an argument."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, list | tuple):
        shown = [_format_arg(a) for i, a in enumerate(arg) if i < max_list_len]
        text = ", ".join(shown) + (f", ...[total_len={len(arg)}]" if len(arg) > len(shown) else "")
        if isinstance(arg, list):
            return f"[{text}]"
        return f"({text},)" if len(arg) == 1 else f"({text})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


class Node:
    """One step of a :class:`torch.fx.Graph`.

    Made by the graph's methods. ``op`` is one of placeholder, get_attr, call_function, call_method, call_module and
    output; ``target`` the name or function that it calls; ``name`` the variable that its value has in generated code.

    Attributes:
        args, kwargs: its arguments, with Nodes where they are values of other steps. Assign to change them.
        users: the Nodes that use it, as the keys of a dict. all_input_nodes: those that it uses.
        meta: a dict for whatever passes know of it. type: the annotation of its value, or None.

    >>> import torchlike as torch
    >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
    >>> for node in graph.nodes:
    ...     print(node.op, node.name, node.args)
    placeholder x ()
    call_function relu (x,)
    call_function add (relu, 1)
    output output (add,)
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any | None = None,
    ) -> None:
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' of Node {name} is not one of {sorted(_legal_ops)}")
        if op == "call_function" and not callable(target):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type_text(type(target))} but a "
                "Callable is expected"
            )
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type_text(type(target))} but a "
                "str is expected"
            )
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type, self.meta = return_type, {}
        self._repr_fn: Callable[[Node], str] | None = None
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased, self._order = False, 0
        self._args: Any = ()
        self._kwargs: Any = immutable_dict()
        self._set_arguments(args, kwargs)

    # -- its place ---------------------------------------------------------------------------------
    @property
    def next(self) -> Node:
        """The step after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The step before this one."""
        return self._prev

    @property
    def _sort_key(self) -> tuple[int, ...]:
        self.graph._number()
        return (self._order,)

    def __lt__(self, other: Node) -> bool:
        return self._sort_key < other._sort_key

    def __gt__(self, other: Node) -> bool:
        return self._sort_key > other._sort_key

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    def prepend(self, x: Node) -> None:
        """Move the Node ``x`` of the same graph before this one."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._take_out()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x
        self.graph._reordered()

    def append(self, x: Node) -> None:
        """Move the Node ``x`` of the same graph behind this one."""
        self._next.prepend(x)

    def _take_out(self) -> None:
        before, after = self._prev, self._next
        before._next, after._prev = after, before

    _remove_from_list = _take_out

    # -- its arguments -----------------------------------------------------------------------------
    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._set_arguments(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The keyword arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._set_arguments(self._args, k)

    def _set_arguments(self, args: Any, kwargs: Any) -> None:
        found: dict[Node, None] = {}

        def noted(x: Any) -> Any:
            if isinstance(x, Node):
                found[x] = None
            return x

        args, kwargs = map_aggregate(args, noted), map_aggregate(kwargs, noted)
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = args, kwargs, found
        for new in found:
            new.users.setdefault(self)

    _update_args_kwargs = _set_arguments

    @property
    def all_input_nodes(self) -> list[Node]:
        """The Nodes among the arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Put ``arg`` in the place of the positional argument ``idx``."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put ``arg`` before the positional argument ``idx``. AssertionError if there is no such place."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError(
                f"insert_arg: index must be between 0 and len(self.args) = {len(self._args)}, got {idx}"
            )
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set the keyword argument ``key``."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use ``new_input`` wherever this Node uses ``old_input``."""
        self._tell_replaced(old_input, new_input)

        def other(n: Node) -> Node:
            return new_input if n is old_input else n

        self._set_arguments(map_arg(self._args, other), map_arg(self._kwargs, other))

    _replace_input_with = replace_input_with

    def _tell_replaced(self, old: Node, new: Node) -> None:
        module = self.graph.owning_module
        for hook in getattr(module, "_replace_hooks", ()) or ():
            hook(old=old, new=new.name, user=self)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Have every user of this Node use ``replace_with``; the list of those that were changed.

        Args:
            delete_user_cb: asked for each user whether it shall change.
            propagate_meta: give ``replace_with``, whose meta is empty, that of this Node.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    f"Called node.replace_all_uses_with(replace_with, propagate_meta=True), but {replace_with} already "
                    "has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # -- what it is --------------------------------------------------------------------------------
    @property
    def stack_trace(self) -> str | None:
        """Where the program made this step, if the tracer recorded that."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the step does more than compute its value, so that it stays though nobody uses that.

        Args:
            impure_random: whether drawing random numbers counts.

        Raises AssertionError for a call of a module where the graph has no module yet.
        """
        if self.op in _legal_side_effects_free:
            return True
        if self.op == "call_function":
            return self._function_is_impure(impure_random)
        if self.op == "call_module":
            if self.graph.owning_module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return bool(getattr(self.graph.owning_module.get_submodule(str(self.target)), "_is_impure", False))
        return False

    def _function_is_impure(self, impure_random: bool) -> bool:
        schema = getattr(self.target, "_schema", None)
        if schema is not None and schema.is_mutable:
            return True
        if impure_random and getattr(self.target, "__name__", "").partition(".")[0] in _RANDOM:
            return True
        return getattr(self.target, "__name__", "") in _KEPT or self.target in _side_effectful_functions

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """The arguments as :func:`torch.fx.operator_schemas.normalize_function` and ``normalize_module`` give them."""
        if self.op == "call_function":
            return Node._normalizers[0](
                self.target, self.args, self.kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self.op == "call_module":
            return Node._normalizers[1](root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs)
        return None

    _normalizers: tuple[Callable, Callable]  # torch.fx.operator_schemas puts them here

    # -- how it is written -------------------------------------------------------------------------
    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    @staticmethod
    def _pretty_print_target(target: object) -> str:
        """``torch.relu``, ``operator.add``, or the name of a method or module."""
        if isinstance(target, str):
            return target
        name = qualified_name(target)  # type: ignore[arg-type]
        if isinstance(target, types.BuiltinFunctionType | type) and getattr(target, "__module__", "") == "builtins":
            return f"builtins.{name.rpartition('.')[2]}"
        return name.replace("_operator.", "operator.", 1) if name.startswith("_operator.") else name

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str:
        """The line of ``str(graph)`` for this step.

        Args:
            placeholder_names: if this is a placeholder, its argument as a function has it is appended.
            maybe_return_typename: a list of one text, which becomes `` -> T`` if this is the output and has a type.
            include_tensor_metadata: refused; PyTorch's names of tensors of ``meta`` are not written.
        """
        if include_tensor_metadata:
            raise NotImplementedError("torch.fx.Node.format_node(include_tensor_metadata=True)")
        kind = "" if self.type is None else f"{type_text(self.type)} "
        start = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={self._shown_target()}]"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.name if self.type is None else f"{self.name} : {type_text(self.type)}")
            return start + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return start
        if self.op == "output":
            if self.type is not None and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_text(self.type)}"
            return f"return {self.args[0]}"
        return f"{start}(args = {_format_arg(self._args)}, kwargs = {_format_arg(self._kwargs)})"

    def _shown_target(self) -> str:
        return self._pretty_print_target(self.target)

    def _rename(self, candidate: str) -> None:
        """Take the name ``candidate``, or one made from it that no other Node of the graph has."""
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)
