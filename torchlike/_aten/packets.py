"""``torch.ops``: operators as objects, ``torch.ops.<namespace>.<name>.<overload>``.

What a namespace holds comes from its *source*, asked when a name is first looked up (the declared operators,
for ``aten``), and from :func:`register`.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torchlike._ops as _module
from torchlike._aten.tags import Tag
from torchlike._core.dispatch.dispatch_keys import DispatchKey
from torchlike._core.dispatch.layers import DISPATCH
from torchlike._core.overrides import doors
from torchlike._core.overrides import torch_function as overrides
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.function_schema import FunctionSchema

# What imports all that fills the registries of aten calls; called before the first is read.
LATER: list[Callable[[], None]] = []


def complete() -> None:
    """Fill the registries that torch.ops.aten, dispatch modes and wrapper subclasses read, unless that is done."""
    for load in LATER:
        load()


_PLACES = "List[Optional[Tensor]]"  # as indices are: one for each dimension


class OpOverload:
    """One overload of an operator; calling it takes the arguments of its schema.

    Args:
        overloadpacket: the packet that it is an attribute of.
        schema: its :class:`FunctionSchema`.
        call: what computes it, called with arguments as the schema has them.
        tags: what is known of it (``torch.Tag``). saves: the results that its node saves.
    """

    def __init__(
        self,
        overloadpacket: "OpOverloadPacket",
        schema: FunctionSchema,
        call: Callable,
        tags: Sequence = (),
        saves: tuple[int, ...] = (),
    ) -> None:
        self._overloadpacket, self._schema, self._op, self._tags = overloadpacket, schema, call, list(tags)
        self._saves = saves
        self._overloadname = schema.overload_name or "default"
        self._opname = overloadpacket.__name__
        self.__name__ = f"{self._opname}.{self._overloadname}"
        self.__qualname__ = self._name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        self.__module__ = overloadpacket.__module__
        self.py_kernels: dict[DispatchKey, Callable] = {}
        self.python_key_table: dict[type, Callable] = {}
        self._returns_one = len(schema.returns) == 1 and str(schema.returns[0].type) == "Tensor"
        self._several = len(schema.returns) > 1
        self.is_view = not schema.is_mutable and schema._is_view_op()
        self._places = [i for i, a in enumerate(schema.arguments) if str(a.real_type) == _PLACES]

    @property
    def namespace(self) -> str:
        """What is before the ``::`` of its name."""
        return self._overloadpacket.namespace

    _namespace = namespace

    @property
    def overloadpacket(self) -> "OpOverloadPacket":
        """All overloads of the same name."""
        return self._overloadpacket

    @property
    def op(self) -> Callable:
        """What computes it."""
        return self._op

    @property
    def tags(self) -> list[Tag]:
        """What is known of it."""
        return self._tags

    def py_impl(self, k: Any) -> Callable[[Callable], Callable]:
        """A decorator that keeps a function as what computes the operator for ``k``.

        Args:
            k: a ``torch._C.DispatchKey``; a subclass of Tensor, or a class of TorchDispatchMode.

        It is found in ``py_kernels`` or ``python_key_table``. As in PyTorch, calls do not ask these but within the
        Python dispatcher, of which there is none here.

        >>> import torchlike as torch
        >>> @torch.ops.aten.sinh.default.py_impl(torch._C.DispatchKey.XPU)
        ... def sinh(x):
        ...     return (x.exp() - (-x).exp()) / 2
        >>> torch._C.DispatchKey.XPU in torch.ops.aten.sinh.default.py_kernels
        True
        """
        by_class = isinstance(k, type) and hasattr(k, "__torch_dispatch__")
        if not by_class and not isinstance(k, DispatchKey):
            raise AssertionError(f"expected DispatchKey, got {type(k)}: a member of torch._C.DispatchKey, or a class")
        table: dict = self.python_key_table if by_class else self.py_kernels

        def register(function: Callable) -> Callable:
            if not by_class and k in table:
                raise RuntimeError(f"Trying to override a python impl for {k} on operator {self._name}")
            table[k] = function
            return function

        return register

    def name(self) -> str:
        """``aten::add.Tensor``; the default overload has no suffix."""
        return self._name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if doors.armed and (found := _strangers(args, kwargs)):
            return overrides.hand_over(self, found, args, kwargs, str(self))
        if self._places:
            args = self._listed(args)
        try:
            out = DISPATCH.intercept(self, args, kwargs)
        except TypeError:
            problem = _misfit(self._schema, args, kwargs, numbers=True)
            if problem is None:
                raise
            raise misfit(problem) from None
        return tuple(out) if self._several and isinstance(out, tuple) else out  # without the names of public results

    def _listed(self, args: tuple) -> tuple:
        """The arguments, with a tensor in place of a list of indices taken apart."""
        return tuple([list(x) if i in self._places and _is_row(x) else x for i, x in enumerate(args)])

    def __hash__(self) -> int:
        return hash((self.namespace, self._opname, self._overloadname))

    def __deepcopy__(self, memo: dict) -> "OpOverload":
        return self

    def __reduce__(self) -> tuple:
        return _found, (self.namespace, self._opname, self._overloadname)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"


class OpOverloadPacket:
    """The overloads of one name, as attributes.

    ``source`` gives the missing ones: ``source.overloads(name)`` their names, ``source.make(packet, overload)`` one.
    """

    def __init__(self, namespace: str, name: str, source: Any = None) -> None:
        self.namespace, self.__name__ = namespace, name
        self._qualified_op_name = f"{namespace}::{name}"
        self.__module__ = f"torch._ops.{namespace}"
        self._source, self._found = source, {}  # type: ignore[var-annotated]

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        names = [] if self._source is None else list(self._source.overloads(self.__name__))
        return names + [name for name in self._found if name not in names]

    @property
    def op_overloads(self) -> list[OpOverload]:
        """The overloads themselves."""
        return [getattr(self, name) for name in self.overloads()]

    @property
    def op(self) -> Callable:
        """What calls whichever overload fits."""
        return self.__call__

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("_"):
            raise AttributeError(f"'{self.namespace}.{self.__name__}' has no attribute '{overload}'")
        found = self._found.get(overload)
        if found is None:
            if self._source is None or overload not in self._source.overloads(self.__name__):
                raise AttributeError(
                    f"The underlying op of '{self.namespace}.{self.__name__}' has no overload name '{overload}'; it "
                    f"has {self.overloads()}"
                )
            found = self._found.setdefault(overload, self._source.make(self, overload))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.overloads()]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if doors.armed and (found := _strangers(args, kwargs)):
            return overrides.hand_over(self, found, args, kwargs, str(self))
        overloads = self.op_overloads
        fitting = overloads if len(overloads) == 1 else self.fitting(args, kwargs)
        if fitting:
            return fitting[0](*args, **kwargs)
        problems = "\n\n".join([str(_misfit(o._schema, args, kwargs)) for o in overloads])
        raise misfit(f"Overloaded torch operator invoked from Python failed to match any schema:\n{problems}")

    def fitting(self, args: tuple, kwargs: dict) -> list[OpOverload]:
        """The overloads that a call with these arguments can be of."""
        return [o for o in self.op_overloads if _fits(o._schema, args, kwargs)]

    def __deepcopy__(self, memo: dict) -> "OpOverloadPacket":
        return self

    def __reduce__(self) -> tuple:
        return _found, (self.namespace, self.__name__)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.namespace}.{self.__name__}')>"


def _strangers(args: tuple, kwargs: dict) -> list[Any]:
    """Arguments that are no tensors and override functions: proxies of torch.fx."""
    values = overrides._candidates(args, kwargs)
    return [x for x in values if not isinstance(x, Tensor | type) and overrides.overrides(x)]


def _fits(schema: FunctionSchema, args: tuple, kwargs: dict) -> bool:
    """Whether a call with these arguments can be of this schema."""
    return _misfit(schema, args, kwargs) is None


def misfit(problem: str) -> RuntimeError:
    """The error of arguments that fit no schema of an operator."""
    error = RuntimeError(problem)
    error.fits_none = True  # type: ignore[attr-defined]
    return error


def _misfit(schema: FunctionSchema, args: tuple, kwargs: dict, numbers: bool = False) -> str | None:
    """What is wrong with the arguments of a call, or None. With ``numbers`` a number may be a second tensor."""
    positional = [a.name for a in schema.arguments if not a.kwarg_only]
    end = f"\nDeclaration: {schema}"
    if len(args) > len(schema.arguments):
        most = len(schema.arguments)
        return f"{schema.name}() expected at most {most} argument(s) but received {len(args)} argument(s).{end}"
    if len(args) > len(positional):
        return f"{schema.name}() takes {len(positional)} positional argument(s) but {len(args)} was/were given.{end}"
    given = dict(zip(positional, args, strict=False))
    for name in given.keys() & kwargs.keys():
        return f"Argument '{name}' specified both as positional and keyword argument. Schema: {schema}"
    given |= kwargs
    for position, a in enumerate(schema.arguments):
        if a.name in given:
            value = given.pop(a.name)
            kind = str(a.real_type)
            if not _is_a(kind, value) and not (numbers and position and kind == "Tensor" and _is_a("number", value)):
                return (
                    f"{schema.name}() Expected a value of type '{a.real_type}' for argument '{a.name}' but instead "
                    f"found type '{type(value).__name__}'.\nPosition: {position}\nValue: {value!r}{end}"
                )
        elif not a.has_default_value():
            return f"{schema.name}() is missing value for argument '{a.name}'.{end}"
    for name in given:
        return f"Unknown keyword argument '{name}' for operator '{schema.name}'. Schema: {schema}"
    return None


_PLAIN: dict[str, Any] = {
    "int": int,
    "SymInt": int,
    "bool": bool,
    "str": str,
    "float": (int, float),
    "number": (int, float, complex),
}


def _is_a(kind: str, value: Any) -> bool:
    if kind.startswith("Optional["):
        return value is None or _is_a(kind[9:-1], value)
    if kind.startswith("List["):
        if isinstance(value, list | tuple):
            return all(_is_a(kind[5:-1], v) for v in value)
        return kind == _PLACES and _is_row(value) or kind in ("List[int]", "List[SymInt]") and _is_a("int", value)
    if kind == "Tensor":
        return isinstance(value, Tensor) or hasattr(value, "__torch_function__")
    plain = _PLAIN.get(kind)
    if plain is None:
        return value is not None and not isinstance(value, Tensor | int | list | tuple)
    if isinstance(value, bool) and kind in ("int", "SymInt"):
        return False
    return isinstance(value, plain) or hasattr(value, "__index__") and kind in ("int", "SymInt")


def _is_row(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0


# The names of Python's that PyTorch has operators for.
_OPERATOR = re.compile("__(i?(and|or|xor|lshift|rshift)|contains|getitem)__")


class OpNamespace:
    """The operators of one namespace."""

    def __init__(self, name: str, source: Any = None) -> None:
        self.__name__ = self.name = name
        self._source = source

    def __getattr__(self, name: str) -> Any:
        own = name.startswith("__") and name.endswith("__") and not _OPERATOR.fullmatch(name)
        if own or self._source is None or not self._source.overloads(name):
            raise AttributeError(f"'_OpNamespace' '{self.__dict__.get('name')}' object has no attribute '{name}'")
        packet = OpOverloadPacket(self.name, name, self._source)
        setattr(self, name, packet)
        return packet

    def __iter__(self) -> Iterator[str]:
        return iter(dir(self))

    def __dir__(self) -> list[str]:
        own = [n for n, value in vars(self).items() if isinstance(value, OpOverloadPacket)]
        return own if self._source is None else sorted({*own, *self._source.names()})

    def __repr__(self) -> str:
        return f"<module 'torch.ops.{self.name}' from 'torch.ops'>"


class LibraryError(NotImplementedError, OSError):
    """A compiled library is none for torchlike."""


# {(folder, name of the file): what defines the operators of that library}
BROUGHT: dict[tuple[str, str], Callable[[], None]] = {}


class Ops:
    """``torch.ops``: the namespaces as attributes; a new name is a new, empty namespace."""

    def __init__(self) -> None:
        self.loaded_libraries: set[str] = set()

    def __getattr__(self, name: str) -> OpNamespace:
        if name.startswith("__"):
            raise AttributeError(f"torch.ops has no attribute '{name}'")
        namespace = OpNamespace(name)
        setattr(self, name, namespace)
        return namespace

    def load_library(self, path: str | os.PathLike) -> None:
        """Define the operators of a library that torchlike brings itself (torchvision's); no other can be loaded.

        Raises:
            NotImplementedError, an OSError too, as PyTorch's for a library that does not fit: it names what to use.
        """
        file = Path(path)
        bring = BROUGHT.get((file.parent.name, file.stem.partition(".")[0]))
        if bring is not None:
            bring()
            self.loaded_libraries.add(str(path))
            return
        raise LibraryError(
            f"torch.ops.load_library({str(path)!r}): torchlike has no PyTorch dispatcher that a compiled library could "
            "register with; compile the source with torch.utils.cpp_extension.load(), or declare the operator with "
            "torch.library.custom_op()"
        )

    def __repr__(self) -> str:
        return "<module 'torch.ops' from '_ops.py'>"


ops = Ops()


def register(namespace: str, name: str, overload_name: str, overload: OpOverload) -> OpOverload:
    """Make ``overload`` the object ``torch.ops.<namespace>.<name>.<overload_name>`` (empty: ``default``)."""
    packet(namespace, name)._found[overload_name or "default"] = overload
    return overload


def packet(namespace: str, name: str) -> OpOverloadPacket:
    """The packet of a name, made if it is new."""
    space = getattr(ops, namespace)
    try:
        return getattr(space, name)
    except AttributeError:
        made = OpOverloadPacket(namespace, name)
        setattr(space, name, made)
        return made


def forget(namespace: str, name: str, overload_name: str = "") -> None:
    """Undo :func:`register`; a packet without overloads goes too."""
    space = getattr(ops, namespace)
    found = vars(space).get(name)
    if found is not None:
        found._found.pop(overload_name or "default", None)
        if not found.overloads():
            delattr(space, name)


def _found(namespace: str, name: str, overload: str | None = None) -> Any:
    """The object of these names; what pickled operators are loaded with."""
    made = getattr(getattr(ops, namespace), name)
    return made if overload is None else getattr(made, overload)


class HigherOrderOperator:
    """What programs ask ``isinstance`` of operators over functions; those of ``torch.ops.higher_order`` are functions.

    >>> import torchlike as torch
    >>> isinstance(torch.add, torch._ops.HigherOrderOperator)
    False
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "torch._ops.HigherOrderOperator: new operators over functions are not supported; "
            "call functions of torch.cond, torch.while_loop and torch._higher_order_ops"
        )


# PyTorch has the classes in torch._ops, where torchlike keeps its kernels.
for _class in (HigherOrderOperator, OpOverload, OpOverloadPacket):
    setattr(_module, _class.__name__, _class)

__all__ = ["OpNamespace", "OpOverload", "OpOverloadPacket", "Ops", "forget", "ops", "packet", "register"]
