"""Whose code is interpreted, whose runs as it is, and what may be expected of functions written in C."""

from __future__ import annotations

import collections
import contextvars
import datetime
import functools
import io
import itertools
import operator
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from torchlike._base import volatile
from torchlike._base.frames import is_users
from torchlike._base.home import home
from torchlike._core.overrides.torch_function import PROPERTIES

if TYPE_CHECKING:
    F = TypeVar("F", bound=Callable[..., Any])

    def lru_cache(maxsize: int) -> Callable[[F], F]:
        """As functools', which would hide the signature."""
else:
    lru_cache = functools.lru_cache

# Parts of this package that read and change what users set: they are interpreted like the users' own code.
_WATCHED = (
    "torchlike.nn.modules", "torchlike.nn.parallel.distributed", "torchlike.nn.utils", "torchlike.nn.attention",
    "torchlike.optim", "torchlike.utils", "torchlike.backends", "torchlike.__future__", "torchlike._base.once",
    "torchlike._functions.info", "torchlike._functions.functional_call", "torchlike.fx.graph_module",
    "torchlike.compiler._module", "torchlike.distributions", "torchlike.amp.grad_scaler",
    "torchlike.cuda.amp.grad_scaler", "torchlike.cpu.amp.grad_scaler", "torchlike.distributed.fsdp._fully_shard",
    "torchlike.futures", "torchlike.hub",
)  # fmt: skip
_TRUSTED = ("torchlike", "jax", "jaxlib", "numpy", "ml_dtypes")
_BELOW = (*_TRUSTED[1:], "opt_einsum", "scipy", "typing_extensions")  # what jax itself is made of
_AS_IT_IS = ("torchlike.utils.checkpoint",)  # but for functions that call modules which they are given
_CALLS_MODULES = frozenset(("checkpoint_sequential",))
# Standard library code that keeps caches of its own or runs code at will: what it gives depends on its arguments.
_SETTLED = ("re", "typing", "abc", "_collections_abc", "keyword", "fractions", "decimal", "numbers", "sre_compile",
            "sre_parse", "types", "itertools", "warnings")  # fmt: skip
_LOOKS_INTO = frozenset(("get_type_hints", "is_tensor_like"))  # what they give depends on what their arguments hold
_STDLIB = os.path.realpath(sysconfig.get_path("stdlib")) + os.sep
_PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
_MODULES = os.path.join("torchlike", "nn", "modules") + os.sep

PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range))
PURE_MODULES = frozenset(("math", "cmath", "_operator", "itertools", "_functools", "_struct", "_bisect", "_heapq",
                          "_json", "unicodedata", "binascii", "zlib", "_abc", "_typing"))  # fmt: skip
PURE = frozenset((
    abs, all, any, ascii, bin, callable, chr, divmod, format, hash, hex, id, isinstance, issubclass, max, min, oct, ord,
    pow, repr, round, sorted, sum, sys.getsizeof, sys.intern, functools.reduce, os.fspath,
))  # fmt: skip
PURE_TYPES = frozenset((
    bool, int, float, complex, str, bytes, bytearray, tuple, list, dict, set, frozenset, slice, range, enumerate, zip,
    map, filter, reversed, object, type, property, staticmethod, classmethod, memoryview, types.SimpleNamespace,
    types.MappingProxyType, types.MethodType, functools.partial, types.FunctionType, types.CellType,
    operator.itemgetter, operator.attrgetter, operator.methodcaller, io.StringIO, io.BytesIO,
))  # fmt: skip
_CLASSES = ("collections", "datetime", "weakref", "array", "_queue")  # whose classes in C are pure too
ALTERNATE = frozenset((  # constructors: class methods of C types that make values of their arguments alone
    dict.fromkeys, int.from_bytes, float.fromhex, bytes.fromhex, bytearray.fromhex, str.maketrans, bytes.maketrans,
    itertools.chain.from_iterable,
))  # fmt: skip
# What of numpy reads files, the memory of others or random numbers.
_NUMPY = (
    "numpy.random",
    "numpy.lib.npyio",
    "numpy.lib._npyio_impl",
    "numpy.memmap",
    "numpy.ctypeslib",
    "numpy.lib.format",
    "numpy.lib._datasource",
)
_NUMPY_NAMES = frozenset(("fromfile", "save", "savez", "savez_compressed", "savetxt", "load", "loadtxt", "genfromtxt",
                          "fromregex", "memmap", "open_memmap", "copyto", "put", "place", "putmask", "put_along_axis",
                          "fill_diagonal", "set_printoptions", "seterr", "setbufsize", "seterrcall"))  # fmt: skip
ARRAYS_TO_FILES = frozenset(("tofile", "dump"))  # methods of arrays that write files
# What of this package reads and writes files, other processes' stores and counters of devices.
_OUTSIDE = (
    "torchlike.serialization", "torchlike.interop.checkpoints", "torchlike.jit._serialization",
    "torchlike.export._file", "torchlike.distributed.checkpoint", "torchlike.distributed._stores",
    "torchlike.cuda.memory",
)  # fmt: skip
# What they give depends on what the classes of their arguments define.
_ASKS_CLASSES = frozenset(("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"))


@lru_cache(8192)
def _is_within(name: str, roots: Iterable[str]) -> bool:
    name = home(name)
    return any(name == root or name.startswith(root + ".") for root in roots)


@lru_cache(4096)
def _runs(name: str, filename: str) -> bool:
    """Whether code of the module ``name`` in ``filename`` runs as it is."""
    if _is_within(name, _TRUSTED):
        ours = not own(name) or not is_users(filename) or filename.startswith("<")
        return ours and (not _is_within(name, _WATCHED) or _is_within(name, _AS_IT_IS))
    return _is_within(name, _SETTLED) and _standard(filename)


def trusted(function: Any) -> bool:
    """Whether a Python function runs as it is, because all that it reads is its arguments' or this library's."""
    runs = _runs(function.__globals__.get("__name__") or "", function.__code__.co_filename)
    return runs and function.__name__ not in _CALLS_MODULES and function.__name__ not in _LOOKS_INTO


@lru_cache(4096)
def trusted_name(name: str) -> bool:
    """Whether a module of this name holds this library's or a lower one's code."""
    return _is_within(name, _TRUSTED) and not _is_within(name, _WATCHED)


def trusted_class(cls: type) -> bool:
    """Whether instances of a class hold nothing that a guard must watch: built in, or this library's."""
    if not cls.__flags__ & 1 << 9:  # Py_TPFLAGS_HEAPTYPE
        return True
    return _trusted_module(cls.__module__)


@lru_cache(4096)
def _trusted_module(name: str) -> bool:
    return trusted_name(name) or name in ("functools", "_thread", "re", "_weakref")


def settled_class(cls: type) -> bool:
    """Whether a class written in C makes its instances of their arguments alone."""
    if cls in PURE_TYPES or cls is _CACHED or issubclass(cls, BaseException) or trusted_name(cls.__module__):
        return True
    return cls.__module__ in PURE_MODULES or cls.__module__ in _CLASSES


def calls_objects(module: str) -> bool:
    """Whether functions of a module call the objects that they are given, which may be modules."""
    return _is_within(module, (*_AS_IT_IS, "torchlike._transforms", "torchlike._higher_order_ops"))


def own(module: str) -> bool:
    """Whether a module is a part of this package."""
    return _is_within(module, ("torchlike",))


def changing(function: Any, args: tuple[Any, ...] = ()) -> bool:
    """Whether a trusted function gives numbers that change from call to call, or has to do with files."""
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None) or ""
    if _is_within(module, ("numpy",)) or type(function) is np.ufunc:
        now = function is np.datetime64 and args[:1] in (("now",), ("today",))
        return now or _is_within(module, _NUMPY) or name in _NUMPY_NAMES
    if name in _ASKS_CLASSES:
        return own(module) and not _settled(args)
    return (name in volatile.NAMES or _is_within(f"{module}.{name}", _OUTSIDE)) and own(module)


def _settled(x: Any) -> bool:
    """Whether nobody can change what the class of ``x`` overrides, or that of an element of it."""
    if isinstance(x, tuple | list):
        return all(map(_settled, x))
    return trusted_class(x if isinstance(x, type) else type(x))


def of_numpy(function: Any) -> bool:
    """Whether a function is numpy's, and so may read how that treats errors and writes numbers."""
    return type(function) is np.ufunc or _is_within(getattr(function, "__module__", None) or "", ("numpy",))


_CONSTANT = frozenset((
    type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.GenericAlias,
    types.MappingProxyType, types.MethodWrapperType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType, types.UnionType,
    staticmethod, classmethod, functools.partial, slice, *PROPERTIES,
    tuple, frozenset, contextvars.ContextVar, operator.itemgetter, operator.attrgetter, operator.methodcaller, object,
    datetime.date, datetime.datetime, datetime.timedelta, datetime.timezone, re.Pattern,
    types.CodeType, types.CellType,
))  # fmt: skip
_BUILT_ON = frozenset((dict, list, set, bytearray, collections.OrderedDict, collections.defaultdict, collections.deque))
_CACHED = type(functools.lru_cache(len))
_FUNCTIONS = (np.ufunc, type(np.sum))
_VIEWS = (np.void, np.flatiter, np.nditer, np.broadcast)  # of arrays, whose numbers they show
_METHODS = frozenset((
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.ClassMethodDescriptorType, types.MethodWrapperType, staticmethod, classmethod,
    *PROPERTIES, _CACHED,
))  # fmt: skip


def hidden(cls: type) -> bool:
    """Whether instances of a class hold, in C, what can change and what no guard can compare."""
    if cls in PLAIN or cls in _CONSTANT or issubclass(cls, type | BaseException):
        return False
    if _is_within(cls.__module__, _TRUSTED):
        return _of_numpy(cls) and cls not in _FUNCTIONS and (bool(cls.__dictoffset__) or issubclass(cls, _VIEWS))
    if not cls.__flags__ & 1 << 9:
        return cls is not object and cls not in _BUILT_ON
    return _written_in_c(cls.__module__) or any(map(hidden, cls.__mro__[1:]))


def computed(descriptor: Any) -> bool:
    """Whether C computes what a descriptor gives of the object that it is read from, other than a method of it."""
    cls = type(descriptor)
    if cls in _METHODS or _is_within(cls.__module__, _TRUSTED):
        return False
    return not cls.__flags__ & 1 << 9 or _written_in_c(cls.__module__)


def _of_numpy(cls: type) -> bool:
    return _is_within(cls.__module__, ("numpy",)) and not issubclass(cls, np.ndarray)


@lru_cache(4096)
def _written_in_c(name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None)
    return name in sys.builtin_module_names or (file or "").endswith((".so", ".pyd"))


@lru_cache(4096)
def _standard(filename: str) -> bool:
    if filename.startswith("<frozen"):
        return True
    real = os.path.realpath(filename)
    return real.startswith(_STDLIB) and "site-packages" not in real and "dist-packages" not in real


_TOLD = frozenset(("__repr__", "__str__", "__format__"))
_ASK_MODULES = frozenset(("__call__", "_call_impl", "forward")) | _TOLD


@lru_cache(8192)
def unseen(code: types.CodeType, name: str) -> bool:
    """Whether code that something else runs would read things that nothing watches."""
    filename = code.co_filename
    if _MODULES in filename:
        return code.co_name in _ASK_MODULES
    if code.co_name in _TOLD and _is_within(name, _WATCHED):
        return True
    if not is_users(filename) or _standard(filename) or _is_within(name, _BELOW):
        return False
    generated = _is_within(name, _TRUSTED) or name in sys.stdlib_module_names or name.startswith("namedtuple_")
    return not (filename.startswith("<") and generated)
