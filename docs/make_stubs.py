"""Write the stubs that editors and type checkers read where names come from declarations: torchlike/**/*.pyi.

``torchlike/__init__.pyi`` and those of linalg, fft, special and nn.functional say what the modules hold; the methods
of Tensor are a base class that exists for checkers alone, ``torchlike/_core/tensor/_methods.pyi``. A signature is that
of the operator's schema, an overload each, or else of the function, as far as it says types. ``--check`` writes nothing
and fails if a file is not current.
"""

from __future__ import annotations

import ast
import enum
import functools
import importlib
import inspect
import keyword
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torchlike
from torchlike._core.overrides.doors import ops_of
from torchlike._decl.op import REGISTRY
from torchlike._decl.schema import Arg, Schema

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("nn", "linalg", "fft", "special", "nn.functional")
HEAD = '''"""{about}. Written by docs/make_stubs.py."""
# mypy: disable-error-code="overload-overlap, overload-cannot-match, override, misc, assignment, no-redef"

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str, type as _type
from collections.abc import Callable as _Callable, Iterator as _Iterator, Sequence as _Sequence
from typing import Any as _Any, NamedTuple as _NamedTuple, overload as _overload

from torchlike._base.device import device as _device
from torchlike._base.dtypes import dtype as _dtype
from torchlike._core.tensor.size import Size as _Size
from torchlike._core.tensor.tensor import MemoryFormat as _MemoryFormat, MemoryLayout as _MemoryLayout
from torchlike._core.tensor.tensor import Tensor as {Tensor}
from torchlike._functions.generator import Generator as _Generator
'''
KINDS = {
    "Tensor": "_Tensor", "Scalar": "_complex | _Tensor", "float": "_float", "int": "_int", "bool": "_bool",
    "str": "_str", "dtype": "_dtype", "Device": "_device | _str | _int", "Layout": "_MemoryLayout",
    "MemoryFormat": "_MemoryFormat", "Generator": "_Generator",
}  # fmt: skip
SAID = {
    "Tensor": "_Tensor", "bool": "_bool", "int": "_int", "float": "_float", "str": "_str", "None": "None",
    "Tensor | None": "_Tensor | None", "bool | None": "_bool | None", "int | None": "_int | None",
    "float | None": "_float | None", "str | None": "_str | None", "OptTensor": "_Tensor | None", "Size": "_Size",
    "OptDtype": "_dtype | None", "DeviceLike": "_device | _str | _int | None", "OptLayout": "_MemoryLayout | None",
    "Sequence[int]": "_Sequence[_int]", "Sequence[int] | None": "_Sequence[_int] | None", "dtype": "_dtype",
}  # fmt: skip
SEVERAL = frozenset((
    "broadcast_tensors", "chunk", "dsplit", "gradient", "hsplit", "meshgrid", "split", "split_with_sizes",
    "tensor_split", "unbind", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "vsplit",
))  # fmt: skip
ONE_BY_ONE = frozenset(("expand", "flip", "permute", "repeat", "reshape", "tile", "view"))
UNSAID = frozenset((  # results that depend on more than types
    "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "atleast_1d",
    "atleast_2d", "atleast_3d", "cond", "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "get_rng_state", "gru", "histogram",
    "histogramdd", "item", "lobpcg", "lstm", "lstm_cell", "lu", "map2_", "map_", "max_pool1d",
    "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices",
    "multi_head_attention_forward", "native_dropout", "nonzero", "numpy", "pca_lowrank", "rnn_relu", "rnn_tanh",
    "size", "storage_type", "stride", "svd", "svd_lowrank", "tolist", "type", "typename", "unique",
    "unique_consecutive",
))  # fmt: skip
PLAIN = {"numel": "_int", "dim": "_int", "nelement": "_int", "ndimension": "_int", "element_size": "_int",
         "get_device": "_int", "data_ptr": "_int", "storage_offset": "_int", "dense_dim": "_int", "sparse_dim": "_int",
         "tolist": "_Any", "result_type": "_dtype", "promote_types": "_dtype", "get_default_dtype": "_dtype",
         "equal": "_bool", "allclose": "_bool", "can_cast": "_bool", "broadcast_shapes": "_Size",
         "initial_seed": "_int", "seed": "_int", "manual_seed": "_Generator"}  # fmt: skip
WIDER = {"repeat_interleave": "repeats: _Any = None, dim: _int | None = None, *, output_size: _int | None = None"}
INTERNAL = {"TYPE_CHECKING", "WIDE_NAMES", "annotations", "on_first_use"} | {"Tensor"}  # which the head imports
DUNDERS = {
    "__bool__": "(self) -> _bool", "__complex__": "(self) -> _complex", "__contains__": "(self, x: _Any) -> _bool",
    "__float__": "(self) -> _float", "__getitem__": "(self, index: _Any) -> _Tensor", "__index__": "(self) -> _int",
    "__int__": "(self) -> _int", "__iter__": "(self) -> _Iterator[_Tensor]", "__len__": "(self) -> _int",
    "__setitem__": "(self, index: _Any, value: _Tensor | _complex) -> None", "__array__": "(self, *args: _Any) -> _Any",
    "__dlpack__": "(self, **kwargs: _Any) -> _Any", "__dlpack_device__": "(self) -> tuple[_int, _int]",
    "__format__": "(self, spec: _str) -> _str", "__deepcopy__": "(self, memo: _Any) -> _Tensor",
    "__delitem__": "(self, index: _Any) -> None", "__jax_array__": "(self) -> _Any",
    **dict.fromkeys(("__abs__", "__invert__", "__neg__", "__pos__", "__reversed__"), "(self) -> _Tensor"),
}  # fmt: skip
OPERATORS = "add and div eq floordiv ge gt le lshift lt matmul mod mul ne or pow rshift sub truediv xor".split()
BINARY = {f"__{way}{name}__" for name in OPERATORS for way in ("", "r", "i")}


@functools.cache
def overloads() -> dict[str, list[Schema]]:
    """The schemas of each name, in the order of declaration."""
    found: dict[str, list[Schema]] = {}
    for op in REGISTRY.values():
        found.setdefault(op.schema.name, []).append(op.schema)
    return found


def default(value: object) -> str:
    """A default as a stub says it."""
    return repr(value) if value is None or isinstance(value, bool | int | str) and len(repr(value)) < 30 else "..."


def kind(arg: Arg, name: str) -> str:
    """The type of an argument of a schema of the operator ``name``."""
    said = KINDS[arg.kind]
    if arg.kind == "Tensor" and arg.name == "other" and name not in ("max", "min"):  # where a number is a dimension
        said = "_Tensor | _complex"
    if arg.is_list:
        element = f"{said} | None" if arg.kind == "Tensor" and "?[" in arg.type else said
        said = f"_Sequence[{element}]" if arg.length is None else f"{said} | _Sequence[{element}]"
    return f"{said} | None" if arg.optional and "None" not in said else said


def returns(schema: Schema, name: str) -> str:
    """The type of what a schema returns; several that have names are a class of their own."""
    types_ = ["tuple[_Tensor, ...]" if "[" in t else KINDS.get(t.partition("(")[0].rstrip("?"), "_Any")
              for t, _ in schema.returns]  # fmt: skip
    if len(types_) == 1:
        return types_[0].replace("_complex | _Tensor", "_Any")
    if types_ and all(field for _, field in schema.returns):
        return named_result(tuple(field for _, field in schema.returns))
    return f"tuple[{', '.join(types_)}]" if types_ else "None"


def named_result(fields: tuple[str, ...]) -> str:
    """The name of the class of results with these names."""
    return "_" + "_".join(word.strip("_") for word in fields).title().replace("_", "")


def of_schema(schema: Schema, name: str, form: str) -> list[str]:
    """The signatures of one overload: its arguments, and again with sizes one by one where a method takes them so."""
    parts, keywords, several = [], False, ""
    for i, arg in enumerate(schema.args):
        if form == "method" and i == 0:
            parts.append("self")
            continue
        if arg.kwarg_only and not keywords:
            keywords = True
            parts.append("*")
        label = arg.public_name + "_" * keyword.iskeyword(arg.public_name)
        parts.append(f"{label}: {kind(arg, name)}" + (f" = {default(arg.default)}" if arg.has_default else ""))
        if form == "method" and i == 1 and name in ONE_BY_ONE:
            several = f"(self, *{label}: _int)"
    result = "_Tensor" if name.endswith("_") else returns(schema, name)
    if form != "method" and result != "None" and "_bool" not in result and not name.endswith("_"):
        parts += [] if keywords else ["*"]
        parts.append("out: _Any = None")
    made = [f"({', '.join(parts)}) -> {result}"]
    return [*made, f"{several} -> {result}"] if several else made


def of_function(function: Any, name: str, form: str) -> str:
    """The signature of a function that is no operator, with the types that it says or its name tells."""
    try:
        given = inspect.signature(function)
    except (TypeError, ValueError):
        return "(*args: _Any, **kwargs: _Any) -> _Any"
    parts, stars, hints = [], False, told(name)
    for i, parameter in enumerate(given.parameters.values()):
        label, said = parameter.name, SAID.get(str(parameter.annotation).strip("'"))
        if form == "method" and i == 0:
            parts.append("self")
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not stars:
            stars = True
            parts.append("*")
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        stars = stars or mark == "*"
        if said is None:
            said = "_Tensor" if label in ("input", "self") and parameter.default is parameter.empty else "_Any"
            said = "_bool" if isinstance(parameter.default, bool) else hints.get(label, said)
            said = "_Any" if isinstance(parameter.default, str) else said
            said += " | None" if parameter.default is None and "None" not in said and said != "_Any" else ""
        equals = "" if parameter.default is parameter.empty else f" = {default(parameter.default)}"
        parts.append(f"{mark}{label}: {said}{equals}")
    return f"({', '.join(parts)}) -> {result_of(given, name, form)}"


def result_of(given: inspect.Signature, name: str, form: str) -> str:
    """What a function that is no operator returns."""
    said = SAID.get(str(given.return_annotation).strip("'"))
    first = next(iter(given.parameters), "")
    if name in PLAIN or name in SEVERAL or name in UNSAID:
        return PLAIN.get(name, "tuple[_Tensor, ...]" if name in SEVERAL else "_Any")
    if said is not None or given.return_annotation is not given.empty:
        return said or "_Any"
    if name.startswith("is_"):
        return "_bool"
    results_ = {returns(schema, name) for schema in overloads().get(name, [])}
    if results_ and results_ != {"_Tensor"}:
        return "_Any"
    tensors = (
        form == "functional"
        or name in overloads()
        or form == "method"
        or first in ("input", "self", "tensor", "tensors", "query")
    )
    return "_Tensor" if tensors and not name.startswith("_") else "_Any"


def definition(function: Any, name: str, form: str, indent: str) -> Iterator[str]:
    """The lines that define a function or method."""
    schemas = [op.schema for op in ops_of(function) or ()]
    if not schemas and str(inspect.signature(function)).startswith("(*args"):
        schemas = overloads().get(name, [])
    if name in WIDER:  # takes more than its schema says
        signatures = [f"({'self' if form == 'method' else 'input: _Tensor'}, {WIDER[name]}) -> _Tensor"]
    elif schemas:
        signatures = [s for schema in schemas for s in of_schema(schema, name, form)]
    else:
        signatures = [of_function(function, name, form)]
    signatures = list(dict.fromkeys(signatures))
    for signature in signatures:
        if len(signatures) > 1:
            yield f"{indent}@_overload"
        yield f"{indent}def {name}{signature}: ..."


def told(name: str) -> dict[str, str]:
    """The types of arguments on which all overloads of an operator agree; Python's function may take more sizes."""
    said: dict[str, set[str]] = {}
    for schema in overloads().get(name, []):
        for arg in schema.args:
            said.setdefault(arg.public_name, set()).add(
                "_Any" if arg.is_list and arg.kind != "Tensor" else kind(arg, name)
            )
    return {label: kinds.pop() for label, kinds in said.items() if len(kinds) == 1}


def methods() -> Iterator[str]:
    """The stub of the methods that Tensor is given while importing."""
    yield HEAD.format(about="The methods of Tensor, for type checkers", Tensor="_Tensor")
    yield from results()
    source = ast.parse((ROOT / "torchlike/_core/tensor/tensor.py").read_text())
    body = next(node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "Tensor").body
    own = {getattr(node, "name", "") for node in body} | {"__init__", "__new__", "__class__", "__repr__"}
    yield "class Methods:"
    for name in sorted(set(dir(torchlike.Tensor)) - own - set(dir(object))) + sorted(BINARY & {"__eq__", "__ne__"}):
        value = inspect.getattr_static(torchlike.Tensor, name)
        if name in DUNDERS:
            yield f"    def {name}{DUNDERS[name]}: ..."
        elif name in BINARY:
            yield f"    def {name}(self, other: _Any) -> _Tensor: ..."
        elif name.startswith("_"):
            continue
        elif inspect.isfunction(value):
            yield from definition(value, name, "method", "    ")
        elif isinstance(value, property | types.GetSetDescriptorType):
            yield from attribute(name)


def attribute(name: str) -> Iterator[str]:
    tensors = ("H", "T", "mH", "mT", "real", "imag", "data")
    said = "_Tensor" if name in tensors else "_bool" if name.startswith("is_") else "_Any"
    if name in ("data", "real", "imag", "grad"):
        yield f"    {name}: {'_Any' if name == 'grad' else said}"
    else:
        yield "    @property"
        yield f"    def {name}(self) -> {said}: ..."


def results() -> Iterator[str]:
    """The classes of results that have names."""
    seen = {tuple(field or "" for _, field in s.returns) for found in overloads().values() for s in found
            if len(s.returns) > 1}  # fmt: skip
    for fields in sorted(fields for fields in seen if all(fields)):
        yield f"class {named_result(fields)}(_NamedTuple):"
        yield from (f"    {field}: _Tensor" for field in fields)
        yield ""


def module(name: str) -> Iterator[str]:
    """The stub of a module: its public names."""
    place = importlib.import_module(f"torchlike.{name}" if name else "torchlike")
    Tensor = "Tensor, Tensor as _Tensor" if hasattr(place, "Tensor") else "_Tensor"
    yield HEAD.format(about=(place.__doc__ or "").splitlines()[0].rstrip('."'), Tensor=Tensor)
    imported = sorted({named_result(tuple(f or "" for _, f in s.returns)) for found in overloads().values()
                       for s in found if len(s.returns) > 1 and all(f for _, f in s.returns)})  # fmt: skip
    yield f"from torchlike._core.tensor._methods import {', '.join(imported)}"
    listed = vars(place).get("__all__") or dir(place)
    names = {n for n in listed if not n.startswith("_")} - INTERNAL
    yield "__version__: _str" if not name else ""
    for public in sorted(names):
        yield from member(place, public)


def member(place: types.ModuleType, name: str) -> Iterator[str]:
    """The lines for one name of a module."""
    value = getattr(place, name)
    home, called = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if isinstance(value, types.ModuleType):
        if value.__name__ == f"{place.__name__}.{name}":
            yield f"from {place.__name__} import {name} as {name}"
    elif isinstance(value, type) or isinstance(value, enum.Enum):
        where = importlib.import_module(home) if str(home).startswith("torchlike") else None
        held = getattr(where, called, None) is value and where is not place
        yield f"from {home} import {called} as {name}" if held else f"{name}: _Any"
    elif inspect.isfunction(value):
        yield from definition(value, name, "functional" if place.__name__.endswith("nn.functional") else "function", "")
    else:
        known = {"bool": "_bool", "int": "_int", "float": "_float", "str": "_str", "dtype": "_dtype"}
        known |= {"memory_format": "_MemoryFormat", "MemoryLayout": "_MemoryLayout", "Generator": "_Generator"}
        yield f"{name}: {known.get(type(value).__name__, '_Any')}"


def stubs() -> dict[Path, str]:
    """What each file should hold."""
    package = ROOT / "torchlike"
    made = {package / "_core/tensor/_methods.pyi": methods(), package / "__init__.pyi": module("")}
    for name in MODULES:
        path = package.joinpath(*name.split("."))
        made[path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")] = module(name)
    return {path: "\n".join(lines) + "\n" for path, lines in made.items()}


def stale() -> list[Path]:
    """The files that are not as they should be."""
    return [path for path, text in stubs().items() if not path.exists() or path.read_text() != text]


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(f"not current: {', '.join(map(str, found))}; run docs/make_stubs.py" if (found := stale()) else 0)
    for path, text in stubs().items():
        path.write_text(text)
