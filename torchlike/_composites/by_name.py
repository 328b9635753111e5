"""The overloads of ``signatures.txt``: each is the public function, method or property of its name."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchlike import fft, linalg, special
from torchlike._aten.outs import writing
from torchlike._aten.source import SOURCE, Overload
from torchlike._aten.tags import Tag
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.function_schema import FunctionSchema, parse_schema
from torchlike._decl.op import REGISTRY
from torchlike.nn import functional

_PREFIXES = {"linalg_": linalg, "special_": special, "fft_": fft}
_FREE = [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]  # of functions made of declarations
_REDUCTIONS = ("none", "mean", "sum")
_RENAMED = {"self": "input"}
_DEFAULTS = {"reduction"}  # which public functions have another default for than the schemas: none, not the mean


def _named(name: str) -> Any:
    """What the public name of an operator is: a function of its arguments."""
    for prefix, module in _PREFIXES.items():
        if name.startswith(prefix) and hasattr(module, name.removeprefix(prefix)):
            return getattr(module, name.removeprefix(prefix))
    if not name.endswith("_") and name in FUNCTIONS:
        return FUNCTIONS[name]
    found = getattr(Tensor, name, None) or getattr(functional, name, None) or FUNCTIONS.get(name)
    if found is None or callable(found):
        return found
    return found.__get__  # of a property


def _takes_out(function: Callable) -> bool:
    found = inspect.signature(function).parameters
    if [p.kind for p in found.values()] != _FREE:
        return "out" in found
    declared = [op for op in REGISTRY.values() if op.schema.name == function.__name__]
    return not declared or any(["out" in op.variants for op in declared])


def _maker(text: str) -> Callable[[], Callable]:
    """What makes the callable of an overload."""
    return lambda: _caller(parse_schema(f"aten::{text}"))


def _caller(schema: FunctionSchema) -> Callable:
    name = schema.name.removeprefix("aten::")
    function = _named(name)
    outs = tuple([a.name for a in schema.arguments if a.is_out])
    if outs and not _takes_out(function):
        several = str(schema.arguments[-1].type) == "List[Tensor]"
        return writing(name, _positional(schema, function, ()), outs, False, several)
    return _positional(schema, function, outs)


def _positional(schema: FunctionSchema, function: Callable, outs: tuple[str, ...]) -> Callable:
    """``function`` called as ``schema`` says: by position, after ``*`` by name, the outputs as one."""
    order = [a for a in schema.arguments if not a.kwarg_only]
    layer = getattr(functional, getattr(function, "__name__", ""), None) is function
    lists = [str(r.type) == "List[Tensor]" for r in schema.returns]

    def call(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        last = max([i for i, a in enumerate(order) if a.name in kwargs or a.name in _DEFAULTS], default=-1)
        for a in order[len(given) : last + 1]:
            given.append(kwargs.pop(a.name) if a.name in kwargs else a.default_value)
        if layer:  # whose arguments have other places
            kwargs |= {_RENAMED.get(a.name, a.name): v for a, v in zip(order, given, strict=False)}
            given = []
            if "reduction" in kwargs:
                kwargs["reduction"] = _REDUCTIONS[kwargs["reduction"]]
        if len(given) > 2 and order[2].name == "alpha":  # which public functions take by name alone
            kwargs["alpha"] = given.pop(2)
        if outs:
            found = tuple([kwargs.pop(n) for n in outs])
            kwargs["out"] = found if len(found) > 1 else found[0]
        got = function(*given, **kwargs)
        if not any(lists) or not isinstance(got, tuple):
            return got
        return list(got) if len(lists) == 1 else tuple([list(x) if y else x for x, y in zip(got, lists, strict=True)])

    return call


def _tags(text: str) -> tuple[Tag, ...]:
    name = text[: text.index("(")].partition(".")[0]
    if name.endswith("_") and not name.startswith("__"):
        return (Tag.inplace,)
    return (Tag.out,) if "!) out" in text else ()


for _text in Path(__file__).with_name("signatures.txt").read_text().splitlines():
    SOURCE.add(Overload(_text, _maker(_text), _tags(_text), whole=True))
