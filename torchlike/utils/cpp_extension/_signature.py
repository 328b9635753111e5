"""What a C++ function takes and gives, and how a schema names it."""

import keyword
import re
from typing import NamedTuple

import ml_dtypes
import numpy as np

from torchlike._decl.schema import Arg, Schema, SchemaError

# The numbers of the element types in XLA's FFI.
_DTYPES = {
    1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8, 7: np.uint16, 8: np.uint32,
    9: np.uint64, 10: np.float16, 11: np.float32, 12: np.float64, 15: np.complex64, 16: ml_dtypes.bfloat16,
    18: np.complex128, 19: ml_dtypes.float8_e5m2, 20: ml_dtypes.float8_e4m3fn,
}  # fmt: skip


class Parameter(NamedTuple):
    """One parameter of a C++ function.

    Attributes:
        kind: ``"buffer"``, ``"result"``, ``"scalar"``, ``"span"`` or ``"str"``.
        dtype: the numpy dtype of what it holds; None for any, and for str.
        rank: how many dimensions a buffer has, None for any.
        position: its place among the parameters that the FFI numbers.
    """

    kind: str
    dtype: np.dtype | None
    rank: int | None
    position: int

    @property
    def name(self) -> str:
        """The attribute's name in the FFI call."""
        return f"a{self.position}"

    def __str__(self) -> str:
        if self.kind in ("buffer", "result"):
            rank = "" if self.rank is None else f" of {self.rank} dimensions"
            return f"{self.kind} of {self.dtype or 'any dtype'}{rank}"
        return "string" if self.kind == "str" else f"{self.dtype} {self.kind}"


class Signature(NamedTuple):
    """The parameters of a C++ function; None where only the compiler knew them (a handler made by XLA's macro)."""

    arguments: tuple[Parameter, ...] | None
    results: tuple[Parameter, ...] | None


def parsed(words: str) -> Signature:
    """The signature from the words that the header writes; see ``Parameter::Word`` there."""
    form, *rest = words.split()
    if form == "handler":
        return Signature(None, None)
    found = [_parameter(i, word) for i, word in enumerate(rest) if word != "C"]
    return Signature(tuple(p for p in found if p.kind != "result"), tuple(p for p in found if p.kind == "result"))


def _parameter(position: int, word: str) -> Parameter:
    if word[0] in "BR":
        number, rank = word[1:].split(":")
        if number != "0" and int(number) not in _DTYPES:
            raise NotImplementedError(f"element type number {number} of XLA's FFI has no torch.dtype; use another")
        dtype = None if number == "0" else np.dtype(_DTYPES[int(number)])
        return Parameter("buffer" if word[0] == "B" else "result", dtype, None if rank == "-1" else int(rank), position)
    if word == "Astr":
        return Parameter("str", None, None, position)
    return Parameter("scalar" if word[0] == "A" else "span", np.dtype(word[1:]), None, position)


_SCHEMA = re.compile(r"\s*(?:\w+::)?(?:\w+(?:\.\w+)?)?\s*(\(.*->.*)", re.DOTALL)


def is_schema(text: str) -> bool:
    """Whether a text is a schema, with or without the name in front, and not a description."""
    return _SCHEMA.fullmatch(text) is not None


def schema_for(name: str, text: str, signature: Signature) -> Schema:
    """The schema of the function ``name``: as written, or made from its C++ parameters.

    Raises SchemaError (a TypeError) where it does not parse or contradicts the C++ function, and NotImplementedError
    where it asks for what the FFI does not have.
    """
    if not text:
        schema = Schema(_derived(name, signature))
    else:
        match = _SCHEMA.fullmatch(text)
        if match is None:
            raise SchemaError(f"{name}: not a schema: {text!r}; expected one like '(Tensor x, int n=1) -> Tensor'")
        schema = Schema(name + match[1].strip())
    _demand_supported(name, schema)
    if signature.arguments is not None:
        _demand_agreement(name, schema, signature)
    return schema


def _derived(name: str, signature: Signature) -> str:
    if signature.arguments is None or signature.results is None:
        raise SchemaError(
            f"{name}: a handler does not tell its arguments; state them, as in "
            f"functions={{{name!r}: '(Tensor x, float eps) -> Tensor'}}"
        )
    arguments = ", ".join(f"{_schema_type(p)} arg{i}" for i, p in enumerate(signature.arguments))
    results = ", ".join(["Tensor"] * len(signature.results))
    return f"{name}({arguments}) -> {results if len(signature.results) == 1 else f'({results})'}"


def _schema_type(p: Parameter) -> str:
    if p.kind == "buffer":
        return "Tensor"
    if p.dtype is None:
        return "str"
    kind = {"b": "bool", "f": "float", "i": "int", "u": "int"}[p.dtype.kind]
    return kind + "[]" if p.kind == "span" else kind


_TYPES = ("Tensor", "int", "float", "bool", "str", "SymInt", "int[]", "float[]", "SymInt[]")


def _demand_supported(name: str, schema: Schema) -> None:
    for arg in schema.args:
        if arg.mutated or "(" in arg.type:
            raise NotImplementedError(
                f"{name}: argument '{arg.name}' of type {arg.type}: a C++ function cannot change or alias an argument; "
                "return the new value as a result, and copy it with Tensor.copy_() where it must be in place"
            )
        if arg.type not in _TYPES:
            raise NotImplementedError(
                f"{name}: argument '{arg.name}' of type {arg.type} cannot reach a C++ function; expected one of "
                f"{', '.join(_TYPES)} (pass the tensors of a list one by one, and an optional one as an empty tensor)"
            )
        if not arg.name.isidentifier() or keyword.iskeyword(arg.name):
            raise SchemaError(f"{name}: '{arg.name}' cannot be the name of an argument in Python; choose another")
    if not schema.returns or any(kind != "Tensor" for kind, _ in schema.returns):
        raise NotImplementedError(
            f"{name}: returns {schema.text.rpartition('->')[2].strip()}; expected Tensor or a tuple of Tensors"
        )


def _demand_agreement(name: str, schema: Schema, signature: Signature) -> None:
    takes, gives = signature.arguments or (), signature.results or ()
    listed = f"the C++ function takes ({', '.join(map(str, takes))}) and fills ({', '.join(map(str, gives))})"
    if len(schema.args) != len(takes) or len(schema.returns) != len(gives):
        raise SchemaError(
            f"{name}: the schema has {len(schema.args)} arguments and {len(schema.returns)} results, but {listed}"
            f"\n  schema: {schema}"
        )
    for arg, p in zip(schema.args, takes, strict=True):
        if not _accepts(p, arg):
            raise SchemaError(
                f"{name}: argument '{arg.name}' is {arg.type} in the schema, but {listed}\n  schema: {schema}"
            )


def _accepts(p: Parameter, arg: Arg) -> bool:
    """Whether a parameter takes what the schema's argument gives. A buffer takes numbers too, as runtime values."""
    if p.kind == "buffer":
        return not arg.is_list and (arg.is_tensor or arg.kind in ("float", "int", "bool"))
    if p.kind == "str" or arg.kind == "str":
        return p.kind == "str" and arg.kind == "str"
    if arg.is_tensor or arg.is_list is not (p.kind == "span") or p.dtype is None:
        return False
    return arg.kind == {"b": "bool", "f": "float"}.get(p.dtype.kind, "int")
