"""Names of ``jax.extend``, without importing it: it imports Pallas, which takes a fortieth of ``import jax``."""

import sys
from typing import TYPE_CHECKING, Any

try:
    from jax._src.core import Jaxpr, Literal, Primitive, jaxpr_as_fun
    from jax._src.random.threefry2x32 import threefry_2x32
except ImportError:  # jax has moved them
    from jax.extend.core import Jaxpr, Literal, Primitive, jaxpr_as_fun
    from jax.extend.random import threefry_2x32

if TYPE_CHECKING:
    from jax._src.core import ClosedJaxpr
else:
    ClosedJaxpr = getattr(sys.modules[Jaxpr.__module__], "ClosedJaxpr", Jaxpr)  # one class in newer versions

__all__ = ["ClosedJaxpr", "Jaxpr", "Literal", "Primitive", "jaxpr_as_fun", "run_equation", "threefry_2x32"]


def run_equation(equation: Any, inputs: list[Any], parameters: dict[str, Any]) -> list[Any]:
    """The results of an equation of a jaxpr, with these parameters."""
    bound = equation.primitive.get_bind_params(parameters)
    functions, parameters = bound if isinstance(bound, tuple) else ((), bound)  # what they were before jax 0.10
    out = equation.primitive.bind(*functions, *inputs, **parameters)
    return out if equation.primitive.multiple_results else [out]
