"""torch.fx.graph_module: modules whose forward is the code of a graph."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import linecache
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.fx._codegen import PyTreeCodeGen
from torchlike.fx._compatibility import compatibility as compatibility
from torchlike.fx._folder import write_folder
from torchlike.fx._names import CUSTOM_BUILTINS
from torchlike.fx._qualified import PACKAGE, public_module, qualified_name
from torchlike.fx.graph import Graph, PythonCode
from torchlike.fx.node import Node
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter

__all__ = ["GraphModule", "reduce_graph_module"]

__getattr__ = missing_names(__name__)

# the entry of `meta` where PyTorch's export keeps attributes that a user has set
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"

_files = itertools.count()


def _compiled(src: str, names: dict[str, Any]) -> Callable:
    """The function that the code defines; its lines are known to tracebacks."""
    file = f"<eval_with_key>.{next(_files)}"
    lines = src.splitlines(keepends=True)
    linecache.cache[file] = (len(src), None, lines, file)  # type: ignore[assignment]
    scope = dict(names)
    exec(compile(src, file, "exec", dont_inherit=True), scope)  # its annotations are no strings
    function = scope.pop("forward")
    weakref.finalize(function, linecache.cache.pop, file, None)
    return function


def _calling(function: Callable) -> Callable:
    """The method that calls the function which the module has now.

    A program of torch.compile is checked against what objects have, not against what their classes do: so it sees that
    a module was recompiled.
    """

    @functools.wraps(function)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._forward(self, *args, **kwargs)

    return forward


def _holder(root: Any, path: list[str], make: bool) -> Any:
    """The module at a path; made on the way if ``make``, else None where there is none."""
    for part in path:
        child = getattr(root, part, None)
        if child is None:
            if not make:
                return None
            child = Module()
            setattr(root, part, child)
        root = child
    return root


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Have ``to_module`` share the attribute at a path."""
    *path, field = target.split(".")
    source = _holder(from_module, path, False)
    if source is None:
        return
    if source is to_module:
        return
    value = getattr(source, field)
    holder = _holder(to_module, path, True)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        holder.register_buffer(field, value, field not in getattr(source, "_non_persistent_buffers_set", ()))
    else:
        setattr(holder, field, value)


def _assign_attr(value: Any, to_module: Module, target: str) -> None:
    """Set the attribute at a path."""
    *path, field = target.split(".")
    holder = _holder(to_module, path, True)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        holder.register_buffer(field, value)
    else:
        setattr(holder, field, value)


def _get_attr(model: Module, attr_name: str) -> Any:
    """The attribute at a path."""
    for part in attr_name.split("."):
        model = getattr(model, part)
    return model


def _del_attr(model: Module, attr_name: str) -> None:
    """Delete the attribute at a path."""
    path, _, field = attr_name.rpartition(".")
    delattr(_get_attr(model, path) if path else model, field)


def _has_attr(model: Module, attr_name: str) -> bool:
    """Whether there is an attribute at a path."""
    missing = object()
    here: Any = model
    for part in attr_name.split("."):
        here = getattr(here, part, missing)
        if here is missing:
            return False
    return True


class GraphModule(Module):
    """A module whose ``forward`` is the code of a graph.

    Args:
        root: a module, of which those parameters, buffers and submodules are taken over that the graph names; or a dict
            of these by path.
        graph: the steps. class_name: what the module says that it is.

    Attributes:
        graph: the graph; assign another, or change this one and call :meth:`recompile`. code: the code.

    Raises:
        RuntimeError: the dict lacks what the graph names, or ``root`` is something else.

    >>> import torchlike as torch
    >>> traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    >>> for node in traced.graph.find_nodes(op="call_module"):
    ...     node.op, node.target = "call_function", torch.tanh
    >>> _ = traced.recompile()
    >>> traced(torch.zeros(2))
    tensor([0., 0.])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        base = next(c for c in cls.__mro__ if not c.__dict__.get("_is_impl", False))
        made = type("GraphModuleImpl", (base,), {"_is_impl": True, "__module__": base.__module__})
        return super().__new__(made)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copy_attr(root, self, str(node.target))
        elif isinstance(root, dict):
            self._take(root, graph)
        else:
            raise RuntimeError(
                f"Unsupported type {root!r} passed for root! Give a module, or a dict of what the graph names"
            )
        self.meta: dict[str, Any] = dict(vars(root).get("meta", ())) if isinstance(root, GraphModule) else {}
        self._replace_hooks: list[Callable] = []
        self._create_node_hooks: list[Callable] = []
        self._erase_node_hooks: list[Callable] = []
        self._deepcopy_hooks: list[Callable] = []
        self._tracer_cls = graph._tracer_cls
        self.graph = graph

    def _take(self, root: dict[str, Any], graph: Graph) -> None:
        wanted = {}
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
                wanted[str(node.target)] = root[str(node.target)]
        for path in sorted(wanted, key=lambda p: p.count(".")):
            _assign_attr(wanted[path], self, path)

    # -- code --------------------------------------------------------------------------------------
    @property
    def graph(self) -> Graph:
        """The steps."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The Python code of ``forward``."""
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated!")
        return self._code

    def recompile(self) -> PythonCode:
        """Make the code anew; to be called when the graph has changed."""
        codegen = self._graph._codegen
        if isinstance(codegen, PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        made = self._graph.python_code(root_module="self")
        self._code = made.src
        self._globals = made.globals
        function = self.__dict__["_forward"] = _compiled(made.src, made.globals)
        type(self).forward = _calling(function)  # type: ignore[method-assign]
        return made

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """The code of this module and of the GraphModules in it, with shapes where ``meta`` has them; also printed.

        Args are those of :meth:`Graph.python_code`; ``colored`` and ``additional_meta`` raise NotImplementedError.
        """
        shown = {"include_stride": include_stride, "include_device": include_device, "expanded_def": expanded_def}
        text = self._readable(self._get_name(), colored=colored, additional_meta=additional_meta, **shown)
        if print_output:
            print(text)
        return text

    def _readable(self, name: str, **shown: Any) -> str:
        code = self._graph.python_code("self", verbose=True, **shown).src.lstrip("\n")
        text = f"class {name}(torch.nn.Module):\n" + _indented(code)
        for child_name, child in self.named_children():
            if isinstance(child, GraphModule):
                text += _indented("\n" + child._readable(child_name, **shown))
        return text

    def __str__(self) -> str:
        orig = super().__str__()
        note = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([orig, self._code, note])

    # -- submodules --------------------------------------------------------------------------------
    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a path, with empty modules on the way; False if something else is on the way."""
        *path, field = target.split(".")
        here: Any = self
        for part in path:
            child = getattr(here, part, None)
            if child is None:
                child = Module()
                setattr(here, part, child)
            if not isinstance(child, Module):
                return False
            here = child
        here.add_module(field, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take out the module at a path; False if there is none."""
        *path, field = target.split(".")
        here: Any = self
        for part in path:
            here = getattr(here, part, None)
            if not isinstance(here, Module):
                return False
        if not isinstance(getattr(here, field, None), Module):
            return False
        delattr(here, field)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take out the modules that no step calls, nor any step of a module that is called."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = str(node.target).split(".")
                used.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
                module = _get_attr(self, str(node.target)) if _has_attr(self, str(node.target)) else None
                if node.op == "call_module" and isinstance(module, Module):
                    used.update(f"{node.target}.{name}" for name, _ in module.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # -- copies ------------------------------------------------------------------------------------
    def __deepcopy__(self, memo: dict) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        state = {k: v for k, v in self.__dict__.items() if k not in _MADE}
        hooks = {k: state.pop(k) for k in _HOOKS}
        made.__dict__.update(copy.deepcopy(state, memo))
        made.__dict__.update({k: list(v) for k, v in hooks.items()})
        type(made).__name__ = type(self).__name__
        made.graph = copy.deepcopy(self._graph, memo)
        for hook in made._deepcopy_hooks:
            hook(made)
        return made

    def _replicate_for_data_parallel(self) -> GraphModule:
        made = self.__copy__()
        made.__dict__.update(super()._replicate_for_data_parallel().__dict__)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, copy.deepcopy(self.graph), type(self).__name__)
        made.meta = self.meta
        return made

    def __reduce__(self) -> tuple:
        state = {k: v for k, v in self.__dict__.items() if k not in _MADE or k == "_code"}
        state.update(dict.fromkeys(_HOOKS, ()))
        imports = "\n".join(_import_line(name, obj) for name, obj in self._globals.items())
        state["_graphmodule_cls_name"] = type(self).__name__
        return reduce_graph_module, (state, imports)

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a Python package: ``module.py`` with a class of this name, and its parameters."""
        imports = "\n".join(_import_line(name, obj) for name, obj in self._globals.items())
        write_folder(self, Path(folder), module_name, imports)

    # -- hooks -------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: Callable) -> None:
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[[Node], object]) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[[Node], object]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[[Node], object]) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[[Node], object]) -> None:
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f: Callable[[GraphModule], object]) -> None:
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f: Callable[[GraphModule], object]) -> None:
        self._deepcopy_hooks.remove(f)


_MADE = ("_graph", "_code", "_globals", "_forward", "_compiled_call_impl")  # what is made of the graph
_HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")


def _indented(text: str) -> str:
    return "\n".join([f"    {line}" if line.strip() else "" for line in text.split("\n")])


def _import_line(name: str, obj: Any) -> str:
    """The line that gives code the name of an object."""
    if name in CUSTOM_BUILTINS:
        return CUSTOM_BUILTINS[name].import_str
    path = qualified_name(obj) if hasattr(obj, "__name__") else name
    module, _, attribute = path.rpartition(".")
    if not module:
        return f"from builtins import {attribute} as {name}" if attribute != name else f"from builtins import {name}"
    return f"from {public_module(module)} import {attribute} as {name}"


class _CodeOnlyModule(Module):
    """What unpickling traces: attributes, and code as ``forward``."""

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(state)


RETRACE: list[Callable[[Module], Graph]] = []  # the tracer of unpickling, which is above this module


def reduce_graph_module(body: dict[Any, Any], import_block: str) -> Any:
    """The GraphModule that was pickled as its attributes and its code, whose graph is traced anew."""
    state = dict(body)
    name, code, tracer_cls = state.pop("_graphmodule_cls_name"), state.pop("_code"), state.pop("_tracer_cls", None)
    names: dict[str, Any] = {}
    exec(import_block.replace("from torch", f"from {PACKAGE}").replace("import torch\n", ""), names)
    names.update({k: v.obj for k, v in CUSTOM_BUILTINS.items()})
    root = _CodeOnlyModule(state)
    type_ = type("CodeOnly", (_CodeOnlyModule,), {"forward": _compiled(code, names)})
    root.__class__ = type_
    graph = RETRACE[0](root)
    graph._tracer_cls = tracer_cls
    made = GraphModule(root, graph, name)
    made.__dict__.update({k: v for k, v in state.items() if k not in made.__dict__ or k == "meta"})
    return made
