"""The public front of operators, generated from their schemas.

For each operator name there is one Python function with PyTorch's signature; its source checks the
static arguments inline and hands over to dispatch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import torchlike._base.dtypes as dtypes
from torchlike._core.conversion.numbers import REAL, demand_held
from torchlike._core.dispatch.dispatch import call, call_taken, straight
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.dispatch.out import call_out
from torchlike._core.dispatch.view_calls import call_view
from torchlike._core.overrides import torch_function
from torchlike._core.tensor import arguments as convert
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor, wrap
from torchlike._decl.op import ViewOp, exact
from torchlike._decl.tells import TELLS

if TYPE_CHECKING:
    from torchlike._core.typed import Inputs
    from torchlike._decl.derive import Kernel
    from torchlike._decl.op import Op
    from torchlike._decl.schema import Arg
    from torchlike._decl.typed import Static


def _check(arg: Arg, form: str, strict: bool, op: Op, env: dict[str, Any]) -> list[str]:
    """Source lines that make the argument what the kernel expects."""
    n = arg.name
    guard = f"{n} is not None and " if arg.optional or (arg.has_default and arg.default is None) else ""
    if arg.is_tensor:
        if arg.is_list:
            return [f"if {guard}{n}.__class__ is not tuple: {n} = as_tensors(NAME, '{n}', {n})"]
        if strict:
            return [
                f"if {guard}{n}.__class__ is not Tensor: {'as_operand' if n in op.numbers else 'as_tensor_arg'}(NAME, "
                f"'{n}', {n})"
            ]
        return []
    if arg.is_list:
        if arg.kind == "int":
            converter = "as_ints"
            if arg.length:
                converter = f"as_ints_{arg.length}"
                env[converter] = convert.as_ints_or_int(arg.length)
            empty = f"() if {n} is None else " if arg.has_default and arg.default in ((), []) and not guard else ""
            return [f"if {guard[:-5] or 'True'}: {n} = {empty}{converter}(NAME, '{n}', {n})"]
        converter = "as_floats" if arg.kind == "float" else "as_numbers"
        return [f"if {guard[:-5] or 'True'}: {n} = {converter}(NAME, '{n}', {n})"]
    plain = {
        "int": ("int", "as_int"),
        "bool": ("bool", "as_bool"),
        "dtype": ("dtype", "as_dtype"),
        "str": ("str", "as_str"),
    }
    if arg.kind in plain:
        cls, converter = plain[arg.kind]
        return [f"if {guard}{n}.__class__ is not {cls}: {n} = {converter}(NAME, '{n}', {n})"]
    if arg.kind == "float" and arg in op.static:
        return [f"if {guard}{n}.__class__ is not float: {n} = as_float(NAME, '{n}', {n})"]
    if arg.kind in ("Scalar", "float"):
        converted = f"{'as_number' if arg in op.static else 'as_runtime_number'}(NAME, '{n}', {n})"
        return [f"if {guard}{n}.__class__ is not float and {n}.__class__ is not int: {n} = {converted}"]
    return []


def _runtime(arg: Arg, env: dict[str, Any]) -> str:
    """How a runtime argument is handed over; a number equal to its default is left to the kernel."""
    if arg.is_tensor or not arg.has_default:
        return arg.name
    env[f"_d_{arg.name}"] = arg.default
    return f"None if {arg.name} is _d_{arg.name} else {arg.name}"


def _handover(op: Op, env: dict[str, Any]) -> tuple[str, str]:
    if isinstance(op, ViewOp):
        args = [a.name for a in op.schema.args[1:]]
        return "(self,)", f"({''.join(a + ', ' for a in args)})"
    if op.lists:
        inputs, lens = [], []
        for arg in op.dynamic:
            if arg.is_list:
                inputs.append(f"*({arg.name} or ())" if arg.optional else f"*{arg.name}")
                lens.append(f"-1 if {arg.name} is None else len({arg.name})" if arg.optional else f"len({arg.name})")
            else:
                inputs.append(_runtime(arg, env))
        extra = f"({', '.join(lens)},), "
    else:
        inputs, extra = [_runtime(a, env) for a in op.dynamic], ""
    static = "".join(a.name + ", " for a in op.static)
    exact = "".join(_exact(a) for a in op.static if a.name in op.inexact)
    return f"({''.join(i + ', ' for i in inputs)})", f"({static}{extra}{exact})"


def _held(op: Op, inputs: str) -> list[str]:
    """Source lines that hand over numbers that the dtype may not hold, see ``demand_held``."""
    numbers = [(op.dynamic[at].name, 0 if "negative" in words else -127) for at, words in op.held]
    tests = [f"(not {low} <= {n} <= 127 if {n}.__class__ in REAL else {n}.__class__ is complex)" for n, low in numbers]
    return [f"if {' or '.join(tests)}: demand_held(OP, {inputs})"] if tests else []


def _exact(arg: Arg) -> str:
    """Source of ``exact`` of an argument: 3 and 3.0 are one key of a dict, and two calls."""
    return f"exact({arg.name}), " if arg.is_list else f"{arg.name}.__class__ if {arg.name} else repr({arg.name}), "


_NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}  # numpy's names, which PyTorch takes too
_UNSET = object()


def _parameters(op: Op, env: dict[str, Any], varargs: str | None, receiver: str) -> tuple[list[str], bool, list[str]]:
    """The signature and the lines that gather what was given in other forms (ints one by one, numpy's names)."""
    parts, star, lines, others = [], False, [], []
    args = op.schema.args
    for i, arg in enumerate(args):
        if arg.kwarg_only and not star:
            parts.append("*")
            star = True
        if i == 0 and arg.name == "self":
            parts.append(receiver)
            if receiver != "self":
                lines.append(f"self = {receiver}")
        elif arg.name == varargs:
            parts.append(f"*_args, {arg.name}=None")
            star = True
            lines += [
                f"if {arg.name} is None:",
                *([] if arg.has_default else [f"    if not _args: demand_given(NAME, '{arg.name}', _args)"]),
                f"    {arg.name} = _args[0] if len(_args) == 1 and _args[0].__class__ in _LISTS else _args",
                f"elif _args: demand_once(NAME, '{arg.name}', _args)",
            ]
        elif arg.name in _NUMPY_NAMES and all(a.has_default for a in args[i + 1 :]):
            others.append(arg)
            env[f"_d_{arg.name}"] = arg.default if arg.has_default else _UNSET
            parts.append(f"{arg.name}=_d_{arg.name}")
        elif arg.has_default:
            env[f"_d_{arg.name}"] = arg.default
            parts.append(f"{arg.name}=_d_{arg.name}")
        else:
            parts.append(arg.name)
    for arg in others:
        name, numpy_name = arg.name, _NUMPY_NAMES[arg.name]
        parts += [f"{numpy_name}=_UNSET"] if star else ["*", f"{numpy_name}=_UNSET"]
        star = True
        given = f"{numpy_name} if {name} is _d_{name} else _twice(NAME, '{name}', '{numpy_name}')"
        lines.append(f"if {numpy_name} is not _UNSET: {name} = {given}")
        if not arg.has_default:
            lines.append(f"if {name} is _UNSET: raise TypeError(NAME + \"() missing 1 required argument: '{name}'\")")
    return parts, star, lines


def _twice(function: str, name: str, numpy_name: str) -> NoReturn:
    raise TypeError(f"{function}() got an argument twice: as '{name}' and as '{numpy_name}', numpy's name of it")


_ENV = {
    "Tensor": Tensor, "call": call, "call_taken": call_taken,
    "call_inplace": call_inplace, "call_out": call_out, "call_view": call_view,
    "dtype": dtypes.dtype, "_UNSET": _UNSET, "_LISTS": frozenset((list, tuple, Size)),
    "exact": exact, "_twice": _twice, "REAL": REAL, "demand_held": demand_held,
    "demand_given": convert.demand_given, "demand_once": convert.demand_once,
    **{n: getattr(convert, n) for n in dir(convert) if n.startswith("as_")},
}  # fmt: skip


def _varargs(op: Op, form: str) -> str | None:
    """The int[] argument that a method takes as separate ints: its only positional one."""
    positional = [a for a in op.schema.args[1:] if not a.kwarg_only]
    ints = len(positional) == 1 and positional[0].kind == "int" and positional[0].type.endswith("[]")
    if form != "function" and ints:
        return positional[0].name
    return None


def _source(op: Op, form: str, strict: bool, env: dict[str, Any]) -> str:
    """Source of the front of one overload in one form; the names it uses are put into ``env``."""
    env.update(_ENV)
    env["OP"] = op.inplace if form == "inplace" else op
    env["NAME"] = op.schema.name + ("_" if form == "inplace" else "")
    receiver = "self" if form != "function" or op.schema.args[0].name != "self" else "input"
    parts, star, lines = _parameters(op, env, _varargs(op, form), receiver)
    has_out = form == "function" and "out" in op.variants
    if has_out:
        parts += ["out=None"] if star else ["*", "out=None"]
    checks = [line for arg in op.schema.args for line in _check(arg, form, strict, op, env)]
    lines += checks
    inputs, static = _handover(op, env)
    lines += _held(op, inputs)
    runner = "call_view" if isinstance(op, ViewOp) else "call_inplace" if form == "inplace" else "call"
    runner = "call_taken" if runner == "call" and op.taken is not None else runner
    if op.full_name in TELLS:
        env["TELL"] = TELLS[op.full_name]
        lines.append(f"TELL({inputs}, *{static})")
    if strict:
        lines.append(f"return {runner}, OP, {inputs}, {static}, {'out' if has_out else None}")
    else:
        if has_out:
            lines.append(f"if out is not None: return call_out(OP, {inputs}, {static}, out)")
        lines.append(f"return {runner}(OP, {inputs}, {static})")
    return f"def front({', '.join(parts)}):\n    " + "\n    ".join(lines)


def _compiled(op: Op, form: str, strict: bool, env: dict[str, Any]) -> Callable[..., Any]:
    """The front as a function whose globals are ``env``."""
    source = compile(_source(op, form, strict, env), f"<torchlike front of {op.full_name}>", "exec")
    env.setdefault("__name__", __name__)  # captures know by it whose code this is
    exec(source, env)
    made = env.pop("front")
    made.__qualname__ = _public_name(op, form)  # what Python's own errors about arguments say
    return made


def _public_name(op: Op, form: str) -> str:
    return op.schema.name + ("_" if form == "inplace" else "")


def overload_front(op: Op) -> Callable[..., Any]:
    """The front of one overload under the schema's own argument names."""
    return _compiled(op, "method", False, {})


def front(ops: Sequence[Op], form: str) -> Any:
    """The public function of all overloads of one name in one form ('function', 'method', 'inplace').

    Compiling hundreds of fronts would take a good part of the import: each is compiled at its first call.
    """
    function = torch_function.DOORS.lazily(_behind, ops, form)
    name = _public_name(ops[0], form)
    function.__name__ = name
    function.__qualname__ = name if form == "function" else f"Tensor.{name}"
    function.__module__ = __name__.partition(".")[0]  # where a pickle finds it
    function.__doc__ = ops[0].kernel.__doc__ or f"{name}: as PyTorch's. Schema: {ops[0].schema.text}"
    return function


def _behind(ops: Sequence[Op], form: str) -> Callable[..., Any]:
    return _overloaded(ops, form) if len(ops) > 1 else _compiled(ops[0], form, False, {})


def _overloaded(ops: Sequence[Op], form: str) -> Callable[..., Any]:
    """The front of an operator with several overloads: each is tried in the order of declaration."""
    binders = [_compiled(op, form, True, {}) for op in ops]
    name = ops[0].schema.name
    of_one = _of_one(binders)

    def overloaded(*args: Any, **kwargs: Any) -> Any:
        if of_one is not None and not kwargs and len(args) == 1 and args[0].__class__ is Tensor:
            return of_one(args[0])
        for bind in binders:
            try:
                run, op, inputs, static, out = bind(*args, **kwargs)
            except TypeError:
                continue
            return run(op, inputs, static) if out is None else call_out(op, inputs, static, out)
        plausible = [op for op in ops if _takes_as_many(op, len(args) + len(kwargs))]
        if len(plausible) == 1:
            _demand_tensors(plausible[0], args, kwargs)
        given = [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
        schemas = "\n".join(f" * {op.schema}" for op in ops)
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({', '.join(given)}), "
            f"but expected one of:\n{schemas}"
        )

    return overloaded


def _of_one(binders: Sequence[Callable[..., Any]]) -> Callable[[Tensor], Any] | None:
    """A call with one tensor alone; None where no overload takes that, or what it makes of it depends on the tensor."""
    probe = wrap(None)
    for bind in binders:
        try:
            run, op, inputs, static, _ = bind(probe)
        except TypeError:
            continue
        except Exception:  # it looks into the tensor
            return None
        if run is not call or inputs[0] is not probe or any([x is not None for x in inputs[1:]]):
            return None
        return straight(op, 1, static, partial(_with_one, op, inputs[1:], static))
    return None


def _with_one(op: Kernel, others: Inputs, static: Static, t: Tensor) -> Any:
    return call(op, (t, *others), static)


def _takes_as_many(op: Op, n: int) -> bool:
    """Whether a call with ``n`` arguments may be of this overload."""
    required = sum([not a.has_default for a in op.schema.args])
    return required <= n <= len(op.schema.args) + ("out" in op.variants)


def _demand_tensors(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse the first argument of the one overload that a call may be of, if it is no tensor."""
    for i, arg in enumerate(op.schema.args):
        name = arg.public_name
        position = i if i < len(args) else None
        x = kwargs.get(name, kwargs.get(arg.name, _UNSET)) if position is None else args[i]
        if not arg.is_tensor or arg.is_list or x is _UNSET or (x is None and arg.optional):
            continue
        try:
            (convert.as_operand if arg.name in op.numbers else convert.as_tensor_arg)(op.schema.name, name, x)
        except TypeError:
            raise convert.no_tensor(op.schema.name, name, position, x) from None
