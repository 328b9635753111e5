"""Reading files without running code: an unpickler that knows tensors and plain containers, and nothing else.

A pickle is a program. The names in it are looked up in the tables below and among what the user allows, and what the
tables give are fresh wrappers, so that no instruction can reach, or change, anything of Python's.
"""

import collections
import contextlib
import importlib
import pickle
import pickletools
from collections.abc import Callable
from typing import Any

import torchlike._base.dtypes as dtypes
import torchlike._base.qschemes as qschemes
import torchlike._tensor as _tensor
import torchlike._utils as _utils
from torchlike._base.bits import X64
from torchlike._base.device import device as Device
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import LAYOUTS
from torchlike.interop.checkpoints.names import STORAGES, their_name

_allowed: list[Any] = []


# -- names that the user allows ----------------------------------------------------------------------------
def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow classes and functions of one's own in files of ``torch.save``: loading then calls them.

    Args:
        safe_globals: classes and functions, or pairs of one and the full name it has in the file.
    """
    for entry in safe_globals:
        if entry not in _allowed:
            _allowed.append(entry)


def get_safe_globals() -> list[Any]:
    """What :func:`add_safe_globals` has allowed."""
    return list(_allowed)


def clear_safe_globals() -> None:
    """Forget what :func:`add_safe_globals` has allowed."""
    _allowed.clear()


class safe_globals(contextlib.AbstractContextManager):
    """As :func:`add_safe_globals`, within a ``with`` only."""

    def __init__(self, safe_globals: list[Any]) -> None:
        self.names = safe_globals

    def __enter__(self) -> None:
        self.before = get_safe_globals()
        add_safe_globals(self.names)

    def __exit__(self, *exc: Any) -> None:
        _allowed[:] = self.before


def _allowed_names() -> dict[str, Any]:
    names = {}
    for entry in _allowed:
        thing, name = entry if isinstance(entry, tuple) else (entry, f"{entry.__module__}.{entry.__qualname__}")
        names[name] = thing
        if not isinstance(entry, tuple) and (theirs := their_name(thing)) is not None:
            names[".".join(theirs)] = thing
    return names


# -- the unpickler -------------------------------------------------------------------------------------
class Permitted:
    """What a name in a pickle gives: it can be called, and nothing else."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable):
        object.__setattr__(self, "_call", call)

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    def __setattr__(self, name: str, value: Any) -> None:
        raise pickle.UnpicklingError("the file tries to change what it may only call")


# Functions of modules that take time to import.
_PACKAGE = __name__.partition(".")[0]
_NESTED = "nested._internal.nested_tensor"
_LATER = {
    "distributed.tensor._dtensor.rebuilt", "distributed.device_mesh.remade", f"{_NESTED}.NestedTensor",
    f"{_NESTED}._rebuild_njt",
}  # fmt: skip
_DIM_RANGE = "_dynamo.decorators._DimRange"  # what marks of compilers hold: numbers


class SafeUnpickler(pickle.Unpickler):
    """An unpickler of the names in its tables and of those that the user allows."""

    def find_class(self, module: str, name: str) -> Any:
        full = f"{'builtins' if module == '__builtin__' else module}.{name}"
        constant = constant_named(module, name)
        if constant is not None:
            return constant
        if full in _CALLS:
            return Permitted(_CALLS[full])
        if (later := full.removeprefix("torchlike.").removeprefix("torch.")) in _LATER:
            return Permitted(getattr(importlib.import_module(f"{_PACKAGE}.{later.rpartition('.')[0]}"), name))
        if later == _DIM_RANGE:
            return importlib.import_module(f"{_PACKAGE}.{later.rpartition('.')[0]}")._DimRange
        allowed = _allowed_names()
        if full in allowed:
            return allowed[full]
        raise pickle.UnpicklingError(
            f"Weights only load failed. Unsupported global: GLOBAL {module}.{name} was not an allowed global by "
            "default. By default load() reads tensors and plain containers, as a state_dict(). If you trust the file, "
            f"allow the name by torch.serialization.add_safe_globals([{name}]) or the context manager "
            f"torch.serialization.safe_globals([{name}]); load(..., weights_only=False) allows everything, and runs "
            "any code that the file holds."
        )


def constant_named(module: str, name: str) -> Any:
    """The dtype, or the element type of the class of storages, of a name in a file; None if it is no such name."""
    if module in ("torch", "torch.storage") and name in STORAGES:
        return STORAGES[name]
    if module in ("torch", "torch.storage") and name == "UntypedStorage":
        return dtypes.uint8
    if not X64 and (module, name) == ("torch", "uint64"):  # whose storages are of bytes, not said to be of this type
        raise NotImplementedError("load(): the file names torch.uint64, and jax runs with 32 bits (JAX_ENABLE_X64=0)")
    found = dtypes.ALIASES.get(name, qschemes.NAMED.get(name)) if module == "torch" else None
    return found if isinstance(found, dtypes.dtype | qschemes.QScheme) else None


def _bytearray(*data: Any) -> bytearray:
    if len(data) == 2:
        return bytearray(_encoded(*data))
    if not all(isinstance(part, bytes) for part in data):  # a number would ask for that much memory
        raise pickle.UnpicklingError("the file makes a bytearray of what is no bytes")
    return bytearray(*data)


def _encoded(text: str, encoding: str) -> bytes:
    return text.encode("latin1" if encoding in ("latin1", "latin-1") else "utf-8")


def _class_of_tensors(*args: Any) -> Any:
    raise pickle.UnpicklingError("the file tries to make a tensor without a storage")


def _subclass(make: Any, cls: Any, args: tuple, state: Any) -> Any:
    """A tensor, of another class where the user allows that class."""
    made = make(*args)
    return _tensor._rebuild_from_type_v2(lambda: made, cls if isinstance(cls, type) else type(made), (), state)


def get_layout(name: str) -> Any:
    """The layout of a name."""
    if name not in LAYOUTS:
        raise pickle.UnpicklingError(f"a tensor of layout {name}, which is none of {sorted(LAYOUTS)}")
    return LAYOUTS[name]


_CALLS: dict[str, Callable] = {
    "collections.OrderedDict": collections.OrderedDict,
    "collections.Counter": collections.Counter,
    "builtins.set": set,
    "builtins.complex": complex,
    "builtins.bytearray": _bytearray,
    "_codecs.encode": _encoded,
    "torch.Size": Size,
    "torch.device": Device,
    "torch.Tensor": _class_of_tensors,
    "torch._tensor.Tensor": _class_of_tensors,
    "torch.nn.parameter.Parameter": _class_of_tensors,
    "torch.nn.parameter.Buffer": _class_of_tensors,
    "torch.serialization._get_layout": get_layout,
    "torch._utils._rebuild_tensor": _utils._rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _utils._rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _utils._rebuild_tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": _utils._rebuild_meta_tensor_no_storage,
    "torch._utils._rebuild_sparse_tensor": _utils._rebuild_sparse_tensor,
    "torch._utils._rebuild_qtensor": _utils._rebuild_qtensor,
    "torch._utils._rebuild_wrapper_subclass": _utils._rebuild_wrapper_subclass,
    "torch._utils._rebuild_parameter": _utils._rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _utils._rebuild_parameter_with_state,
    "torch._tensor._rebuild_from_type_v2": _subclass,
}


# -- what a pickle asks for ------------------------------------------------------------------------------
def globals_of(data: bytes) -> list[str]:
    """The full names that a pickle refers to, sorted."""
    found, texts, memo = set(), [], {}
    last: Any = None
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name == "GLOBAL":
            found.add(argument.replace(" ", "."))
        elif opcode.name == "STACK_GLOBAL":
            found.add(".".join(str(text) for text in texts[-2:]))
        if opcode.name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            memo[len(memo) if opcode.name == "MEMOIZE" else argument] = last
            continue
        last = memo.get(argument) if "GET" in opcode.name else argument if isinstance(argument, str) else None
        if isinstance(last, str):
            texts.append(last)
    return sorted(found)


def unsafe_globals(data: bytes) -> list[str]:
    """Those of the names in a pickle that are neither known nor allowed."""
    known = _CALLS.keys() | _allowed_names().keys()
    return [
        name
        for name in globals_of(data)
        if name.replace("__builtin__.", "builtins.") not in known and constant_named(*name.rsplit(".", 1)) is None
    ]
