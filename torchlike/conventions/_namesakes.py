"""JAX's function of the same name and meaning as one of PyTorch's."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from torchlike._decl.derive import as_tuple

KERNEL = "torchlike's kernel"
_LIBRARIES = ("jax.numpy", "jax.nn", "jax.scipy.special", "jax.numpy.linalg", "jax.lax")
FIRST = "<"
_ARGUMENTS = {"dim": "axis", "keepdim": "keepdims", "p": "ord"}  # where JAX's function has the second name


@dataclass(frozen=True)
class Namesake:
    """One of JAX's functions, and how it is called with PyTorch's arguments.

    Attributes:
        name: its full name, such as ``jax.numpy.clip``.
        arguments: JAX's names of PyTorch's arguments after the first, in PyTorch's order; "" for one without a name,
            FIRST for one that goes before the tensors.
        fixed: arguments that PyTorch's function does not have.
    """

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def function(self) -> Callable:
        """The function that the name stands for."""
        module, _, name = self.name.rpartition(".")
        return getattr(importlib.import_module(module), name)

    @cached_property
    def _accepted(self) -> frozenset[str]:
        try:
            return frozenset(inspect.signature(self.function).parameters)
        except ValueError:
            return frozenset()

    def call(self, /, *values: Any, **named: Any) -> Any:
        """The function of the values, PyTorch's arguments by name; what it does not know is left out."""
        tensors, further = (values[:1], values[1:]) if self.arguments and not named else (values, ())
        positional = dict(zip(self.arguments, further, strict=False))
        found = dict(self.fixed)
        for name, value in {**positional, **named}.items():
            known = next((n for n in (name, _ARGUMENTS.get(name)) if n in self._accepted), None)
            theirs = self.arguments.get(name, known)
            if theirs == "":
                tensors = (*tensors, value)
            elif theirs == FIRST:
                tensors = (jax.numpy.asarray(value, tensors[0].dtype), *tensors)  # JAX's rules refuse ints there
            elif theirs and value is not None:
                found[theirs] = value
        return self.function(*tensors, **found)


_CLIP = {"min": "min", "max": "max"}
_TABLE = {  # where the names differ, or the arguments
    "bmm": Namesake("jax.numpy.matmul"),
    "clamp": Namesake("jax.numpy.clip", _CLIP),
    "clamp_max": Namesake("jax.numpy.clip", {"max": "max"}),
    "clamp_min": Namesake("jax.numpy.clip", {"min": "min"}),
    "clip": Namesake("jax.numpy.clip", _CLIP),
    "complex": Namesake("jax.lax.complex"),
    "conj_physical": Namesake("jax.numpy.conjugate"),
    "copysign": Namesake("jax.numpy.copysign", {"other": ""}),
    "cummax": Namesake("jax.lax.cummax", {"dim": "axis"}),
    "cummin": Namesake("jax.lax.cummin", {"dim": "axis"}),
    "div": Namesake("jax.numpy.true_divide"),
    "gelu": Namesake("jax.nn.gelu", fixed={"approximate": False}),
    "ger": Namesake("jax.numpy.outer"),
    "hardsigmoid": Namesake("jax.nn.hard_sigmoid"),
    "hardswish": Namesake("jax.nn.hard_swish"),
    "hardtanh": Namesake("jax.nn.hard_tanh"),
    "igamma": Namesake("jax.scipy.special.gammainc"),
    "igammac": Namesake("jax.scipy.special.gammaincc"),
    "inverse": Namesake("jax.numpy.linalg.inv"),
    "lgamma": Namesake("jax.scipy.special.gammaln"),
    "log_sigmoid_forward": Namesake("jax.nn.log_sigmoid"),
    "logsigmoid": Namesake("jax.nn.log_sigmoid"),
    "max.other": Namesake("jax.numpy.maximum"),
    "min.other": Namesake("jax.numpy.minimum"),
    "mm": Namesake("jax.numpy.matmul"),
    "mul": Namesake("jax.numpy.multiply"),
    "mv": Namesake("jax.numpy.matmul"),
    "mvlgamma": Namesake("jax.scipy.special.multigammaln", {"p": "d"}),
    "neg": Namesake("jax.numpy.negative"),
    "norm": Namesake("jax.numpy.linalg.norm", {"p": "ord"}),
    "pow": Namesake("jax.numpy.power", {"exponent": ""}),
    "rsqrt": Namesake("jax.lax.rsqrt"),
    "sgn": Namesake("jax.numpy.sign"),
    "sub": Namesake("jax.numpy.subtract"),
    "topk": Namesake("jax.lax.top_k", {"k": "k"}),
    "xlog1py": Namesake("jax.scipy.special.xlog1py", {"other": "", "self": FIRST}),
    "xlogy": Namesake("jax.scipy.special.xlogy", {"other": "", "self": FIRST}),
}


def namesake(name: str) -> Namesake | None:
    """JAX's function for a name of PyTorch's: ``clamp``, ``special_i0``, ``linalg_det``, ``max.other``."""
    if name in _TABLE:
        return _TABLE[name]
    name = name.partition(".")[0]
    short = name.removeprefix("special_").removeprefix("linalg_")
    if name in _TABLE or short in _TABLE:
        return _TABLE.get(name) or _TABLE[short]
    for library in _LIBRARIES:
        function = getattr(importlib.import_module(library), short, None)
        if callable(function) and not inspect.isclass(function):
            return Namesake(f"{library}.{short}")
    return None


def namesake_of(function: Callable) -> tuple[str, Callable] | None:
    """JAX's function for one of torchlike's public functions, with its name; keywords of a partial come along."""
    keywords = function.keywords if isinstance(function, partial) and not function.args else {}
    inner = function.func if isinstance(function, partial) else function
    module, name = getattr(inner, "__module__", None), getattr(inner, "__name__", None)
    own = isinstance(module, str) and module.partition(".")[0] == __name__.partition(".")[0]
    if not own or not isinstance(name, str) or name == "<lambda>" or (isinstance(function, partial) and function.args):
        return None
    found = namesake(name)
    return None if found is None else (found.name, partial(found.call, **keywords))


def pulled(function: Callable, values: Sequence[Any]) -> tuple[list, list]:
    """(results, gradients of their sum as JAX gives them) of a function of arrays."""
    results, pull = jax.vjp(lambda *xs: as_tuple(function(*xs)), *values)
    gradients = pull(tuple(jax.numpy.ones_like(r) for r in results))
    return [np.asarray(r) for r in results], [np.asarray(g) for g in gradients]


def alike(a: Any, b: Any) -> bool:
    """Whether two arrays have the same shape and, but for rounding, values."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-5, atol=1e-12, equal_nan=True))
