"""torch.fx._symbolic_trace: graphs of Python functions and modules, by running them with proxies."""

from __future__ import annotations

import builtins
import collections
import functools
import inspect
import math
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

from torchlike._classes import ScriptObject as ScriptObject
from torchlike._core.tensor.tensor import Tensor
from torchlike.fx._codegen import PyTreeCodeGen, PyTreeInfo
from torchlike.fx._compatibility import compatibility as compatibility
from torchlike.fx._patches import Patcher, patching
from torchlike.fx._patches import Replacements as _Patcher
from torchlike.fx._qualified import PACKAGE
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import RETRACE, GraphModule
from torchlike.fx.node import Argument, Node, map_aggregate
from torchlike.fx.proxy import _PLAIN, ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.container import Sequential
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter
from torchlike.utils import _pytree as pytree

__getattr__ = missing_names(__name__)

# Functions that wrap() named: the globals that hold each, and its name in them.
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
_proxyable_classes: dict[type, None] = {}
_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class _Tracing(threading.local):
    """The tracers that run in this thread, the innermost last, each with its proxies of parameters."""

    def __init__(self) -> None:
        self.stack: list[tuple[Tracer, dict[str, Proxy]]] = []


_tracing = _Tracing()


def is_fx_tracing() -> bool:
    """Whether this thread traces a program."""
    return bool(_tracing.stack)


def is_fx_symbolic_tracing() -> bool:
    """Whether this thread traces a program, and does not compile one."""
    return bool(_tracing.stack)


class ProxyableClassMeta(type):
    """A metaclass: an object made with proxies while a program is traced is a step of the graph.

    >>> import torchlike as torch
    >>> class Pair(metaclass=torch.fx.ProxyableClassMeta):
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> list(torch.fx.symbolic_trace(lambda x: Pair(x, 2).a).graph.nodes)
    [x, pair, getattr_1, output]
    """

    def __init__(cls, name: str, bases: tuple, attrs: dict) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is None:
            return super().__call__(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", cls, args, kwargs)


class PHBase:
    """In ``concrete_args``: a leaf that stays an argument."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """In ``concrete_args``: a leaf that stays an argument, whose step has ``meta`` and other attributes.

    Args:
        ph_key: what the placeholder has under ``ph_key``.
    """

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


class Tracer(TracerBase):
    """Makes graphs of modules and functions. Subclasses change what is a single step, and what proxies are.

    Args:
        autowrap_modules: modules whose functions become steps when they are called with a proxy.
        autowrap_functions: further such functions.
        param_shapes_constant: whether a program may ask parameters for their shape.

    Attributes:
        root: the module that is traced, or an empty one; constants are put there. graph: the graph.

    >>> import torchlike as torch
    >>> class Deep(torch.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return False
    >>> net = torch.nn.Sequential(torch.nn.ReLU())
    >>> [node.name for node in Deep().trace(net).nodes]
    ['input_1', 'relu', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[types.ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable, ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(f) for f in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope, self.module_stack = Scope("", None), collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self._fresh: dict[str, int] = collections.defaultdict(int)

    # -- what subclasses change --------------------------------------------------------------------
    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of the module is a single step: by default for those of torch.nn but Sequential.

        Args:
            m: the module. module_qualified_name: its path.
        """
        home = type(m).__module__
        ours = home.startswith((f"{PACKAGE}.nn", f"{PACKAGE}.ao.nn", "torch.nn", "torch.ao.nn"))
        return ours and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a submodule of the root. Raises NameError if it is none."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError(f"module is not installed as a submodule: {type(mod).__name__}")
            return path
        for name, other in self.root.named_modules():
            if other is mod:
                return name
        raise NameError(f"module is not installed as a submodule: {type(mod).__name__}")

    def call_module(self, m: Module, forward: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Called for each call of a module: add a step for a leaf, or run the module to trace what it calls.

        Args:
            m: the module. forward: runs it. args, kwargs: the arguments.
        """
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            times = self.num_calls.get(path, 0)
            self.num_calls[path] = times + 1
            key = f"{path}@{times}" if times else path
            self.module_stack[key] = (path, type(m))
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Called for each parameter, buffer and submodule that a module is asked for: what the program gets.

        Args:
            attr: its name. attr_val: what it is. parameter_proxy_cache: the proxies of parameters by path.
        """
        if isinstance(attr_val, Parameter):
            return self._proxy_of(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._proxy_of(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _proxy_of(self, value: Tensor, named: Any, cache: dict[str, Proxy]) -> Any:
        for path, p in named:
            if p is not value:
                continue
            if path not in cache:
                more: dict[str, Any] = {}
                if self.param_shapes_constant:
                    more["proxy_factory_fn"] = functools.partial(_parameter_proxy, self, path, value)
                cache[path] = self.create_proxy("get_attr", path, (), {}, **more)
            return cache[path]
        return value

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the root has no attribute of: the prefix and a number."""
        while hasattr(self.root, name := f"{prefix}{self._fresh[prefix]}"):
            self._fresh[prefix] += 1
        self._fresh[prefix] += 1
        return name

    def create_arg(self, a: Any) -> Argument:
        """As :meth:`TracerBase.create_arg`; tensors become attributes of the root, which steps look up.

        Raises NameError for a parameter that the root has not.
        """
        if isinstance(a, Parameter):
            for name, p in self.root.named_parameters():
                if a is p:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, b in self.root.named_buffers():
                if a is b:
                    return self.create_node("get_attr", name, (), {})
            return self._constant(a, "_tensor_constant")
        if isinstance(a, Module):
            for name, m in self.root.named_modules():
                if a is m:
                    return self.create_node("get_attr", name, (), {})
        if type(a) in _proxyable_classes:
            return self._constant(a, f"_{type(a).__name__}_constant_")
        return super().create_arg(a)

    def _constant(self, a: Any, prefix: str) -> Argument:
        name = self.tensor_attrs.get(id(a))
        if name is None:
            name = self.tensor_attrs[id(a)] = self.get_fresh_qualname(prefix)
            setattr(self.root, name, a)
        return self.create_node("get_attr", name, (), {})

    # -- arguments ---------------------------------------------------------------------------------
    def create_args_for_root(
        self, root_fn: Callable, is_module: bool, concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
    ) -> tuple[Callable, list[Any]]:
        """Add the placeholders of a function.

        Returns:
            a function of positional arguments, and these arguments: proxies, and what ``concrete_args`` has.

        Raises RuntimeError if concrete_args is a tuple of another length than the function takes.
        """
        function: Any = inspect.unwrap(root_fn)
        if not isinstance(function, types.FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}: give a module or a Python function")
        code = function.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames[:total])
        args: list[Any] = [self.root] if is_module else []
        if is_module and not names:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        free = names[1:] if is_module else names
        if isinstance(concrete_args, tuple):
            if len(free) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(free)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(free, concrete_args, strict=True))
        signature = inspect.signature(function)
        args += [self._proxy_placeholder(name, concrete_args, signature, function) for name in free]
        if code.co_kwonlyargcount > 0 or code.co_flags & _VARIADIC:
            more = iter(code.co_varnames[total:])
            if code.co_flags & inspect.CO_VARARGS:
                args.append(self._proxy_placeholder(f"*{next(more)}", concrete_args, signature, function))
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(self._proxy_placeholder(f"**{next(more)}", concrete_args, signature, function))
            root_fn = _all_positional(function, len(args))
        flat, spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children()):
            return root_fn, args
        return self._flattened(root_fn, names, spec), flat

    def _flattened(self, function: Callable, names: list[str], spec: pytree.TreeSpec) -> Callable:
        """The function of the leaves of its arguments, that gives the leaves of its result."""
        self.graph._codegen = codegen = PyTreeCodeGen(PyTreeInfo(names, spec, None))

        def of_leaves(*leaves: Any) -> Any:
            out = function(*pytree.tree_unflatten(leaves, spec))
            results, out_spec = pytree.tree_flatten(out)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return results

        return of_leaves

    def _proxy_placeholder(
        self, name: str, concrete_args: dict[str, Any] | None, sig: inspect.Signature, fn_for_analysis: Callable
    ) -> Any:
        default: tuple = ()
        if not name.startswith("*") and sig.parameters[name].default is not inspect.Parameter.empty:
            default = (sig.parameters[name].default,)
        if concrete_args is not None and name in concrete_args:
            return self._concrete(name, concrete_args[name], default)
        annotation = fn_for_analysis.__annotations__.get(name)
        return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)

    def _concrete(self, name: str, given: Any, default: tuple) -> Any:
        """A placeholder for each leaf of an argument; those that are given are checked by the graph."""
        count = 0

        def leaf(x: Any) -> Any:
            nonlocal count
            count += 1
            out = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(x, PHBase):
                _transfer_attributes(x, out.node)
                return out
            message = f"{name} has been specialized to have value {x} but got another value"
            if x is None:
                self.create_proxy("call_function", _assert_is_none, (out, message), {})
            elif isinstance(x, _PLAIN) and not isinstance(x, Tensor):
                self.create_proxy("call_function", sys.modules[PACKAGE]._assert, (out == x, message), {})
            else:
                warnings.warn(
                    f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is "
                    "up to the user to make sure that your inputs match the inputs you specialized the function with.",
                    stacklevel=6,
                )
            return x

        return pytree.tree_map(leaf, given)

    # -- tracing -----------------------------------------------------------------------------------
    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or function.

        Args:
            root: what is run, once, with proxies as arguments.
            concrete_args: values of arguments that are not to be proxies, by name: the graph is of that case, and
                checks that later calls give them. In a container, ``torch.fx.PH`` marks what is to be a proxy.

        Raises:
            TraceError: control flow depends on a proxy. TypeError, NotImplementedError: what a graph cannot hold.
        """
        fn: Any
        if isinstance(root, Module):
            name = self.traced_func_name
            if not hasattr(type(root), name):
                raise AssertionError(f"traced_func_name={name} doesn't exist in {type(root).__name__}")
            self.root, fn = root, getattr(type(root), name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {m: name for name, m in root.named_modules()}
        else:
            self.root, fn = Module(), root
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = dict(_tensors_of(self.root, ""))
        names = getattr(inspect.unwrap(fn), "__globals__", {})
        returns = getattr(fn, "__annotations__", {}).get("return")
        fn, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
        cache: dict[str, Proxy] = {}
        _tracing.stack.append((self, cache))
        try:
            with patching() as patcher:
                self._patch(patcher, names)
                result = self.create_arg(fn(*args))
                self.create_node("output", "output", (result,), {}, type_expr=returns)
        finally:
            _tracing.stack.pop()
            self.submodule_paths = None
        return self.graph

    def _patch(self, patcher: Patcher, names: dict[str, Any]) -> None:
        patcher.attribute(Module, "__getattr__", _traced_getattr)
        patcher.attribute(Module, "__call__", lambda original: _traced_call(original))
        for (_, name), owner in list(_wrapped_fns_to_patch.items()):
            patcher.item(owner, name, _traced_function)
        self._patcher = patcher
        self._autowrap(names)
        for module in self._autowrap_search:
            self._autowrap(vars(module))

    def _autowrap(self, names: dict[str, Any]) -> None:
        """Replace the functions of ``autowrap_modules`` among the globals of a function."""
        if not names or id(names) in self._patcher.visited:
            return
        self._patcher.visited.add(id(names))
        for name, value in list(names.items()):
            if not name.startswith("_") and callable(value) and id(value) in self._autowrap_function_ids:
                self._patcher.item(names, name, _traced_function)

    def __deepcopy__(self, memo: dict) -> Tracer:
        made = object.__new__(type(self))
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("_autowrap_search", "_patcher")})
        made._autowrap_search = list(self._autowrap_search)
        return made


def _tensors_of(module: Module, prefix: str) -> list[tuple[int, str]]:
    """The tensors that modules have as plain attributes, by identity, with their paths."""
    own = [(id(v), prefix + k) for k, v in module.__dict__.items() if isinstance(v, Tensor)]
    for name, child in module.named_children():
        own += _tensors_of(child, f"{prefix}{name}.")
    return own


def _parameter_proxy(tracer: Tracer, path: str, value: Tensor, node: Node) -> ParameterProxy:
    return ParameterProxy(tracer, node, path, value)


def _transfer_attributes(placeholder: PHBase, node: Any) -> None:
    for name, value in vars(placeholder).items():
        setattr(node, name, value)


def _all_positional(function: Any, count: int) -> Callable:
    """The function with its keyword-only, ``*`` and ``**`` parameters as ordinary ones."""
    code = function.__code__.replace(
        co_flags=function.__code__.co_flags & ~_VARIADIC, co_argcount=count, co_kwonlyargcount=0, co_posonlyargcount=0
    )
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _traced_getattr(original: Callable) -> Callable:
    """``Module.__getattr__`` that asks the tracer of this thread, if there is one; see Note [Patches]."""

    @functools.wraps(original)
    def __getattr__(self: Module, name: str) -> Any:
        value = original(self, name)
        if not _tracing.stack:
            return value
        tracer, cache = _tracing.stack[-1]
        return tracer.getattr(name, value, cache)

    return __getattr__


def _traced_call(original: Callable) -> Callable:
    """``Module.__call__`` that asks the tracer of this thread, if there is one."""

    @functools.wraps(original)
    def __call__(self: Module, *args: Any, **kwargs: Any) -> Any:
        if not _tracing.stack:
            return original(self, *args, **kwargs)
        tracer = _tracing.stack[-1][0]
        tracer._autowrap(getattr(getattr(self, "forward", None), "__globals__", {}))

        def forward(*args: Any, **kwargs: Any) -> Any:
            return original(self, *args, **kwargs)

        return tracer.call_module(self, forward, args, kwargs)

    return __call__


def _traced_function(original: Callable) -> Callable:
    """A function whose calls with a proxy are steps."""

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return original(*args, **kwargs)
        out = proxy.tracer.create_proxy("call_function", original, args, kwargs)
        out.node.meta["is_wrapped"] = True
        return out

    return wrapped


# -- what a program with a trace() of its own puts together ----------------------------------------------------------

FunctionType = types.FunctionType
_orig_module_call: Callable = Module.__call__
_orig_module_getattr: Callable = Module.__getattr__


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """Have the functions that :func:`wrap` named be steps."""
    for (_, name), owner in list(_wrapped_fns_to_patch.items()):
        original = owner[name] if name in owner else getattr(builtins, name)
        patcher.patch(owner, name, _traced_function(original))


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    """Have those functions among the globals of another be steps."""
    if not patcher.visit_once(frame_dict):
        return
    for name, value in list(frame_dict.items()):
        if not name.startswith("_") and callable(value) and id(value) in function_ids:
            patcher.patch(frame_dict, name, _traced_function(value))


def _find_proxy(*values: Any) -> Proxy | None:
    """The first proxy in containers."""
    found: list[Proxy] = []
    map_aggregate(values, lambda x: found.append(x) if isinstance(x, Proxy) else None)
    return found[0] if found else None


def _assert_is_none(value: Any, msg: str) -> None:
    """Raise AssertionError with a message unless the value is None: a step of graphs of ``concrete_args``."""
    if value is not None:
        raise AssertionError(msg)


def wrap(fn_or_name: Any) -> Any:
    """Have calls of a global function be a single step when a program is traced; a decorator, or a call with a name.

    Args:
        fn_or_name: the function, or its name in the module that calls ``wrap`` ("len").

    Returns it. The call must stand at the top level of a module.

    Raises:
        RuntimeError: it is neither. NotImplementedError: the call stands in a function.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    caller = sys._getframe(1)  # whose globals hold the function: that is what PyTorch's function asks, too
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
) -> GraphModule:
    """A module whose code is what ``root`` does, found by running it once with proxies.

    Args:
        root: a module or function. concrete_args: values of arguments that decide on control flow; see
            :meth:`Tracer.trace`.

    Raises:
        TraceError: control flow depends on a proxy.

    >>> import torchlike as torch
    >>> traced = torch.fx.symbolic_trace(lambda x, scale=2.0: torch.relu(x) * scale)
    >>> print(traced.code.strip())
    def forward(self, x, scale = 2.0):
        relu = torch.relu(x);  x = None
        mul = relu * scale;  relu = scale = None
        return mul
    >>> traced(torch.tensor([-1.0, 3.0]))
    tensor([0., 6.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)  # type: ignore[arg-type]
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


class _KeepModules(Tracer):
    """Has every module of generated code be a step, as it was."""

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


RETRACE.append(lambda root: _KeepModules().trace(root))
