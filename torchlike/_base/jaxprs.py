"""Names of ``jax.extend``, without importing it: it imports Pallas, which takes a fortieth of ``import jax``."""

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    from jax._src.core import Jaxpr, Literal, Primitive, jaxpr_as_fun
    from jax._src.lax.lax import convert_element_type_p
    from jax._src.random.threefry2x32 import threefry_2x32
except ImportError:  # jax has moved them
    from jax.extend.core import Jaxpr, Literal, Primitive, jaxpr_as_fun
    from jax.extend.core.primitives import convert_element_type_p
    from jax.extend.random import threefry_2x32

if TYPE_CHECKING:
    from jax._src.core import ClosedJaxpr
else:
    ClosedJaxpr = getattr(sys.modules[Jaxpr.__module__], "ClosedJaxpr", Jaxpr)  # one class in newer versions

__all__ = ["ClosedJaxpr", "Jaxpr", "Literal", "Primitive", "jaxpr_as_fun", "run_equation", "threefry_2x32", "weakened"]

_WIDE = {"b": "bool", "i": "int64", "u": "int64", "f": "float64", "c": "complex128"}


def weakened(number: Any) -> Any:
    """A number that jax traces as one that takes the dtype of what it meets, as Python's numbers do."""
    wide = np.dtype(_WIDE.get(number.dtype.kind, "float64"))
    return convert_element_type_p.bind(number, new_dtype=wide, weak_type=wide.kind != "b", sharding=None)


def run_equation(equation: Any, inputs: list[Any], parameters: dict[str, Any]) -> list[Any]:
    """The results of an equation of a jaxpr, with these parameters."""
    bound = equation.primitive.get_bind_params(parameters)
    functions, parameters = bound if isinstance(bound, tuple) else ((), bound)  # what they were before jax 0.10
    out = equation.primitive.bind(*functions, *inputs, **parameters)
    return out if equation.primitive.multiple_results else [out]
