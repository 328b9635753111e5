"""``torch.jit._get_trace_graph``: the calls of a run as a graph, which counters of operations read."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torchlike._aten.packets import _fits, ops
from torchlike._core.tensor.tensor import Tensor
from torchlike._jit_internal import tracing
from torchlike.jit._graph import Graph, Node, Value
from torchlike.jit._trace import _examples, _named
from torchlike.jit._types import RUNNING
from torchlike.nn import functional as F
from torchlike.nn.modules.module import Module
from torchlike.overrides import TorchFunctionMode
from torchlike.utils._pytree import tree_leaves

_ATEN = ops.aten
_END = 9223372036854775807  # of a slice without one
_RENAMED = {
    "torch.nn.functional.cross_entropy": "cross_entropy_loss", "torch.nn.functional.grid_sample": "grid_sampler",
    "torch.nn.functional.unfold": "im2col", "torch.nn.functional.fold": "col2im", "torch.norm": "linalg_vector_norm",
    "torch.functional.norm": "linalg_vector_norm", "torch.Tensor.norm": "linalg_vector_norm",
    "torch.Tensor.T": "numpy_T", "torch.Tensor.H": "matrix_H",
}  # fmt: skip
_OPERATORS = {
    "__radd__": "add", "__rmul__": "mul", "__rsub__": "rsub", "__pow__": "pow", "__rpow__": "pow",
    "__floordiv__": "floor_divide", "__rfloordiv__": "floor_divide", "__rmatmul__": "matmul",
}  # fmt: skip
_SPELLED = {"self": "input", "train": "training", "cudnn_enable": "cudnn_enabled"}
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


class _Recorder(TorchFunctionMode):
    """Writes down calls of public functions that give tensors."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.values: dict[int, Value] = {}
        self.kept: list[Tensor] = []  # whose ids are keys
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        place, name, original = _found(func)
        special = _SPECIAL.get(name)
        python = special is None and not _kind(place, name) and original is not None
        if python:
            before = len(self.graph._nodes)
            with self:
                result = original(*args, **kwargs)
            python = len(self.graph._nodes) > before
        else:
            result = func(*args, **kwargs)
        given = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
        if python or not given and name != "__setitem__":
            return result
        if special is not None:
            special(self, result, *args, **kwargs)
        else:
            self.call(place, name, original, result, args, kwargs)
        return result

    # -- values ------------------------------------------------------------------------------------

    def node(self, kind: str, inputs: Sequence[Value], outputs: Iterable[Any], name: str = "") -> list[Value]:
        """A node at the end, and the values that it gives."""
        node = Node(kind, inputs, "/".join(tracing.scopes), name)
        node._outputs = [self.value(x, node) for x in outputs]
        self.graph._nodes.append(node)
        return node._outputs

    def value(self, x: Any, node: Node) -> Value:
        made = Value(self.count, x, node)
        self.count += 1
        if isinstance(x, Tensor):
            self.values[id(x)] = made
            self.kept.append(x)
        return made

    def of(self, x: Any) -> Value:
        """The value of an argument: of a tensor the last that it has had, of anything else a new constant."""
        if isinstance(x, Tensor):
            return self.values.get(id(x)) or self.node("prim::Constant", (), (x,))[0]
        if isinstance(x, list | tuple):
            return self.node("prim::ListConstruct", [self.of(item) for item in x], (list(x),))[0]
        return self.node("prim::Constant", (), (x,))[0]

    def emit(self, kind: str, inputs: Sequence[Any], result: Any) -> None:
        """The node of a call."""
        values = [self.of(x) for x in inputs]
        if isinstance(result, list) or isinstance(result, tuple) and "[]" in _returned(kind):
            self.node("prim::ListUnpack", self.node(f"aten::{kind}", values, (list(result),)), result)
        else:
            self.node(f"aten::{kind}", values, tree_leaves(result))

    def call(self, place: str, name: str, original: Any, result: Any, args: tuple, kwargs: dict) -> None:
        """The node of a call whose arguments are those of aten's operator, or of a function of Python."""
        kind = _kind(place, name)
        if kind:
            if place == "torch.nn.functional" and _in_place(original, args, kwargs):
                kind = f"{kind}_"
            inputs = None if place == "torch.nn.functional" else _placed(kind, args, kwargs)
            self.emit(kind, inputs or _named_inputs(kind, original, args, kwargs), result)
        else:
            given = [self.of(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
            self.node("prim::PythonOp", given, tree_leaves(result), name)

    # -- functions that are other calls of aten ---------------------------------------------------------

    def summed(self, result: Tensor, equation: Any, *operands: Any) -> None:
        if not isinstance(equation, str):  # operand, its indices, and so on
            operands = tuple([x for x in (equation, *operands) if isinstance(x, Tensor)])
        operands = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
        self.emit("einsum", (equation, list(operands), None), result)

    def attended(self, result: tuple, query: Tensor, key: Tensor, value: Tensor, _width: int, heads: int,
                 weight: Any, bias: Any, bias_k: Any, bias_v: Any, zero: bool, p: float, out: Tensor, out_bias: Any,
                 training: bool = True, key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None,
                 use_separate_proj_weight: bool = False, q_proj_weight: Any = None, k_proj_weight: Any = None,
                 v_proj_weight: Any = None, *_: Any, **__: Any) -> None:  # fmt: skip
        """The products of attention with several heads, which stands for no call of aten; masks are left out."""
        if bias_k is not None or bias_v is not None or zero:
            given = [self.of(x) for x in (query, key, value)]
            self.node("prim::PythonOp", given, tree_leaves(result), "multi_head_attention_forward")
            return
        weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else weight.chunk(3)
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        with self:
            if query is key is value and not use_separate_proj_weight:
                q, k, v = F.linear(query, weight, bias).chunk(3, -1)
            else:
                q, k, v = [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]
            q, k, v = [x.reshape(len(x), -1, x.shape[-1] // heads).transpose(0, 1) for x in (q, k, v)]
            if need_weights:
                x = (q * q.shape[-1] ** -0.5).bmm(k.transpose(-2, -1)).softmax(-1).bmm(v)
            else:
                x = F.scaled_dot_product_attention(q, k, v)
            x = F.linear(x.transpose(0, 1).reshape(-1, out.shape[1]), out, out_bias).view(result[0].shape)
        self.values[id(result[0])] = self.of(x)
        self.kept.append(result[0])

    def converted(self, result: Tensor, x: Tensor, *_: Any, **__: Any) -> None:
        self.emit("to", (x, result.dtype, False, False, None), result)

    def divided(self, result: Tensor, x: Tensor, other: Any) -> None:
        inverse = x.reciprocal()
        self.emit("reciprocal", (x,), inverse)
        self.emit("mul", (inverse, other), result)

    def convolved(self, result: Tensor, input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1,
                  padding: Any = 0, dilation: Any = 1, groups: int = 1) -> None:  # fmt: skip
        self.convolution(result, input, weight, bias, stride, padding, dilation, groups, None)

    def transposed(self, result: Tensor, input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1,
                   padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> None:  # fmt: skip
        self.convolution(result, input, weight, bias, stride, padding, dilation, groups, output_padding)

    def convolution(self, result: Tensor, input: Any, weight: Tensor, bias: Any, stride: Any, padding: Any,
                    dilation: Any, groups: int, added: Any) -> None:  # fmt: skip
        n = weight.ndim - 2
        stride, dilation = _each(stride, n), _each(dilation, n)
        if isinstance(padding, str):
            self.emit("_convolution_mode", (input, weight, bias, stride, padding, dilation, groups), result)
            return
        rest = added is not None, _each(added or 0, n), groups, False, False, True, True
        self.emit("_convolution", (input, weight, bias, stride, _each(padding, n), dilation, *rest), result)

    def resized(self, result: Tensor, input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: Any = None, *_: Any, **__: Any) -> None:  # fmt: skip
        n = input.ndim - 2
        size, scale = [None if x is None else _each(x, n) for x in (size, scale_factor)]
        if mode == "area":
            self.emit(f"adaptive_avg_pool{n}d", (input, list(result.shape[2:])), result)
            return
        corners = () if mode.startswith("nearest") else (bool(align_corners),)
        kind = "_upsample_nearest_exact" if mode == "nearest-exact" else f"upsample_{mode}"
        self.emit(f"{kind}{n}d", (input, size, *corners, scale and [float(s) for s in scale]), result)

    def indexed(self, result: Tensor, x: Tensor, index: Any) -> None:
        """``x[index]``: views one after another, then what tensors choose."""
        index = index if isinstance(index, tuple) else (index,)
        taken = sum(1 for i in index if i is not None and i is not Ellipsis)
        dim, chosen = 0, []
        steps: list[tuple[str, tuple, Callable]] = []
        for i in index:
            if i is Ellipsis:
                dim += x.ndim - taken
            elif isinstance(i, slice):
                ends = 0 if i.start is None else int(i.start), _END if i.stop is None else int(i.stop), int(i.step or 1)
                steps.append(("slice", (dim, *ends), lambda y, d=dim, i=i: y[(slice(None),) * d + (i,)]))
                dim += 1
            elif i is None:
                steps.append(("unsqueeze", (dim,), lambda y, d=dim: y.unsqueeze(d)))
                dim += 1
            elif isinstance(i, int) and not isinstance(i, bool):
                steps.append(("select", (dim, i), lambda y, d=dim, i=i: y.select(d, i)))
            else:
                chosen.append(i)
                dim += 1
        for at, (kind, given, step) in enumerate(steps):
            y = result if at == len(steps) - 1 and not chosen else step(x)
            self.emit(kind, (x, *given), y)
            x = y
        if chosen:
            self.emit("index", (x, chosen), result)
        elif not steps:
            self.values[id(result)] = self.of(x)
            self.kept.append(result)

    def assigned(self, result: Any, x: Tensor, index: Any, value: Any) -> None:
        index = index if isinstance(index, tuple) else (index,)
        chosen = [i for i in index if not (i is None or i is Ellipsis or isinstance(i, int | slice))]
        self.emit("index_put_" if chosen else "copy_", (x, chosen, value, False) if chosen else (x, value, False), x)


_SPECIAL: dict[str, Callable] = {
    "__getitem__": _Recorder.indexed, "__setitem__": _Recorder.assigned, "einsum": _Recorder.summed,
    "multi_head_attention_forward": _Recorder.attended, "interpolate": _Recorder.resized,
    "upsample": _Recorder.resized, "__rtruediv__": _Recorder.divided, "__rdiv__": _Recorder.divided,
    **{f"conv{n}d": _Recorder.convolved for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _Recorder.transposed for n in (1, 2, 3)},
    **dict.fromkeys(("float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "cfloat",
                     "cdouble"), _Recorder.converted),
}  # fmt: skip


def _each(x: Any, n: int) -> list:
    return [x] * n if not isinstance(x, tuple | list) else list(x) * (n if len(x) == 1 else 1)


def _found(func: Any) -> tuple[str, str, Any]:
    """Where a function that handlers are given is, its name there, and the function itself."""
    behind = getattr(func, "__dict__", {}).get("behind")
    if behind is not None and behind.entry is not None:
        return behind.place, behind.name, behind.built()
    owner = getattr(func, "__self__", None)
    if isinstance(owner, property):
        names = [name for name, found in vars(Tensor).items() if found is owner]
        return "torch.Tensor", names[0] if names else "", None
    return "torch", getattr(func, "__name__", ""), None


def _kind(place: str, name: str) -> str:
    """The operator of aten that a function is; "" where it is none."""
    renamed = _RENAMED.get(f"{place}.{name}")
    if renamed:
        return renamed
    name = _OPERATORS.get(name, name)
    return name if name and hasattr(_ATEN, name) else ""


def _returned(kind: str) -> str:
    packet = getattr(_ATEN, kind)
    return str(getattr(packet, packet.overloads()[0])._schema).rpartition("->")[2]


def _in_place(original: Any, args: tuple, kwargs: dict) -> bool:
    if original is None or "inplace" not in inspect.signature(original).parameters:
        return False
    return bool(inspect.signature(original).bind(*args, **kwargs).arguments.get("inplace"))


def _placed(kind: str, args: tuple, kwargs: dict) -> list | None:
    """The arguments of a call that is one of the operator's own, in the order of its schema; None of another."""
    for overload in getattr(_ATEN, kind).op_overloads:
        if "out" not in overload._overloadname and _fits(overload._schema, args, kwargs):
            rest = overload._schema.arguments[len(args) :]
            given = [kwargs[a.name] if a.name in kwargs else _default(a) for a in rest]
            return [_as(a, x) for a, x in zip(overload._schema.arguments, (*args, *given), strict=True)]
    return None


def _named_inputs(kind: str, original: Any, args: tuple, kwargs: dict) -> list:
    """The arguments of a call in the order of aten's schema, by their names."""
    if original is None:
        return list(args)
    bound = inspect.signature(original).bind(*args, **kwargs)
    explicit = set(bound.arguments)
    bound.apply_defaults()
    given = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            given |= value
        elif bound.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            given[name] = value[0] if len(value) == 1 and isinstance(value[0], tuple | list) else value
        else:
            given["input" if name == "self" else name] = value
    packet = getattr(_ATEN, kind)
    schemas = [getattr(packet, o)._schema.arguments for o in packet.overloads() if "out" not in o]
    schema = max(schemas, key=lambda arguments: _fit(arguments, given, explicit))
    named = [_spelled(a.name, given) for a in schema]
    spare = [name for name in given if name not in named and name in {*explicit, "input"} and given[name] != ()]
    return [_input(a, given, name, spare) for a, name in zip(schema, named, strict=True)]


def _spelled(name: str, given: dict) -> str:
    return name if name in given else _SPELLED.get(name, name)


def _fit(arguments: Any, given: dict, explicit: set) -> int:
    """How well a schema takes the arguments."""
    names = {_spelled(a.name, given) for a in arguments}
    lists = sum("[]" not in str(a.type) for a in arguments if isinstance(given.get(a.name), tuple | list))
    tensors = [a for a in arguments if str(a.type) == "Tensor" and a.name in given]
    wrong = sum(not isinstance(given[a.name], Tensor) for a in tensors) * (len(tensors) > 1)
    return 4 * sum(name in names for name in explicit) - len(names - set(given)) - lists - wrong


def _input(argument: Any, given: dict, name: str, spare: list) -> Any:
    """The value of one argument of a schema: by its name, else the next that has no place, else the default."""
    if name not in given:
        return given[spare.pop(0)] if spare and not argument.has_default_value() else _default(argument)
    return _as(argument, given[name])


def _as(argument: Any, value: Any) -> Any:
    if isinstance(value, str) and str(argument.type) == "int":
        return _REDUCTIONS.get(value, value)
    return [value] if isinstance(value, int) and str(argument.type).endswith("int[]") else value


def _default(argument: Any) -> Any:
    if argument.has_default_value():
        return argument.default_value
    return True if "cudnn" in argument.name else None


def _get_trace_graph(
    f: Any, args: Any = (), kwargs: dict | None = None, strict: bool = True, _force_outplace: bool = False,
    return_inputs: bool = False, _return_inputs_states: bool = False,
) -> tuple:  # fmt: skip
    """A graph of the calls that ``f`` makes of its arguments, and what it returns; for packages that count operations.

    Nodes are named as aten's operators are (``aten::linear``), with the shapes of what they take and give. Numbers
    that ``f`` reads from shapes are constants there.
    """
    if _return_inputs_states:
        raise NotImplementedError("torch.jit._get_trace_graph: _return_inputs_states=True")
    if not callable(f):
        raise TypeError(f"'{type(f).__name__}' object is not callable")
    inputs, named = _examples(args if isinstance(args, tuple) else (args,)), _named(kwargs)
    recorder = _Recorder()
    states = list(f.state_dict(keep_vars=True).values()) if isinstance(f, Module) else []
    source = Node("prim::Param", (), "")
    found = [x for x in (*tree_leaves((inputs, named)), *states) if isinstance(x, Tensor)]
    recorder.graph._inputs = [recorder.value(x, source) for x in found]
    scopes, tracing.scopes = tracing.scopes, ()
    try:
        with RUNNING, recorder:
            result = f(*inputs, **named)
    finally:
        tracing.scopes = scopes
    leaves = [recorder.of(x) for x in tree_leaves(result) if isinstance(x, Tensor)]
    if not isinstance(result, Tensor):
        leaves = recorder.node("prim::TupleConstruct", leaves, (tuple(tree_leaves(result)),))
    recorder.graph._outputs = leaves
    return (recorder.graph, result, tuple(found)) if return_inputs else (recorder.graph, result)
