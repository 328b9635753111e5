"""A jaxpr as aten calls, primitive by primitive: how a derivative that jax made is shown to a ``__torch_dispatch__``.

Values are tensors, or Python numbers where a jaxpr has scalars that no tensor went into. What aten operators do
themselves, broadcasting and promotion, is put off (:class:`Spread`, :class:`Cast`) until something else needs it.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from torchlike._aten.lower import Later, redispatch, viewable
from torchlike._aten.packets import ops
from torchlike._aten.python_dispatch import without_dispatch
from torchlike._base.dtypes import FROM_NP
from torchlike._base.jaxprs import Literal
from torchlike._base.state import state
from torchlike._core.tensor.tensor import contiguous_format, strided, wrap

_aten = ops.aten
# Primitives whose results are tensors even of numbers.
_SHAPED = frozenset("broadcast_in_dim iota reshape concatenate stack pad word convert_element_type copy".split())
RULES: dict[str, Callable] = {}  # by primitive: (equation, values) -> the result, or the results
CHECKS: dict[str, Callable] = {}  # by primitive: whether an equation is one that its rule knows
FUNCTIONS: dict[str, Callable] = {}  # by the name of a jitted function of jax that is an operator of aten


class Cast:
    """A tensor on its way to another dtype."""

    __slots__ = ("source", "dtype", "made")

    def __init__(self, source: Any, dtype: np.dtype) -> None:
        self.source, self.dtype, self.made = source, dtype, None

    def make(self) -> Any:
        kind = FROM_NP[self.dtype]
        if self.source.dtype.is_complex and not kind.is_complex:
            return whole(cast(real_or_imaginary(self.source, 0), self.dtype))
        return redispatch(_aten._to_copy.default, self.source, dtype=kind, layout=strided, device=self.source.device)


class Spread:
    """A number, or a value whose dimensions ``dims`` are those of a larger shape."""

    __slots__ = ("source", "shape", "dims", "dtype", "made")

    def __init__(self, source: Any, shape: tuple, dims: tuple, dtype: np.dtype) -> None:
        self.source, self.shape, self.dims, self.dtype, self.made = source, shape, dims, dtype, None

    def make(self) -> Any:
        if is_number(self.source):
            kind = FROM_NP[self.dtype]
            return redispatch(_aten.full.default, list(self.shape), bare(self.source), dtype=kind, pin_memory=False)
        got = self.aligned()
        return got if tuple(got.shape) == self.shape else redispatch(_aten.expand.default, got, list(self.shape))

    def aligned(self) -> Any:
        """The source with dimensions of length 1 where the shape has others, but for those before its own."""
        got, lead = whole(self.source), self.dims[0] if self.dims else len(self.shape)
        for i in range(lead, len(self.shape)):
            if i not in self.dims:
                got = redispatch(_aten.unsqueeze.default, got, i - lead)
        if self.dims and all(n == 1 for n in self.shape[:lead]):
            for _ in range(lead):
                got = redispatch(_aten.unsqueeze.default, got, 0)
        return got


def whole(x: Any) -> Any:
    """A value as a tensor (a number stays one)."""
    if isinstance(x, Cast | Spread):
        if x.made is None:
            x.made = x.make()
        return x.made
    return x


def is_number(x: Any) -> bool:
    return isinstance(x, bool | int | float | complex)


def cast(x: Any, dtype: np.dtype) -> Any:
    """A value in another dtype."""
    if is_number(x):
        got = {"b": bool, "i": int, "u": int}.get(dtype.kind, lambda x: x)(x)  # integers stay what they are
        return wrapped(got) if isinstance(x, Wrapped) else got
    if isinstance(x, Spread):
        return Spread(cast(x.source, dtype), x.shape, x.dims, dtype)
    x = whole(x)
    return x if x.dtype.np == dtype else Cast(x, dtype)


# -- running ---------------------------------------------------------------------------------------------------------


def missing(jaxpr: Any) -> set[str]:
    """The primitives of a jaxpr that have no aten counterpart."""
    found: set[str] = set()
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        inner = _inner(eqn)
        if eqn.params.get("name") in FUNCTIONS:
            continue
        if inner is not None:
            found |= missing(getattr(inner, "jaxpr", inner))
        elif name not in RULES or not CHECKS.get(name, lambda eqn: True)(eqn):
            found.add(name)
    return found


_CALLS = frozenset(
    "jit pjit closed_call core_call custom_jvp_call custom_vjp_call remat checkpoint later unseen".split()
)


def _inner(eqn: Any) -> Any:
    """The jaxpr that an equation calls."""
    if eqn.primitive.name not in _CALLS:
        return None
    return eqn.params.get("jaxpr", eqn.params.get("call_jaxpr", eqn.params.get("fun_jaxpr")))


def run(closed: Any, inputs: Any) -> list:
    """The results of a jaxpr on tensors and numbers, each equation as its aten calls."""
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.constvars, map(_constant, closed.consts), strict=True))
    values |= zip(jaxpr.invars, inputs, strict=True)

    def read(atom: Any) -> Any:
        return _constant(atom.val) if isinstance(atom, Literal) else values[atom]

    for eqn in jaxpr.eqns:
        got = _equation(eqn, [read(a) for a in eqn.invars])
        values |= zip(eqn.outvars, got, strict=True)
    return [read(a) for a in jaxpr.outvars]


def _constant(x: Any) -> Any:
    return np.asarray(x).item() if not np.ndim(x) else constant(x)


def constant(value: Any) -> Any:
    """A tensor of a value that follows from shapes alone."""
    value = value if isinstance(value, jax.Array) else jax.device_put(np.asarray(value))
    return wrap(value) if state.trace is None else state.trace.known(wrap(value))


class Wrapped:
    """A number that stands where the operator takes a tensor."""


class _Int(Wrapped, int):
    pass


class _Float(Wrapped, float):
    pass


class _Complex(Wrapped, complex):
    pass


def wrapped(x: Any) -> Any:
    """A number, marked as one in a tensor's place."""
    kind = {int: _Int, float: _Float, complex: _Complex}.get(type(x))
    return x if kind is None else kind(x)


def bare(x: Any) -> Any:
    return _PLAIN[type(x)](x) if isinstance(x, Wrapped) else x


_PLAIN = {_Int: int, _Float: float, _Complex: complex}


def _equation(eqn: Any, args: list) -> list:
    for place, given in enumerate(args):
        if given is None:  # what a handler returned in a tensor's place
            raise RuntimeError(
                f"Expected a proper Tensor but got None (or an undefined Tensor in C++) for argument #{place} of the "
                f"backward's {eqn.primitive.name}: a __torch_dispatch__ returned None for a result that is needed"
            )
    inner = _inner(eqn)
    if inner is not None and eqn.params.get("name") in FUNCTIONS and not any(map(is_number, args)):
        return [FUNCTIONS[eqn.params["name"]](*args)]
    if eqn.primitive.name == "later":
        given = [whole(a) for a in args]
        return [Later(lambda: whole(run(inner, given)[0]), eqn.params["rank"])]
    if eqn.primitive.name == "unseen":
        with without_dispatch() if state.trace is None else state.trace.recalling():
            return [whole(x) for x in run(inner, [whole(a) for a in args])]
    if inner is not None:
        return run(inner if hasattr(inner, "jaxpr") else _Closed(inner), args)
    if eqn.primitive.name not in _SHAPED and all(is_number(a) for a in args):
        return _folded(eqn, args)
    eqn = eqn.replace(params={name: _plain(x) for name, x in eqn.params.items()})
    rule = RULES.get(eqn.primitive.name)
    if rule is None:
        raise NotImplementedError(
            f"__torch_dispatch__ cannot be shown jax's {eqn.primitive.name}: no aten call is that"
        )
    out = rule(eqn, *args)
    return list(out) if eqn.primitive.multiple_results else [out]


def _plain(x: Any) -> Any:
    """A parameter with numpy's integers as Python's, which graphs keep."""
    if type(x) in (tuple, list):
        return type(x)(map(_plain, x))
    return int(x) if isinstance(x, np.integer) else x


class _Closed:
    """An open jaxpr without constants."""

    consts = ()

    def __init__(self, jaxpr: Any) -> None:
        self.jaxpr = jaxpr


def _folded(eqn: Any, args: list) -> list:
    """An equation of numbers alone."""
    values = [np.asarray(a, v.aval.dtype) for a, v in zip(args, eqn.invars, strict=True)]
    out = eqn.primitive.bind(*values, **eqn.params)
    return [o.item() for o in (out if eqn.primitive.multiple_results else [out])]


def real_or_imaginary(x: Any, i: int) -> Any:
    """The real part of a complex tensor (0), or the imaginary one (1)."""
    mirrored = x.is_conj()  # which view_as_real does not read
    x = redispatch(_aten._conj.default, x) if mirrored else x
    part = redispatch(_aten.select.int, redispatch(_aten.view_as_real.default, x), -1, i)
    return redispatch(_aten.neg.default, part) if mirrored and i else part


def reshaped(x: Any, shape: list) -> Any:
    """``x.reshape(shape)``: a view where there is one."""
    if viewable(x, shape):
        return redispatch(_aten.view.default, x, shape)
    return redispatch(
        _aten._unsafe_view.default, redispatch(_aten.clone.default, x, memory_format=contiguous_format), shape
    )
