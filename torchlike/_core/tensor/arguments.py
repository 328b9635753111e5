"""Conversion of arguments that are not already what a schema asks for, or dispatch.

The generated front functions check the class of each argument inline; they come here only when it
is not the plain one, so a call with ordinary arguments pays an identity test for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import jax.numpy as jnp
import numpy as np
from jax.export import is_symbolic_dim
from jax.tree_util import GetAttrKey, register_pytree_with_keys

import torchlike._base.dtypes as dtypes
from torchlike._base.home import ALIAS
from torchlike._base.jaxprs import weakened
from torchlike._base.state import state
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.struct_sequence import struct_sequence
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._decl.op import Op
from torchlike._executor.immediate import Tracer
from torchlike._executor.pending import as_numpy

if TYPE_CHECKING:
    from torchlike._decl.derive import Kernel

# How dispatch treats an input of each type: 1 a plain tensor, 2 a value passed as it is, 3 one that is no tensor where
# tensors alone are wanted. Others go the slow way.
KIND: dict[type, int] = {Tensor: 1, float: 2, int: 2, bool: 3, complex: 2, type(None): 2}

# What a number is, whatever methods its class has.
_NUMBERS: dict[type, Callable[..., Any]] = {float: float.__float__, int: int.__index__, complex: complex.__complex__}


_OF_BITS = frozenset(("&", "|", "^", "<<", ">>"))  # no operators of two numbers


def plain(op: Kernel, position: int, x: Any) -> Any:
    """``x``, an input of ``op``, as one that dispatch takes directly."""
    if type(x) in KIND:
        return x
    if isinstance(x, Tensor):
        KIND[type(x)] = 1
        return x
    if isinstance(x, np.generic) and not isinstance(x, np.void | np.str_):
        return _of_numpy(x)
    for number, value in _NUMBERS.items():  # of a class made of one, as IntEnum is
        if isinstance(x, number):
            return value(x)
    if (known := known_number(x)) is not x:
        return known
    names = [a.public_name for a in op.declaration.dynamic]
    raise no_tensor(op.name, names[position] if position < len(names) else None, position, x)


def known_number(x: Any) -> Any:
    """A length that a program takes as it comes, as a tensor that stands for the number; anything else as it is."""
    return fresh(jnp.asarray(x)) if is_symbolic_dim(x) else x


def _of_numpy(x: np.generic) -> Any:
    """A number of numpy as Python's; PyTorch takes a boolean one for a float."""
    wide = np.bool_ | np.longdouble  # whose item() is no number of Python's, or another than PyTorch takes
    return float(x) if isinstance(x, wide) else complex(x) if isinstance(x, np.clongdouble) else x.item()


def no_tensor(function: str, name: str | None, position: int | None, x: Any) -> TypeError:
    """The error of an argument, at ``position`` unless that is None, that is no tensor."""
    given = ([] if name is None else [f"'{name}'"]) + ([] if position is None else [f"(position {position + 1})"])
    hint = "; convert it with torch.as_tensor()" if hasattr(x, "__array__") else ""
    return TypeError(f"{function}(): argument {' '.join(given)} must be Tensor, not {_kind(x)}{hint}")


def demand_no_bools(op: Kernel, inputs: tuple[Any, ...], static: tuple[Any, ...]) -> None:
    """Refuse a bool where ``op`` takes tensors alone: of other numbers jax's value says in the kernel what they are."""
    declared = op.declaration
    if not isinstance(declared, Op) or (op is not declared and op is not declared.inplace):
        return  # derived or mapped, of what a call was given
    if declared.operator in _OF_BITS and all([x.__class__ in _NUMBERS or x.__class__ is bool for x in inputs]):
        raise TypeError(f"{op.name}() takes a tensor and a tensor or number, not two numbers; use torch.tensor()")
    spans = declared.spans(static)
    for arg in declared.dynamic:
        if arg.is_tensor and arg.name not in declared.numbers:
            for at in spans[arg.name]:
                if inputs[at].__class__ is bool:
                    raise no_tensor(op.name, arg.public_name, declared.schema.args.index(arg), inputs[at])


_HEAP_TYPE = 1 << 9  # of a class that Python code made; the name of others has that of their module


def _kind(x: Any) -> str:
    cls = type(x)
    short = cls.__flags__ & _HEAP_TYPE or cls.__module__ == "builtins"
    return cls.__name__ if short else f"{cls.__module__}.{cls.__name__}"


def _wrong(function: str, name: str, expected: str, got: object) -> NoReturn:
    kind = type(got).__name__
    raise TypeError(f"{function}(): argument '{name}' must be {expected}, not {kind}")


def _number(t: Tensor) -> Any:
    if state.dispatch_modes:
        return t.item()  # which a mode sees
    value = value_of(t) if state.capture is None else state.capture.numbers(t)
    return as_numpy(value).item()


def as_int(function: str, name: str, x: Any) -> Any:
    """An int from what has ``__index__`` (numpy integers, 0-dim integer tensors)."""
    if isinstance(x, int) and not isinstance(x, bool):
        return int(x)
    if isinstance(x, Tensor):
        if x.numel() == 1 and not (x.dtype.is_floating_point or x.dtype.is_complex):
            return int(_number(x))
    elif isinstance(x, np.integer):
        return int(x)
    elif is_symbolic_dim(x):
        return x
    elif not isinstance(x, bool | float) and hasattr(x, "__index__"):
        return x.__index__()
    return _wrong(function, name, "int", x)


def as_ints(function: str, name: str, x: Any) -> tuple[int, ...]:
    """A tuple of ints from any sequence of them; as in PyTorch the first alone may not be a bool."""
    if isinstance(x, list | tuple):
        return tuple([i if i.__class__ is int else _int_among(function, name, i, x[0]) for i in x])
    return _wrong(function, name, "tuple of ints", x)


def _int_among(function: str, name: str, x: Any, first: Any) -> Any:
    return int(x) if x.__class__ is bool and first.__class__ is not bool else as_int(function, name, x)


def demand_given(function: str, name: str, given: tuple[Any, ...]) -> None:
    """Refuse ``x.f()`` where ints are to be given one by one or as one sequence; ``x.f(())`` is fine."""
    if not given:
        raise TypeError(f'{function}() missing 1 required positional arguments: "{name}"')


def demand_once(function: str, name: str, given: tuple[Any, ...]) -> None:
    """Refuse ints one by one beside the keyword that names them."""
    if given:
        raise TypeError(f"{function}() got multiple values for argument '{name}'")


def as_ints_or_int(length: int) -> Callable[[str, str, Any], tuple[int, ...]]:
    """A converter that also takes one int, for ``int[length]`` arguments."""

    def convert(function: str, name: str, x: Any) -> tuple[int, ...]:
        if isinstance(x, list | tuple):
            return as_ints(function, name, x)
        if isinstance(x, int | np.integer | Tensor) and not isinstance(x, bool):
            return (as_int(function, name, x),) * length
        return _wrong(function, name, "tuple of ints", x)

    return convert


def as_bool(function: str, name: str, x: Any) -> NoReturn:
    """Refuses ``x``, which is no bool; numpy's are none, as in PyTorch."""
    _wrong(function, name, "bool", x)


def bools(function: str, **flags: Any) -> None:
    """Demand bools: another flag would be taken by its truth, in silence."""
    for name, x in flags.items():
        if x.__class__ is not bool:
            _wrong(function, name, "bool", x)


def bools_or_none(function: str, **flags: Any) -> None:
    """Demand bools, or None."""
    bools(function, **{name: x for name, x in flags.items() if x is not None})


def as_dtype(function: str, name: str, x: Any) -> dtypes.dtype:
    try:
        return dtypes.as_dtype(x)
    except TypeError:
        return _wrong(function, name, "torch.dtype", x)


def as_str(function: str, name: str, x: Any) -> str:
    return x if isinstance(x, str) else _wrong(function, name, "str", x)


def as_number(function: str, name: str, x: Any) -> Any:
    """A Python number, from numpy numbers and 0-dim tensors too; not where that would lose a gradient."""
    if isinstance(x, bool | int | float | complex):
        return x
    if isinstance(x, np.number | np.bool_):
        return _of_numpy(x)
    if isinstance(x, Tensor):
        if stands_for_number(x):
            return x
        without_grad(function, name, x)
        if x.dim() == 0:
            return _number(x)
    if (known := known_number(x)) is not x:
        return known
    return _wrong(function, name, "Number", x)


def as_runtime_number(function: str, name: str, x: Any) -> Any:
    """A number that a kernel reads when it runs: of a tensor that a captured function computes, as part of it."""
    if state.capture is not None and isinstance(x, Tensor) and not x._rg and not x.dim():
        value = value_of(x)
        if isinstance(value, Tracer) and not value.weak_type and value.dtype.kind != "b":
            return fresh(weakened(value))
    return as_number(function, name, x)


def without_grad(function: str, name: str, x: Any) -> Any:
    """``x``, which is to be a number; TypeError for a tensor that requires grad."""
    if isinstance(x, Tensor) and x._rg:
        raise TypeError(
            f"{function}(): argument '{name}' must be Number, not Tensor that requires grad, whose gradient would "
            "be lost: use operators of tensors to differentiate, or .item()"
        )
    return x


def stands_for_number(x: Any) -> bool:
    """Whether a tensor is a Python number of a function that is captured: its value is weakly typed, as jax says."""
    return state.capture is not None and isinstance(x, Tensor) and getattr(x._storage.value, "weak_type", False)


def with_numbers(op: Kernel, static: Any) -> tuple[Any, ...]:
    """``static`` of a call with the numbers of tensors that were given in it, as PyTorch reads them.

    Raises:
        TypeError: a tensor that stands for no such number: of more elements, of another dtype, with a gradient.
    """
    declared = op.declaration
    if not hasattr(declared, "static"):  # a view along a mapped axis, which is given an example
        return static
    numbers = [_settled(op.name, arg, x) for arg, x in zip(declared.static, static, strict=False)]
    rest = static[len(numbers) :]
    for x in rest:
        if isinstance(x, Tensor):
            _wrong(op.name, "static", "a number", x)
    if declared.inexact:
        rest = (*rest[: bool(declared.lists)], *declared.exactly(numbers)[len(numbers) :])
    return (*numbers, *rest)


def _settled(function: str, arg: Any, x: Any) -> Any:
    if x.__class__ is tuple:
        return tuple([_settled(function, arg, i) for i in x])
    if not isinstance(x, Tensor):
        return _wrong(function, arg.name, arg.type, x) if hasattr(type(x), "__torch_function__") else x
    if arg.kind == "int":
        return as_int(function, arg.name, x)
    return (
        as_number(function, arg.name, x) if arg.kind in ("Scalar", "float") else _wrong(function, arg.name, arg.type, x)
    )


def as_numbers(function: str, name: str, x: Any) -> tuple[Any, ...]:
    if isinstance(x, list | tuple):
        return tuple([as_number(function, name, i) for i in x])
    return _wrong(function, name, "tuple of numbers", x)


def as_float(function: str, name: str, x: Any) -> float:
    number = as_number(function, name, x)
    return _wrong(function, name, "float", x) if isinstance(number, complex) else float(number)


def as_floats(function: str, name: str, x: Any) -> tuple[float, ...]:
    if isinstance(x, list | tuple):
        return tuple([as_float(function, name, i) for i in x])
    return _wrong(function, name, "tuple of floats", x)


def as_tensors(function: str, name: str, x: Any) -> tuple[Tensor, ...]:
    """A tuple of tensors, for ``Tensor[]`` arguments."""
    if isinstance(x, list | tuple):
        for i, t in enumerate(x):
            if not isinstance(t, Tensor):
                raise TypeError(
                    f"{function}(): expected Tensor as element {i} in argument '{name}', but got {type(t).__name__}"
                )
        return tuple(x)
    return _wrong(function, name, "tuple of Tensors", x)


def as_tensor_arg(function: str, name: str, x: Any) -> Any:
    """A tensor (used by overload resolution, where anything else means another overload)."""
    return x if isinstance(x, Tensor) or hasattr(x, "__torch_function__") else _wrong(function, name, "Tensor", x)


def as_operand(function: str, name: str, x: Any) -> Any:
    """A tensor or a number, for operands that accept both."""
    if isinstance(x, Tensor | bool | int | float | complex | np.number | np.bool_):
        return x
    if (known := known_number(x)) is not x:
        return known
    return x if hasattr(x, "__torch_function__") else _wrong(function, name, "Tensor", x)


def named_results(name: str, fields: Any) -> Any:
    """The class of results with names that prints as PyTorch's ``torch.return_types.<name>``."""

    def __reduce__(self: Any) -> Any:
        return (type(self), (tuple(self), {})) if ALIAS.installed else (return_type, (name, tuple(self)))

    def __repr__(self: Any) -> str:
        inner = ",\n".join(f"{f}={v!r}" for f, v in zip(fields, self, strict=True))
        return f"torch.return_types.{name}(\n{inner})"

    made = RETURN_TYPES[name] = struct_sequence(f"torch.return_types.{name}", fields)
    made.__repr__, made.__reduce__ = __repr__, __reduce__
    keys = [GetAttrKey(name) for name in fields]
    pairs = lambda x: (tuple(zip(keys, x, strict=True)), None)  # noqa: E731
    # Functions that jax traces give such results, too.
    register_pytree_with_keys(made, pairs, lambda _, parts: made(parts), lambda x: (tuple(x), None))
    return made


RETURN_TYPES: dict[str, Any] = {}


def return_type(name: str, values: Iterable[Any]) -> Any:
    """A named result, from a pickle."""
    return RETURN_TYPES[name](values)


__all__ = [
    "KIND",
    "Size",
    "RETURN_TYPES",
    "plain",
    "return_type",
    *[n for n in globals() if n.startswith("as_")],
    "named_results",
    "stands_for_number",
]
