"""What ``torch.jit.script`` and ``torch.jit.trace`` make: functions and modules that run their Python."""

import copy
import functools
import inspect
import io
import types
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from torchlike._jit_internal import FunctionModifiers, _qualified_name, get_torchscript_modifier, tracing
from torchlike.jit._errors import reraise, script_errors
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import is_lazy


class Attribute(NamedTuple):
    """A value and its type, for an attribute of a script module."""

    value: Any
    type: Any


class ScriptWarning(Warning):
    """A warning about a script."""


class TracerWarning(Warning):
    """A warning about a trace."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing to do: this library raises none."""


class TracingCheckError(Exception):
    """A traced function that gives other results than its Python."""


def absent(owner: str, name: str) -> NoReturn:
    """There is no TorchScript program behind a scripted function to be shown."""
    raise NotImplementedError(
        f"{owner}.{name}: scripted functions run as the Python that they are, without TorchScript code or a graph; "
        "torch.export.export(...) gives a program in StableHLO"
    )


def _no(owner: str, name: str) -> property:
    return property(lambda self: absent(owner, name), doc=f"Raises NotImplementedError: there is no {name}.")


_SHOWN = ("code", "code_with_constants", "graph", "inlined_graph", "schema")


class _Running:
    """In this context the thread runs what ``torch.jit.trace`` made."""

    __slots__ = ()

    def __enter__(self) -> None:
        tracing.depth += 1

    def __exit__(self, *exc: object) -> None:
        tracing.depth -= 1


RUNNING = _Running()


class ScriptFunction:
    """A function that ``torch.jit.script`` or ``torch.jit.trace`` was given. Calls run its Python.

    Attributes:
        name, qualified_name: its names. ``code``, ``graph``, ``inlined_graph`` and ``schema`` raise
            NotImplementedError.
    """

    def __init__(self, function: Callable, call: Callable | None = None, examples: Any = None) -> None:
        functools.update_wrapper(self, function)
        self._function, self._call, self._examples = function, call or function, examples
        self.qualified_name = _qualified_name(function) if hasattr(function, "__module__") else "__torch__.function"
        self.name = self.qualified_name.rpartition(".")[2]
        self._torchdynamo_inline = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._call is self._function:
                return self._call(*args, **kwargs)
            with RUNNING:
                return self._call(*args, **kwargs)
        except Exception as error:
            reraise(error, self._function, args, kwargs, traced=self._call is not self._function)

    def __repr__(self) -> str:
        return f"<torch.jit.ScriptFunction {self.name}>"

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write the function to a file, as :func:`torch.jit.save` does."""
        _Saving.save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """The bytes that :meth:`save` writes."""
        file = io.BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()

    def graph_for(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises NotImplementedError: there is no graph."""
        absent("ScriptFunction", "graph_for")


for _name in _SHOWN:
    setattr(ScriptFunction, _name, _no("ScriptFunction", _name))


class _Saving:
    """What writes a function or module; ``torch.jit._serialization`` puts it here."""

    save: Callable[[Any, Any, Any], None]


class ScriptModule(Module):
    """The base of scripted and traced modules, and of modules whose methods ``script_method`` decorates.

    They are modules in every way. ``code``, ``graph`` and ``inlined_graph`` raise NotImplementedError.
    """

    _is_jitted = True

    @property
    def original_name(self) -> str:
        """The name of the class that was scripted."""
        return type(self).__name__

    def save(self, f: Any, **kwargs: Any) -> None:
        """Write the module to a file, as :func:`torch.jit.save` does."""
        _Saving.save(self, f, kwargs.get("_extra_files"))

    def save_to_buffer(self, **kwargs: Any) -> bytes:
        """The bytes that :meth:`save` writes."""
        file = io.BytesIO()
        self.save(file, **kwargs)
        return file.getvalue()


for _name in _SHOWN[:-1]:
    setattr(ScriptModule, _name, _no("ScriptModule", _name))


class RecursiveScriptModule(ScriptModule):
    """A module that ``torch.jit.script`` made of another: its parameters and methods, and its own attributes."""


class TracedModule(ScriptModule):
    """A name for traced modules; those that ``torch.jit.trace`` makes are :class:`RecursiveScriptModule`."""


class TopLevelTracedModule(TracedModule):
    """A further name for traced modules."""


def _refuse_pickle(self: Any, protocol: Any) -> NoReturn:
    raise RuntimeError(
        f"Tried to serialize object {self.original_name} which does not have a __getstate__ method defined! "
        "Save its state_dict(), or a traced module with torch.jit.save"
    )


def _deepcopy(self: Any, memo: dict) -> Any:
    cls: Any = type(self)
    new = cls.__new__(cls)
    memo[id(self)] = new
    new.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
    return new


@functools.cache
def _class_of(kind: type, original: type) -> type:
    """The class of copies of modules of class ``original``: it has their methods, and is a ``kind``."""
    body: dict[str, Any] = {
        "__module__": "torch.jit",
        "__doc__": original.__doc__,
        "original_name": original.__name__,
        "extra_repr": lambda self: f"original_name={original.__name__}",
        "__reduce_ex__": _refuse_pickle,
        "__deepcopy__": _deepcopy,
    }
    for name in dir(original):
        method = inspect.getattr_static(original, name)
        if name == "forward" or get_torchscript_modifier(method) == FunctionModifiers.EXPORT:
            body[name] = script_errors(method) if inspect.isfunction(method) else method
    bases = (kind,) if issubclass(kind, original) else (original, kind)  # of a bare Module
    return types.new_class("RecursiveScriptModule", bases, exec_body=lambda space: space.update(body))


def _demand_initialized(module: Module) -> None:
    for name, held in (*module._parameters.items(), *module._buffers.items()):
        if is_lazy(held):
            cls = type(module)
            raise RuntimeError(
                f"'{cls.__module__}.{cls.__qualname__}' has uninitialized parameters {name}. Did you forget to run a "
                "forward pass?"
            )


def copied(module: Module, kind: type, memo: dict[int, Any], *, shared: bool = False) -> Any:
    """A copy of a module and those in it that has the same tensors, and is a ``kind`` if that is a class.

    Args:
        shared: registering another tensor in one of both registers it in the other.
    """
    if id(module) in memo:
        return memo[id(module)]
    if isinstance(module, ScriptModule) and not shared and kind is not Module:
        return module
    original: Any = type(module)
    if kind is not Module:
        _demand_initialized(module)
    cls: Any = original if kind is Module else _class_of(kind, original)
    new = object.__new__(cls)  # a GraphModule's own makes a class without the graph
    memo[id(module)] = new
    state, kept = dict(module.__dict__), ("_parameters", "_buffers") if shared else ()
    for name, value in state.items():
        if name.startswith("_") and isinstance(value, dict | set) and name not in kept:
            state[name] = value.copy()
        elif isinstance(value, types.MethodType) and value.__self__ is module:
            state[name] = types.MethodType(value.__func__, new)
    new.__dict__.update(state)
    modules = new.__dict__["_modules"]
    for name, child in modules.items():
        modules[name] = None if child is None else copied(child, kind, memo, shared=shared)
    return new
