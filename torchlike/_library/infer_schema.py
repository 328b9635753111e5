"""Schemas from the annotations of a function."""

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from torchlike._base.device import device
from torchlike._base.dtypes import dtype
from torchlike._core.tensor.tensor import Tensor

_SCALAR = frozenset((int, float, bool))
_ELEMENTS = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool"}
_SINGLE = {**_ELEMENTS, str: "str", dtype: "ScalarType", device: "Device"}
_LISTS = (list, collections.abc.Sequence)
_PARAMETERS = (
    "Tensor, int, float, bool, str, torch.dtype, torch.device, torch.types.Number, Optional of each, List or Sequence "
    "of "
    "Tensor, Optional[Tensor], int, float, bool and Number, and Optional of lists of int, float and bool"
)
_RETURNS = "Tensor, List[Tensor], int, float, bool, torch.types.Number, and tuples of them"


def infer_schema(
    prototype_function: Callable, /, *, mutates_args: str | Iterable[str], op_name: str | None = None, tags: Any = ()
) -> str:
    """The schema that the annotations of a function state.

    Args:
        prototype_function: the function; every parameter and the result must be annotated.
        mutates_args: the names of the tensor arguments that it changes, or ``"unknown"``: possibly all.
        op_name: the name to begin the schema with. tags: accepted, and not used.

    ValueError for an annotation or a default that has no counterpart in a schema.

    >>> import torchlike as torch
    >>> def scale(x: torch.Tensor, by: float = 2.0) -> torch.Tensor: ...
    >>> torch.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    return _Inference(prototype_function).schema(mutates_args, op_name or "")


class _Inference:
    def __init__(self, function: Callable) -> None:
        self.function = function
        self.signature = inspect.signature(function)

    def fail(self, problem: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {problem} Got func with signature {self.signature})")

    def schema(self, mutates: str | Iterable[str], name: str) -> str:
        if isinstance(mutates, str) and mutates != "unknown":
            raise ValueError(
                "mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
                f"'unknown'. Got {mutates!r}."
            )
        chosen = mutates if isinstance(mutates, str) else set(mutates)
        parts: list[str] = []
        star = False
        for i, (key, p) in enumerate(self.signature.parameters.items()):
            if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
                self.fail("We do not support positional-only args, varargs, or varkwargs.")
            if p.kind is p.KEYWORD_ONLY and not star:
                parts.append("*")
                star = True
            kind = self.parameter(p)
            if kind.startswith("Tensor") and (chosen == "unknown" or key in chosen):
                kind = f"Tensor(a{i}!){kind[len('Tensor') :]}"
            elif chosen != "unknown" and key in chosen:
                self.fail(
                    f"Parameter {key} is in mutable_args but only Tensors or collections of Tensors can be mutated."
                )
            parts.append(f"{kind} {key}" + ("" if p.default is p.empty else f"={self.default(p)}"))
        missing = set() if isinstance(chosen, str) else chosen - self.signature.parameters.keys()
        if missing:
            self.fail(
                f"{missing} in mutates_args were not found in the custom op's signature. mutates_args should contain "
                "the "
                "names of all args that the custom op mutates, or just the string 'unknown' if you don't know."
            )
        return f"{name}({', '.join(parts)}) -> {self.result(self.signature.return_annotation)}"

    def resolved(self, annotation: Any) -> Any:
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, getattr(self.function, "__globals__", {}))
        except Exception as error:
            self.fail(
                f"Unsupported type annotation {annotation}. It is not a type. ({error}). If you are using 'from "
                "__future__ "
                "import annotations', note that annotations are evaluated lazily as strings; make sure all types "
                "referenced in annotations are importable at module scope, not only inside a local function."
            )

    def parameter(self, p: inspect.Parameter) -> str:
        if p.annotation is p.empty:
            self.fail(f"Parameter {p.name} must have a type annotation.")
        annotation = self.resolved(p.annotation)
        found = _spelled(annotation)
        if found is None:
            if typing.get_origin(annotation) is tuple:
                self.fail(
                    f"Parameter {p.name} has unsupported type {annotation}. We do not support Tuple inputs in schema. "
                    "As a "
                    f"workaround, please try to use List instead. For example, {_as_list(annotation)}. The valid types "
                    f"are: {_PARAMETERS}."
                )
            self.fail(f"Parameter {p.name} has unsupported type {annotation}. The valid types are: {_PARAMETERS}.")
        return found

    def default(self, p: inspect.Parameter) -> str:
        value = p.default
        if value is None or isinstance(value, int | float | bool):
            return str(value)
        if isinstance(value, str | device):
            return f'"{value}"'
        if isinstance(value, dtype):
            return str(value).removeprefix("torch.")
        self.fail(
            f"Parameter {p.name} has an unsupported default value type {type(value)}. Use None, a number, a str, a "
            "dtype or "
            "a device."
        )

    def result(self, annotation: Any) -> str:
        annotation = self.resolved(annotation)
        if annotation is inspect.Signature.empty:
            self.fail("No return type annotation was provided. Please add one.")
        if annotation is None or annotation is type(None):
            return "()"
        found = _returned(annotation)
        if found is None and typing.get_origin(annotation) is tuple:
            parts = [_returned(a) for a in typing.get_args(annotation)]
            if None not in parts:
                inner = ", ".join(str(part) for part in parts)
                return f"(({inner}))" if len(parts) == 1 else f"({inner})"
        if found is None:
            self.fail(f"Return has unsupported type {annotation}. The valid types are: {_RETURNS}.")
        return found


def _as_list(annotation: Any) -> str:
    inner = [a for a in typing.get_args(annotation) if a is not Ellipsis]
    names = list(dict.fromkeys(getattr(a, "__name__", str(a)) for a in inner))
    return f"list[{names[0]}]" if len(names) == 1 else "list of one type"


def _members(annotation: Any) -> tuple | None:
    """The alternatives of a union."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return None


def _element(annotation: Any) -> str | None:
    """Of one thing, not optional."""
    if annotation.__hash__ is not None and annotation in _SINGLE:
        return _SINGLE[annotation]
    members = _members(annotation)
    return "Scalar" if members is not None and frozenset(members) == _SCALAR else None


def _list(annotation: Any) -> str | None:
    if typing.get_origin(annotation) not in _LISTS or len(typing.get_args(annotation)) != 1:
        return None
    inner = typing.get_args(annotation)[0]
    members = _members(inner)
    if members is not None and set(members) == {Tensor, type(None)}:
        return "Tensor?[]"
    found = _element(inner)
    return f"{found}[]" if found in (*_ELEMENTS.values(), "Scalar") else None


def _spelled(annotation: Any) -> str | None:
    found = _element(annotation) or _list(annotation)
    members = _members(annotation)
    if found is not None or members is None or type(None) not in members:
        return found
    rest = [m for m in members if m is not type(None)]
    if len(rest) > 1:
        return "Scalar?" if frozenset(rest) == _SCALAR else None
    single = _element(rest[0]) or _list(rest[0])
    return None if single is None or single in ("Tensor[]", "Tensor?[]", "Scalar[]") else f"{single}?"


def _returned(annotation: Any) -> str | None:
    found = _element(annotation)
    if found is None and typing.get_origin(annotation) is list:
        found = _list(annotation)
        return found if found == "Tensor[]" else None
    return None if found in ("str", "ScalarType", "Device") else found
