"""Python code made of graphs."""

from __future__ import annotations

import enum
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torchlike._aten.packets import OpOverload
from torchlike._base import dtypes
from torchlike._base.device import device
from torchlike._core.tensor.tensor import Tensor
from torchlike.fx._names import CUSTOM_BUILTINS, Identity, Namespace
from torchlike.fx._qualified import PACKAGE, is_operator, public_module, qualified_name, type_text
from torchlike.fx._shapes import shape_note
from torchlike.fx.node import Node
from torchlike.fx.tensor_type import TensorType
from torchlike.utils import _pytree as pytree

TransformCodeFunc = Callable[[list[str]], list[str]]

MAGIC = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
    "pos": "+{}", "neg": "-{}", "invert": "~{}",
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}",
    "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}",
    "or_": "{} | {}", "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}",
}  # fmt: skip
INPLACE = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip
_TRACE_LINE = re.compile(r'^File "(.+)", line (\d+), in (.+)$')


@dataclass
class PythonCode:
    """Code that was made of a graph.

    Attributes:
        src: the source of ``forward``. globals: the names that it needs, and what they are.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = field(default=None)
    _prologue_start: int = 0


class PyTreeInfo(NamedTuple):
    """How the arguments and the result of a function come apart."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


class _Code(str):
    """Code, which is its own repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _written(value: Any, code: str) -> Any:
    """The value with its code as repr."""
    if repr(value) == code:
        return value
    base = next((kind for kind in (tuple, list, dict) if isinstance(value, kind)), None)
    return _Code(code) if base is None else type(base.__name__, (base,), {"__repr__": lambda self: code})(value)


class CodeGen:
    """Makes the code of a graph; subclasses may change how the function begins and what it returns."""

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **_: Any) -> str:
        """The line that begins the function, and those that prepare its arguments ``free_vars``."""
        variables = list(free_vars)
        if not variables or variables[0] != "self":
            variables.insert(0, "self")
        return f"def {self._func_name}({', '.join(variables)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, **_: Any) -> str:
        """The line that returns ``output_args``, whose repr is their code."""
        return f"return {output_args!r}"

    def process_inputs(self, *args: Any) -> Any:
        """The arguments of a call as the placeholders take them."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the output gives as the function returns it."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Further names that the code needs, with what they are."""
        return []

    def _gen_python_code(
        self, nodes: Iterable[Node], root_module: str, namespace: Namespace, *, verbose: bool = False, **shown: Any
    ) -> PythonCode:
        return Writer(self, root_module, namespace, verbose, **shown).write(list(nodes))


class PyTreeCodeGen(CodeGen):
    """The code of a function whose arguments are containers."""

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args: Any) -> Any:
        """The leaves of the arguments."""
        return pytree.tree_leaves(args)

    def process_outputs(self, outputs: Any) -> Any:
        """The containers of the leaves that the output gives."""
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, list | tuple) else [outputs]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **_: Any) -> str:
        """The arguments of the function, and a line that takes them apart."""
        names = self.pytree_info.orig_args
        function = super().gen_fn_def(list(names), maybe_return_annotation)
        if not free_vars:
            return function
        leaves = [v.partition(" : ")[0].partition(" = ")[0].partition(":")[0] for v in free_vars]
        if names[0] == "self":  # the structure has the module, too
            leaves.insert(0, "self")
        typed = [v.partition(" = ")[0] for v in free_vars]
        notes = "".join([f"{v}; " for v in typed if ":" in v])
        function += f"\n    {notes}\n" if notes else ""
        given = ", ".join(names)
        return f"{function}\n    {', '.join(leaves)}, = fx_pytree.tree_flatten_spec([{given}], self._in_spec)"

    def generate_output(self, output_args: Any, **_: Any) -> str:
        """The line that puts the result together."""
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args)
        return f"return pytree.tree_unflatten({output_args!r}, self._out_spec)"


def parse_stack_trace(stack_trace: str) -> tuple[str, int, str, str] | None:
    """File, line, function and code of the innermost place that a stack trace names."""
    lines = [line.strip() for line in stack_trace.strip().split("\n")]
    for i in range(len(lines) - 2, -1, -1):
        found = _TRACE_LINE.match(lines[i])
        if found:
            return found.group(1), int(found.group(2)), found.group(3), lines[i + 1]
    return None


class Writer:
    """Writes the code of one graph once."""

    def __init__(
        self,
        codegen: CodeGen,
        root: str,
        namespace: Namespace,
        verbose: bool,
        include_stride: bool = False,
        include_device: bool = False,
        expanded_def: bool = False,
    ) -> None:
        self.codegen, self.root, self.names, self.verbose = codegen, root, namespace, verbose
        self.include_stride, self.include_device, self.expanded = include_stride, include_device, expanded_def
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        self.free: list[str] = []
        self.body: list[str] = []
        self.returns = ""
        self.last_trace: str | None = None
        for name, custom in CUSTOM_BUILTINS.items():
            self.use(name, custom.obj)

    # -- names -------------------------------------------------------------------------------------
    def use(self, hint: str, obj: Any) -> str:
        """The expression that stands for a function or class in the code."""
        if _from_torch(obj) and obj is not device:
            return qualified_name(obj) if not isinstance(obj, types.ModuleType) else self._global("torch", obj)
        return self._global(hint.replace("torchlike.", "torch.", 1), obj)

    def _global(self, hint: str, obj: Any) -> str:
        normal = re.sub(r"[^0-9a-zA-Z_]+", "_", hint)
        if self.globals.get(normal, self) is obj:
            return normal
        name = self.names.create_name(normal, Identity(obj, normal))
        self.globals[name] = obj
        return name

    def type_of(self, kind: Any) -> str:
        """The expression of a type, for an annotation."""
        if kind == ():
            return "()"
        if kind is type(None):
            return "NoneType"
        if isinstance(kind, TensorType):
            sizes = ",".join(map(self.type_of, kind.__args__))
            return self.use(type_text(TensorType), TensorType) + (f"[{sizes}]" if sizes else "")
        if isinstance(kind, types.UnionType):
            return "|".join(self.type_of(a) for a in kind.__args__)
        name = type_text(kind)
        arguments = typing.get_args(kind)
        origin = typing.get_origin(kind)
        if origin is not None and "[" not in name:
            return self.use(type_text(origin), origin)
        if origin is not None and not arguments:
            return self.use(name.partition("[")[0] if origin is tuple else _dotted(origin), _bare(kind, origin))
        if origin is not None:
            base = self.use("typing.Union" if origin is typing.Union else name.partition("[")[0], _bare(kind, origin))
            return f"{base}[{','.join(self.type_of(a) for a in arguments)}]"
        return self.use(name, kind)

    # -- arguments ---------------------------------------------------------------------------------
    def expression(self, arg: Any) -> str:
        """The expression of an argument."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            return f"{self.use(type_text(type(arg)), type(arg))}{self._tuple(arg)}"
        if isinstance(arg, tuple):
            return self._tuple(arg)
        if isinstance(arg, list):
            return f"[{', '.join(map(self.expression, arg))}]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{k!r}: {self.expression(v)}" for k, v in arg.items()) + "}"
        if isinstance(arg, slice):
            return f"slice({', '.join(map(self.expression, (arg.start, arg.stop, arg.step)))})"
        if isinstance(arg, OpOverload):
            return self.use(qualified_name(arg), arg)
        if isinstance(arg, enum.Enum):
            cls = type(arg)
            return f"{self.use(cls.__name__, cls)}.{arg.name}"
        if isinstance(arg, Tensor):
            size = list(arg.size())
            return f"{type(arg).__name__}(size={size}, dtype={arg.dtype})"
        return repr(arg)

    def _tuple(self, items: tuple) -> str:
        inner = ", ".join(map(self.expression, items))
        return f"({inner},)" if len(items) == 1 else f"({inner})"

    def _arguments(self, args: Any, kwargs: Any) -> str:
        return ", ".join([*map(self.expression, args), *(f"{k} = {self.expression(v)}" for k, v in kwargs.items())])

    # -- steps -------------------------------------------------------------------------------------
    def write(self, nodes: list[Node]) -> PythonCode:
        """The code of the steps."""
        dying = _last_uses(nodes)
        for node in nodes:
            if self.verbose:
                self._comment(node)
            self._step(node)
            if node.op not in ("placeholder", "output"):
                gone = dying.get(node, [])
                self.body.append(f";  {' = '.join([repr(n) for n in gone] + ['None'])}\n" if gone else "\n")
        if not [text for text in self.body if text.strip()]:
            self.body.append("pass\n")
        if self.codegen._body_transformer is not None:
            self.body = self.codegen._body_transformer(self.body)
        for name, value in self.codegen.additional_globals():
            self.use(name, value)
        free = [v for v in self.free if v]
        if self.expanded and free:
            inner = "".join(f"\n        {v}," for v in ["self", *free])
            function = f"def {self.codegen._func_name}({inner}\n    ){self.returns}:"
        else:
            function = self.codegen.gen_fn_def(free, self.returns)
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in self.wrapped)
        prologue = f"\n{wraps}\n\n{function}"
        body = "\n".join("    " + line for line in "".join(self.body).lstrip("\n").split("\n"))
        return PythonCode(f"{prologue}\n{body}", self.globals)

    def _step(self, node: Node) -> None:
        target, args = node.target, node.args
        if node.op == "placeholder":
            return self._placeholder(node)
        if node.op == "output":
            if node.type is not None:
                self.returns = f" -> {self.type_of(node.type)}"
            self.body.append(self.codegen.generate_output(_written(args[0], self.expression(args[0]))) + "\n")
            return None
        left = f"{node!r}{self._annotation(node)} = "
        if node.op == "call_function":
            text = self._function(node, left)
        elif node.op == "call_method":
            base = _attribute(self.expression(args[0]), str(target))
            text = f"{left}{base}({self._arguments(args[1:], node.kwargs)})"
        elif node.op == "call_module":
            text = f"{left}{_attribute(self.root, str(target))}({self._arguments(args, node.kwargs)})"
        elif node.op == "get_attr":
            text = f"{left}{_attribute(self.root, str(target))}"
        else:
            raise NotImplementedError(f"node: {node.op} {target}")
        self.body.append(text)
        return None

    def _placeholder(self, node: Node) -> None:
        default = "" if not node.args else f" = {self.expression(node.args[0])}"
        target = str(node.target)
        self.free.append(f"{target}{self._annotation(node)}{default}")
        raw = target.replace("*", "")
        if raw != repr(node):
            self.body.append(f"{node!r} = {raw}\n")

    def _function(self, node: Node, left: str) -> str:
        target: Any = node.target
        shown = [self.expression(a) for a in node.args]
        if is_operator(target, MAGIC) and not node.kwargs:
            return left + MAGIC[target.__name__].format(*shown)
        if is_operator(target, INPLACE) and not node.kwargs:
            return f"{INPLACE[target.__name__].format(*shown)};  {left}{shown[0]}"
        name = qualified_name(target)
        if target is getattr and len(node.args) == 2 and str(node.args[1]).isidentifier():
            return f"{left}{_attribute(shown[0], str(node.args[1]))}"
        name = self.use("getattr" if target is getattr else name, target)
        if node.meta.get("is_wrapped", False):
            self.wrapped[name] = None
        return f"{left}{name}({self._arguments(node.args, node.kwargs)})"

    def _annotation(self, node: Node) -> str:
        note = shape_note(node, self.include_stride, self.include_device) if self.verbose else ""
        if note:
            return f': "{note}"'
        return "" if node.type is None else f" : {self.type_of(node.type)}"

    def _comment(self, node: Node) -> None:
        """Where the program made the steps from here on."""
        trace = node.stack_trace or ""
        if node.op in ("placeholder", "output") or trace == self.last_trace:
            return
        self.last_trace = trace
        if not trace:
            self.body.append("\n# No stacktrace found for following nodes\n")
        elif (found := parse_stack_trace(trace)) is not None:
            self.body.append(f"\n# File: {found[0]}:{found[1]} in {found[2]}, code: {found[3]}\n")


def _bare(kind: Any, origin: Any) -> Any:
    """``typing.List`` of ``typing.List[int]``."""
    name = getattr(kind, "_name", None)
    if origin is typing.Union:
        return typing.Union
    return getattr(typing, name) if name and type(kind).__module__ == "typing" and origin is not kind else origin


def _dotted(origin: Any) -> str:
    return f"{origin.__module__}.{origin.__qualname__}"


def _from_torch(obj: Any) -> bool:
    if obj is sys.modules[PACKAGE]:
        return False
    module = getattr(obj, "__module__", None)
    if module is None:
        return False
    return public_module(module).partition(".")[0] == "torch" and not isinstance(obj, dtypes.dtype)


def _attribute(base: str, target: str) -> str:
    """The expression of an attribute of an attribute..."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def _last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """The variables that may go after each step."""
    seen: set[Node] = set()
    dying: dict[Node, list[Node]] = {}
    for user in reversed(nodes):
        for n in user._input_nodes:
            if n not in seen:
                seen.add(n)
                dying.setdefault(user, []).append(n)
        if not user.users and user.op not in ("placeholder", "output"):
            dying.setdefault(user, []).append(user)
    return dying
