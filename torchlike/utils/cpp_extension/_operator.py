"""Operators made of the functions of a C++ extension."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base.dtypes import from_np
from torchlike._base.state import state
from torchlike._core.tensor.tensor import Tensor, wrap
from torchlike._decl.op import Op, op
from torchlike._decl.rules import undefined
from torchlike._decl.schema import Arg, Schema, SchemaError
from torchlike.utils.cpp_extension._signature import Parameter, Signature

# The name of an argument that the results are like, one for each result, or a function of the arguments.
Rule = str | Sequence[str] | Callable[..., Any] | None


class Function(NamedTuple):
    """One function of an extension.

    Attributes:
        name, namespace, doc: what users see. target: its name in XLA's registry.
        schema, signature: what it takes and gives, as Python and as C++ see it.
        rule: how the results' shapes and dtypes come of the arguments. vmap_method: see jax.ffi.ffi_call.
    """

    name: str
    namespace: str
    doc: str
    target: str
    schema: Schema
    signature: Signature
    rule: Rule
    vmap_method: str


def declared(function: Function, namespace: str) -> Op:
    """The operator of ``function``; ``namespace`` tells it from others of its name."""
    args, takes = function.schema.args, function.signature.arguments
    buffers = [i for i, a in enumerate(args) if (a.is_tensor if takes is None else takes[i].kind == "buffer")]
    tensors = [a.name for a in args if a.is_tensor]
    error = _no_derivative(function)
    _demand_rule(function)

    def kernel(*values):
        operands = [_operand(function, i, values[i]) for i in buffers]
        attributes = dict(_attribute(function, i, values[i]) for i in range(len(args)) if i not in buffers)
        specs = _result_specs(function, values)
        invoke = jax.ffi.ffi_call(function.target, specs, vmap_method=function.vmap_method)
        out = _underivable(lambda *arrays: invoke(*arrays, **attributes), error)(*operands)
        return out[0] if len(out) == 1 else tuple(out)

    return op(
        function.schema.text,
        vjp={", ".join(tensors): undefined(error)} if tensors else {},
        static=" ".join(a.name for i, a in enumerate(args) if i not in buffers),
        runtime=" ".join(args[i].name for i in buffers),
        variants="function",
        namespace=namespace,
    )(_with_names(kernel, [a.name for a in args]))


def _with_names(kernel: Callable, names: list[str]) -> Callable:
    """``kernel`` as a function whose parameters have these names, which a declaration reads."""
    listed = ", ".join(names)
    return eval(f"lambda {listed}: kernel({listed})", {"kernel": kernel, "__name__": __name__})


def _no_derivative(function: Function) -> RuntimeError:
    return RuntimeError(
        f"{function.name}(): a C++ function has no derivative of its own, and one was asked for; register it with "
        f"torch.library.register_autograd('{function.namespace}::{function.name}', backward), write a "
        "torch.autograd.Function whose forward calls the function, or detach the arguments"
    )


def _underivable(call: Callable, error: Exception) -> Callable:
    """``call``, whose derivative by jax raises ``error``."""
    guarded = jax.custom_jvp(call)

    @guarded.defjvp
    def refuse(primals, tangents):
        raise type(error)(*error.args)

    return guarded


def _operand(function: Function, i: int, value: Any) -> Any:
    """The array for a buffer, whose dtype and rank are what the C++ function declares."""
    arg, p = function.schema.args[i], function.signature.arguments and function.signature.arguments[i]
    if not p:
        return value
    if not arg.is_tensor:
        return jnp.asarray(value, p.dtype)
    if p.dtype is not None and value.dtype != p.dtype:
        expected, got = from_np(p.dtype), from_np(value.dtype)
        raise RuntimeError(
            f"expected scalar type {expected.scalar_name} but found {got.scalar_name}: {function.name}(): argument "
            f"'{arg.name}' must be {expected}, as its C++ function declares, not {got}; convert it with .to({expected})"
        )
    if p.rank is not None and value.ndim != p.rank:
        raise RuntimeError(
            f"{function.name}(): argument '{arg.name}' must have {p.rank} dimensions, as its C++ function declares, "
            f"not the shape {list(value.shape)}"
        )
    return value


_PLAIN = {"int": np.int64, "SymInt": np.int64, "float": np.float64, "bool": np.bool_}


def _attribute(function: Function, i: int, value: Any) -> tuple[str, Any]:
    """The name and value of an attribute of the FFI call; a schema's float is a double, its int an int64_t."""
    arg, p = function.schema.args[i], function.signature.arguments and function.signature.arguments[i]
    name = p.name if p else arg.name
    if arg.kind == "str":
        return name, str(value)
    dtype = p.dtype if p else _PLAIN[arg.kind]
    try:
        if not arg.is_list:
            return name, np.dtype(dtype).type(value)
        if any(isinstance(v, float) for v in value) and arg.kind == "int":
            raise TypeError(f"{function.name}(): argument '{arg.name}' must be tuple of ints, not {value}")
        return name, np.array(value, dtype)
    except OverflowError:
        raise RuntimeError(
            f"{function.name}(): argument '{arg.name}' cannot be converted to {np.dtype(dtype)} without overflow: "
            f"{value}"
        ) from None


# -- results ---------------------------------------------------------------------------------------


def _demand_rule(function: Function) -> None:
    """The names in the rule are those of tensor arguments, and there is one for each result."""
    rule, schema = function.rule, function.schema
    if rule is None or callable(rule):
        return
    names = (rule,) if isinstance(rule, str) else tuple(rule)
    tensors = [a.name for a in schema.args if a.is_tensor]
    if len(names) != len(schema.returns) or not set(names) <= set(tensors):
        raise SchemaError(
            f"{function.name}: results={rule!r}: expected a function of the arguments, or for each of the "
            f"{len(schema.returns)} results the name of a tensor argument that it is like: one of {tensors}"
        )


def _result_specs(function: Function, values: Sequence[Any]) -> list[jax.ShapeDtypeStruct]:
    """Shapes and dtypes of the results, checked against what the C++ function declares."""
    declared = function.signature.results or (None,) * len(function.schema.returns)
    specs = []
    for i, (x, p) in enumerate(zip(_ruled(function, values), declared, strict=True)):
        if p is not None and p.rank is not None and len(x.shape) != p.rank:
            raise RuntimeError(
                f"{function.name}(): result {i} must have {p.rank} dimensions, as its C++ function declares, but has "
                f"the shape {list(x.shape)}; state it with results={{{function.name!r}: function of the arguments}}"
            )
        specs.append(jax.ShapeDtypeStruct(x.shape, _dtype(function, i, x, p)))
    return specs


def _dtype(function: Function, i: int, x: Any, p: Parameter | None) -> np.dtype:
    """The dtype of a result: the declared one; a function that gives another contradicts it."""
    if p is None or p.dtype is None:
        return x.dtype
    if callable(function.rule) and x.dtype != p.dtype:
        raise RuntimeError(
            f"{function.name}(): result {i} is {from_np(x.dtype)} by results={{{function.name!r}: ...}}, but "
            f"{from_np(p.dtype)} in its C++ function"
        )
    return p.dtype


def _ruled(function: Function, values: Sequence[Any]) -> list[Any]:
    """Something with the shape and dtype of each result."""
    rule, args = function.rule, function.schema.args
    count = len(function.schema.returns)
    if callable(rule):
        return _inferred(function, rule, values)
    given = {a.name: v for a, v in zip(args, values, strict=True) if a.is_tensor}
    if rule is not None:
        return [given[name] for name in ((rule,) if isinstance(rule, str) else rule)]
    shapes = {tuple(v.shape) for v in given.values()}
    if len(shapes) != 1:
        raise RuntimeError(
            f"{function.name}(): the shape of the result is not known, since the tensors are of shapes "
            f"{[list(v.shape) for v in given.values()]}; state it with results={{{function.name!r}: rule}}, where the "
            "rule is the name of an argument or a function of the arguments that returns a tensor like the result"
        )
    return [next(iter(given.values()))] * count


def _inferred(function: Function, rule: Callable, values: Sequence[Any]) -> list[Any]:
    """What the user's function gives for meta tensors in place of the tensors."""
    with _aside():
        out = rule(*(_stand_in(a, v) for a, v in zip(function.schema.args, values, strict=True)))
    found = list(out) if isinstance(out, tuple | list) else [out]
    if len(found) != len(function.schema.returns) or not all(isinstance(t, Tensor) for t in found):
        kinds = ", ".join(type(t).__name__ for t in found)
        raise TypeError(
            f"{function.name}(): the function of results={{{function.name!r}: ...}} returned ({kinds}); expected "
            f"{len(function.schema.returns)} tensors"
        )
    return [jax.ShapeDtypeStruct(tuple(t.shape), t.dtype.np) for t in found]


def _stand_in(arg: Arg, value: Any) -> Any:
    return wrap(jax.ShapeDtypeStruct(value.shape, value.dtype)) if arg.is_tensor else value


_FLAGS = (
    "active",
    "grad",
    "capture",
    "recorder",
    "selective",
    "inference",
    "function_modes",
    "dispatch_modes",
    "levels",
)


@contextlib.contextmanager
def _aside() -> Iterator[None]:
    """Run torchlike code while a kernel is traced: nothing outside, modes and recorders, learns of it."""
    before = {flag: getattr(state, flag) for flag in _FLAGS}
    state.active, state.grad, state.inference = 0, False, False
    state.capture = state.recorder = state.selective = None
    state.function_modes = state.dispatch_modes = state.levels = ()
    try:
        yield
    finally:
        for flag, value in before.items():
            setattr(state, flag, value)
