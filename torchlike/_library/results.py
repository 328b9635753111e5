"""What a kernel returned, against the results that its schema declares."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.function_schema import FunctionSchema, SchemaType

_PLAIN: dict[str, tuple] = {
    "int": (int, np.integer), "bool": (bool, np.bool_), "float": (float, int, np.floating, np.integer), "str": (str,),
    "number": (int, float, complex, np.number, np.bool_), "complex": (complex, float, int), "NoneType": (type(None),),
}  # fmt: skip
_CAST = {"float": float, "complex": complex, "int": int}


def checked(schema: FunctionSchema, out: Any) -> Any:
    """``out`` as the caller gets it; RuntimeError or TypeError where it is not what the schema says."""
    returns = schema.returns
    if not returns:
        if out is not None:
            raise RuntimeError(
                f"Expected the kernel of {schema.name} to return None but it returned something else instead: a "
                f"{type(out).__name__}; its schema has no result: {schema}"
            )
        return None
    if len(returns) == 1:
        return _fitting(schema, returns[0].type, out)
    if not isinstance(out, list | tuple):
        raise TypeError(
            f"Object of type '{type(out).__name__}' is not an instance of 'sequence': the kernel of {schema.name} must "
            f"return a tuple of {len(returns)} results: {schema}"
        )
    if len(out) != len(returns):
        raise RuntimeError(
            f"the kernel of {schema.name} returned {len(out)} results where {len(returns)} are declared: {schema}"
        )
    return tuple([_fitting(schema, r.type, v) for r, v in zip(returns, out, strict=True)])


def _fitting(schema: FunctionSchema, kind: SchemaType, value: Any) -> Any:
    name = kind.kind()
    if name == "OptionalType":
        return None if value is None else _fitting(schema, kind.getElementType(), value)
    if name == "ListType":
        if isinstance(value, list | tuple):
            return [_fitting(schema, kind.getElementType(), v) for v in value]
    elif name == "TensorType":
        if value is None or isinstance(value, Tensor):
            return value
    else:
        accepted = _PLAIN.get(str(kind))
        if accepted is None or isinstance(value, accepted):
            return _CAST.get(str(kind), lambda v: v)(value)
    raise RuntimeError(
        f"Unable to cast {value!r} to {kind}: the kernel of {schema.name} must return what its schema says: {schema}"
    )


def demand_apart(name: str, given: Iterable[Tensor], got: Iterable[Tensor]) -> None:
    """Refuse results of a custom operator that share memory with its arguments or with each other."""
    seen = {id(t._storage) for t in given}
    for t in got:
        if id(t._storage) in seen:
            raise RuntimeError(
                f"{name}: The output of this custom operator (1) must not also be an input to this custom operator and "
                "(2) may not alias any inputs to this custom operator or other returns. The most common way to trigger "
                "this error is if we have y = custom_op(x) and y and x are the same Tensor. Please instead return a "
                "clone of the offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to "
                "not "
                "return y."
            )
        seen.add(id(t._storage))
