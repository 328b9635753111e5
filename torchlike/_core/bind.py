"""The public front of operators, generated from their schemas.

For each operator name there is one Python function with PyTorch's signature; its source checks the
static arguments inline and hands over to dispatch. Names with several overloads try each in the
order of declaration.
"""

from torchlike._core import arguments as convert
from torchlike._core.dispatch import call
from torchlike._core.inplace import call_inplace
from torchlike._core.out import call_out
from torchlike._core.tensor import Tensor
from torchlike._core.viewing import call_view
from torchlike._decl.op import REGISTRY, Op, ViewOp

FUNCTIONS: dict = {}  # public name -> generated function
_PYTHON = {"function": "input", "method": "self"}


def _check(arg, strict, numbers, env):
    """Source lines that make the argument what the kernel expects."""
    n = arg.name
    guard = f"{n} is not None and " if arg.optional or (arg.has_default and arg.default is None) else ""
    if arg.is_tensor:
        if arg.is_list:
            return [f"if {guard}{n}.__class__ is not tuple: {n} = as_tensors(NAME, '{n}', {n})"]
        if strict:
            return [
                f"if {guard}{n}.__class__ is not Tensor: {'as_operand' if numbers else 'as_tensor_arg'}(NAME, "
                f"'{n}', {n})"
            ]
        return []
    if arg.is_list:
        if arg.kind == "int":
            converter = "as_ints"
            if arg.length:
                converter = f"as_ints_{arg.length}"
                env[converter] = convert.as_ints_or_int(arg.length)
            return [f"if {guard[:-5] or 'True'}: {n} = {converter}(NAME, '{n}', {n})"]
        return [f"if {guard[:-5] or 'True'}: {n} = as_numbers(NAME, '{n}', {n})"]
    plain = {
        "int": ("int", "as_int"),
        "bool": ("bool", "as_bool"),
        "dtype": ("dtype", "as_dtype"),
        "str": ("str", "as_str"),
    }
    if arg.kind in plain:
        cls, converter = plain[arg.kind]
        return [f"if {guard}{n}.__class__ is not {cls}: {n} = {converter}(NAME, '{n}', {n})"]
    if arg.kind in ("Scalar", "float"):
        return [
            f"if {guard}{n}.__class__ is not float and {n}.__class__ is not int: {n} = as_number(NAME, '{n}', {n})"
        ]
    return []


def _runtime(arg, env):
    """How a runtime argument is handed over; a number equal to its default is left to the kernel."""
    if arg.is_tensor or not arg.has_default:
        return arg.name
    env[f"_d_{arg.name}"] = arg.default
    return f"None if {arg.name} is _d_{arg.name} else {arg.name}"


def _handover(op, env):
    if isinstance(op, ViewOp):
        args = [a.name for a in op.schema.args[1:]]
        return "(self,)", f"({''.join(a + ', ' for a in args)})"
    if op.lists:
        inputs, lens = [], []
        for arg in op.dynamic:
            if arg.is_list:
                inputs.append(f"*({arg.name} or ())" if arg.optional else f"*{arg.name}")
                lens.append(
                    f"-1 if {arg.name} is None else len({arg.name})" if arg.optional else f"len({arg.name})"
                )
            else:
                inputs.append(_runtime(arg, env))
        extra = f"({', '.join(lens)},), "
    else:
        inputs, extra = [_runtime(a, env) for a in op.dynamic], ""
    static = "".join(a.name + ", " for a in op.static)
    return f"({''.join(i + ', ' for i in inputs)})", f"({static}{extra})"


def _parameters(op, env, varargs, receiver):
    """The signature and, for int lists given as separate arguments, the lines that gather them."""
    parts, star, lines = [], False, []
    for i, arg in enumerate(op.schema.args):
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
                f"    {arg.name} = _args[0] if len(_args) == 1 and _args[0].__class__ in _LISTS else _args",
            ]
        elif arg.has_default:
            env[f"_d_{arg.name}"] = arg.default
            parts.append(f"{arg.name}=_d_{arg.name}")
        else:
            parts.append(arg.name)
    return parts, star, lines


class _Lists(frozenset):
    pass


_ENV = {
    "Tensor": Tensor, "call": call, "call_inplace": call_inplace, "call_out": call_out, "call_view": call_view,
    **{n: getattr(convert, n) for n in dir(convert) if n.startswith("as_")},
}  # fmt: skip


def _varargs(op, form):
    """The int[] argument that a method takes as separate ints: its only positional one."""
    positional = [a for a in op.schema.args[1:] if not a.kwarg_only]
    if form != "function" and positional and positional[0].type.endswith("int[]") and len(positional) == 1:
        return positional[0].name
    return None


def _source(op, form, strict):
    """Source of the front of one overload in one form ('function', 'method', 'inplace')."""
    from_list = op.schema.args[0].name != "self"
    env = dict(
        _ENV,
        OP=op.inplace if form == "inplace" else op,
        NAME=op.schema.name + ("_" if form == "inplace" else ""),
    )
    env["dtype"] = convert.dtypes.dtype
    import_size = (list, tuple, convert.Size)
    env["_LISTS"] = frozenset(import_size)
    receiver = "self" if form != "function" or from_list else "input"
    parts, star, lines = _parameters(op, env, _varargs(op, form), receiver)
    has_out = form == "function" and "out" in op.variants
    if has_out:
        parts += ["out=None"] if star else ["*", "out=None"]
    for arg in op.schema.args:
        lines += _check(arg, strict, arg.name in op.numbers, env)
    inputs, static = _handover(op, env)
    runner = "call_view" if isinstance(op, ViewOp) else "call_inplace" if form == "inplace" else "call"
    return env, parts, lines, inputs, static, runner, has_out


def _build(op, form, strict):
    env, parts, lines, inputs, static, runner, has_out = _source(op, form, strict)
    name = op.schema.name
    body = ["    " + line for line in lines]
    if strict:
        out = ", out" if has_out else ", None"
        body.append(f"    return {runner}, OP, {inputs}, {static}{out}")
    else:
        if has_out:
            body += ["    if out is not None:", f"        return call_out(OP, {inputs}, {static}, out)"]
        body.append(f"    return {runner}(OP, {inputs}, {static})")
    code = f"def {name}({', '.join(parts)}):\n" + "\n".join(body)
    exec(compile(code, f"<torchlike front of {op.full_name}>", "exec"), env)
    return env[name]


def front(ops, form):
    """The public function of all overloads of one name."""
    if len(ops) == 1:
        function = _build(ops[0], form, False)
    else:
        function = _overloaded(ops, form)
    name = ops[0].schema.name + ("_" if form == "inplace" else "")
    function.__name__ = name
    function.__qualname__ = ("Tensor." if form != "function" else "") + name
    function.__module__ = "torch"
    function.__doc__ = ops[
        0
    ].kernel.__doc__ or f"{name}: see PyTorch's documentation.\n\nSchemas:\n    " + "\n    ".join(
        str(op.schema) for op in ops
    )
    return function


def _overloaded(ops, form):
    binders = [_build(op, form, True) for op in ops]
    name = ops[0].schema.name

    def overloaded(*args, **kwargs):
        for bind in binders:
            try:
                run, op, inputs, static, out = bind(*args, **kwargs)
            except TypeError:
                continue
            return run(op, inputs, static) if out is None else call_out(op, inputs, static, out)
        given = ", ".join(
            [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
        )
        schemas = "\n".join(f" * {op.schema}" for op in ops)
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({given}), but expected one of:\n{schemas}"
        )

    return overloaded


_DUNDERS = {
    "+": ("__add__", "__radd__", "__iadd__"), "-": ("__sub__", None, "__isub__"),
    "*": ("__mul__", "__rmul__", "__imul__"), "/": ("__truediv__", None, "__itruediv__"),
    "//": ("__floordiv__", None, "__ifloordiv__"), "@": ("__matmul__", None, None),
    "&": ("__and__", "__rand__", "__iand__"), "|": ("__or__", "__ror__", "__ior__"),
    "^": ("__xor__", "__rxor__", "__ixor__"), "<<": ("__lshift__", None, "__ilshift__"),
    ">>": ("__rshift__", None, "__irshift__"), "==": ("__eq__", None, None), "!=": ("__ne__", None, None),
    "<": ("__lt__", None, None), "<=": ("__le__", None, None), ">": ("__gt__", None, None),
    ">=": ("__ge__", None, None), "neg": ("__neg__", None, None), "abs": ("__abs__", None, None),
    "~": ("__invert__", None, None), "**": ("__pow__", None, "__ipow__"),
}  # fmt: skip


def _binary(op, kernel, runner):
    """A Python operator: NotImplemented for what is neither a tensor nor a number."""
    tail = (None,) * (len(op.dynamic) - 2)

    def padded(self, other):
        if other.__class__ in _OPERANDS or isinstance(other, _OPERAND_TYPES):
            return runner(kernel, (self, other, *tail), ())
        return NotImplemented

    def plain(self, other):
        if other.__class__ in _OPERANDS or isinstance(other, _OPERAND_TYPES):
            return runner(kernel, (self, other), ())
        return NotImplemented

    return padded if tail else plain


_OPERAND_TYPES = (Tensor, int, float, complex, convert.np.generic)
_OPERANDS = frozenset((Tensor, int, float, bool, complex))


def _reflected(op):
    tail = (None,) * (len(op.dynamic) - 2)

    def reflected(self, other):
        if other.__class__ in _OPERANDS or isinstance(other, _OPERAND_TYPES):
            return call(op, (other, self, *tail), ())
        return NotImplemented

    return reflected


def _install_operator(op):
    normal, reflected, inplace = _DUNDERS[op.operator]
    if len(op.schema.args) == 1:
        setattr(Tensor, normal, _named(lambda self: call(op, (self,), ()), normal))
        return
    setattr(Tensor, normal, _named(_binary(op, op, call), normal))
    if reflected:
        setattr(Tensor, reflected, _named(_reflected(op), reflected))
    if inplace and op.inplace:
        setattr(Tensor, inplace, _named(_binary(op, op.inplace, call_inplace), inplace))


def _named(function, name):
    function.__name__, function.__qualname__ = name, f"Tensor.{name}"
    return function


def install():
    """Bind every declared operator: functions into FUNCTIONS, methods onto Tensor."""
    packets: dict[str, list[Op]] = {}
    for op in REGISTRY.values():
        packets.setdefault(op.schema.name, []).append(op)
        if op.result_names:
            op.returns = _structure(op)
    for name, ops in packets.items():
        for form in ("function", "method", "inplace"):
            chosen = [op for op in ops if form in op.variants]
            if not chosen:
                continue
            function = front(chosen, form)
            if form == "function":
                FUNCTIONS[name] = function
            else:
                setattr(Tensor, name + ("_" if form == "inplace" else ""), function)
        for op in ops:
            if op.operator:
                _install_operator(op)


RETURN_TYPES: dict = {}


def _structure(op):
    """The named tuple of an operator with several named results, ``torch.return_types.max``."""
    name = op.schema.name
    if name not in RETURN_TYPES:
        RETURN_TYPES[name] = convert.named_results(name, op.result_names)
    return RETURN_TYPES[name]
