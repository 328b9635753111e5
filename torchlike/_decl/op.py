"""Operators: one declaration states the schema, the kernel and what cannot be derived from them.

A kernel maps jax arrays to jax arrays. Its parameters carry the schema's names; tensors and numbers
reach it as runtime values, everything else (ints, bools, dtypes, strings, int lists) is static and
selects a compiled kernel. Checks of shapes and dtypes inside a kernel run while it is traced, so a
call that was seen before pays nothing for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from torchlike._base.result_layouts import Rule, by_columns, elementwise
from torchlike._decl import derive, rules
from torchlike._decl.derive import Kernel
from torchlike._decl.node_names import camel
from torchlike._decl.schema import Schema, SchemaError

if TYPE_CHECKING:
    import jax

    from torchlike._decl.schema import Arg
    from torchlike._decl.typed import (
        Autocast,
        Avals,
        Backward,
        Formula,
        Forward,
        Identity,
        Indices,
        Saved,
        Static,
        Value,
        Values,
    )

_OURS = __name__.partition(".")[0] + "._ops."
REGISTRY: dict[str, Op] = {}
EXTENSIONS: dict[str, Op] = {}  # operators of other namespaces, by namespace::name
# To the lower precision, to float32, to the widest of the inputs; not to be called under autocast; to the lower
# precision or that of the states (``hx``, ``cx``), where that is wider; as it is or in float32, the result then in
# the lower precision; as the ranks of an inner product say.
AUTOCAST = frozenset({"lower_precision_fp", "fp32", "promote", "banned", "states", "rounded", "fp32_rounded", "inner"})
VARIANTS = frozenset({"function", "method", "inplace", "out"})
_INPLACE = frozenset("alone after number part repeatable repeated".split())
OUT = frozenset("exact cast safely eigenvalues promotes apart computes widens truths parts".split()) | _INPLACE
INPLACE: dict[str, frozenset[str]] = {}  # those of ``OUT`` that are of in-place forms, by the names of these


class Aten(NamedTuple):
    """What ``torch.ops.aten`` calls a declared operator.

    Attributes:
        own: whether PyTorch has no such operator. schema: its text after the name.
        inplace: the overload of the in-place form, and out: that with ``out=``; None where PyTorch has none: by
            default those of what it composes (``calls``) and of what gives no tensors.
        results: the names of the arguments that results are written into.
        calls, calls_inplace: ``f(aten, *arguments)``, the calls that PyTorch makes of one, where they are not one of
            this name: ``aten["var.correction"](self)`` is one. They are made on tensors, for those who look.
    """

    own: bool
    schema: str
    inplace: str | None
    out: str | None
    results: tuple[str, ...]
    calls: Callable | None
    calls_inplace: Callable | None


class Op(Kernel):
    """A declared operator. See :func:`op` for the fields."""

    __slots__ = (
        "schema", "kernel", "dtype", "formulas", "autocast", "variants", "operator", "numbers",
        "nondiff", "dynamic", "static", "checked", "lists", "inplace", "policy_names", "layout",
        "result_names", "saved", "kept", "apart", "node_of", "edges_of", "inplace_node", "tangents", "backward",
        "inexact", "_aten", "columns", "rows", "out", "taken", "held",
    )  # fmt: skip

    @property
    def full_name(self) -> str:
        return self.schema.full_name

    @property
    def aten(self) -> Aten:
        if self._aten.__class__ is not Aten:  # what follows from the schema is found at the first need
            form = None if isinstance(self, ViewOp) else "out" in self.variants
            self._aten: Any = _aten(self._aten, self.schema, form)
        return self._aten

    def identity(self) -> Identity:
        module = self.kernel.__module__ or "torchlike."  # kernels that are made as text have none
        own = REGISTRY.get(self.full_name) is self and module.startswith("torchlike.")
        return ("op", self.full_name) if own else None

    def exactly(self, static: Static) -> Static:
        """``static`` with what tells its numbers from those that equal them: it is the key of kernels and plans."""
        return (*static, *[exact(x) for a, x in zip(self.static, static, strict=False) if a.name in self.inexact])

    def forward(self, static: Static) -> Forward:
        fixed = dict(zip((a.name for a in self.static), static, strict=False))
        lens = static[len(self.static)] if self.lists else None
        policy = rules.policy(self.dtype, self.name)

        def run(*values: Value) -> Any:
            bound = self.group(values, lens)
            self._validate(bound)
            policy(bound, self.policy_names, bound)
            return derive.map_outputs(rules.strong, self.kernel(**bound, **fixed))

        return run

    def chosen(self, choose: Callable[..., Any], avals: Avals, static: Static) -> Any:
        """What the function ``choose`` gives for a call; see ``node`` of :func:`op`."""
        facts = dict(zip((a.name for a in self.dynamic), avals, strict=False))
        facts |= zip((a.name for a in self.static), static, strict=False)
        return choose(*(facts[p] for p in parameters(choose)))

    def with_rows(self, static: Static, values: Values) -> tuple[int, ...] | None:
        """The positions of the values whose last dimension but one are rows; see ``rows`` of :func:`op`."""
        if self.lists or len(values) != len(self.dynamic):
            return None
        names = self.chosen(self.rows, values, static) if callable(self.rows) else self.rows
        places = tuple([i for i, a in enumerate(self.dynamic) if a.name in names.split()])
        return places if all([getattr(values[i], "ndim", 0) > 1 for i in places]) else None

    def verdict(self, static: Static) -> Forward:
        """The traceable function from runtime values to the flag of ``check``: True if PyTorch raises."""
        return lambda *values: self.examine(static, values)[0]

    def examine(self, static: Static, values: Values) -> tuple[Any, Any]:
        """(bad flag, exception or function giving it) of ``check`` on these values."""
        fixed = dict(zip((a.name for a in self.static), static, strict=False))
        bound = self.group(values, static[len(self.static)] if self.lists else None)
        return self.checked(**bound, **fixed)

    def group(self, values: Values, lens: Sequence[int] | None) -> dict[str, Any]:
        """{argument: value} from the flat runtime values; list arguments are regrouped."""
        bound: dict[str, Any] = {}
        i = 0
        lens = iter(lens or ())
        for arg in self.dynamic:
            if arg.is_list:
                n = next(lens)
                bound[arg.name] = None if n < 0 else [_as_array(v) for v in values[i : i + n]]
                i += max(n, 0)
            else:
                value = values[i]
                if value is None and arg.has_default and not arg.is_tensor:
                    value = arg.default
                    bound[arg.name] = value
                else:
                    bound[arg.name] = _as_array(value)
                i += 1
        return bound

    def spans(self, static: Static) -> dict[str, range]:
        """{argument: indices of its runtime values}; a list has one for each element."""
        lens, found, at = iter(static[len(self.static)] if self.lists else ()), {}, 0
        for arg in self.dynamic:
            n = max(next(lens), 0) if arg.is_list else 1
            found[arg.name] = range(at, at + n)
            at += n
        return found

    def _validate(self, bound: Mapping[str, Any]) -> None:
        for position, arg in enumerate(self.dynamic, 1):
            value = bound[arg.name]
            if arg.kind == "float" and not arg.is_list and rules.jnp.iscomplexobj(value):
                raise TypeError(
                    f"{self.name}(): argument '{arg.public_name}' (position {position}) must be float, not complex"
                )
            if not arg.is_tensor or arg.is_list:
                continue
            if value is None and not arg.optional:
                raise TypeError(
                    f"{self.name}(): argument '{arg.public_name}' (position {position}) must be Tensor, not NoneType"
                )
            if value is not None and arg.name not in self.numbers and getattr(value, "weak_type", False):
                kind = {"i": "int", "f": "float", "c": "complex", "b": "bool"}[value.dtype.kind]
                raise TypeError(
                    f"{self.name}(): argument '{arg.public_name}' (position {position}) must be Tensor, not {kind}"
                )

    def derivative(self, static: Static, avals: Avals, wanted: Indices) -> derive.Plan | None:
        if self.formulas is None:
            return derive.default_plan(self, static, avals, wanted)
        if not self.formulas:
            return None
        return derive.formula_plan(self, static, avals, wanted)

    def jvp(self, static: Static, tangents: Indices) -> Kernel:
        own = self.formulas and self.tangents != "kernel"
        return self.formula_jvp(static, tangents) if own else super().jvp(static, tangents)

    def formula_jvp(self, static: Static, tangents: Indices) -> Kernel:
        """The jvp that the declared formulas give, which is not that of the kernel."""
        key = ("jvp", static, tangents)
        found = self.derived.get(key)
        if found is None:
            function = derive.formula_jvp(self, static, tangents)
            origin = self.part(("formula", *key))
            found = self.derived[key] = derive.Derived(f"{self.name}_jvp", self.node, function, origin)
        return found


class ViewOp(Op):
    """An operator whose result aliases its input.

    The kernel is ``read(value, *static, *ints)``; ``write(value, new, *static, *ints)`` gives the
    value with the view replaced; ``prepare(tensor, *arguments)`` gives (layout, static, ints), and
    the numpy dtype as a fourth where it changes.
    """

    __slots__ = ("read", "write", "prepare")

    def forward(self, static: Static) -> Forward:
        read = self.read
        return lambda value, *ints: read(value, *static, *ints)


class Inplace(Kernel):
    """The in-place form of an operator: the result is cast to the first argument and keeps its shape."""

    __slots__ = ("op", "verdict", "examine", "at_places")

    def __init__(self, op: Op) -> None:
        super().__init__(op.name + "_", op.inplace_node)
        self.op = op
        self.at_places = not op.out.isdisjoint(("alone", "part"))
        self.verdict, self.examine = op.verdict, op.examine

    @property
    def declaration(self) -> Op:
        return self.op

    def identity(self) -> Identity:
        origin = self.op.identity()
        return None if origin is None else ("inplace", origin)

    @property
    def checked(self) -> Callable[..., Any] | None:
        return self.op.checked

    def forward(self, static: Static) -> Forward:
        run, name = self.op.forward(static), self.name
        given = dict(zip((a.name for a in self.op.static), static, strict=False)).get("dtype")

        def inplace(*values: Value) -> jax.Array:
            if given is not None and given.np != values[0].dtype:
                raise RuntimeError(
                    f"Bad in-place call: input tensor dtype {values[0].dtype} and output tensor dtype {given} should "
                    f"match ({name})"
                )
            return derive.into(name, run(*values), values[0])

        return inplace

    def derivative(self, static: Static, avals: Avals, wanted: Indices) -> derive.Plan | None:
        op = self.op
        if op.formulas is None:
            return derive.default_plan(self, static, avals, wanted)
        return derive.formula_plan(op, static, avals, wanted, self) if op.formulas else None


def exact(x: Any) -> Any:
    """What tells a number from those that equal it: its class, or the text of a zero; of each in a tuple."""
    if x.__class__ is tuple:
        return tuple(map(exact, x))
    return x.__class__ if x else repr(x)


def _as_array(value: Value) -> Value:
    return rules.jnp.asarray(value) if isinstance(value, bool | int | float | complex) else value


def op(
    schema: str,
    *,
    dtype: str = "same",
    vjp: Mapping[str, Formula] | None = None,
    node: str | Callable[..., str] | None = None,
    autocast: Autocast | Mapping[str, Autocast] = None,
    variants: str = "function method",
    operator: str | None = None,
    numbers: bool | str = False,
    static: str = "",
    runtime: str = "",
    nondiff: Iterable[int] = (),
    check: Callable[..., tuple[Any, Any]] | None = None,
    policy: str | None = None,
    strides: bool = False,
    layout: Rule | None = None,
    columns: tuple[int, ...] = (),
    saved: Saved = None,
    edges: Callable[..., Any] | None = None,
    namespace: str | None = None,
    jvp: dict[str, Formula] | str | Callable[[list[str]], Any] | None = None,
    backward: Backward = None,
    aten: str | dict[str, Any] | bool | None = None,
    rows: str | Callable[..., str] = "",
    out: str = "",
    taken: Callable[..., Any] | None = None,
    held: str = "",
) -> Callable[[Callable[..., Any]], Op]:
    """Declare an operator; the decorated function is its kernel.

    Args:
        schema: PyTorch's schema text.
        dtype: how tensors are cast before the kernel: a key of ``rules.POLICIES``, with " but bool" if it refuses them.
        vjp: None for ``jax.vjp`` of the kernel; ``{}`` for not differentiable; else
            ``{"self": formula}`` or ``{"input, weight": formula}``. A formula's parameters say what
            is saved: ``grad`` (``grads`` for several outputs), inputs, ``result`` (or the names of
            the returns), static arguments, ``needs`` (the wanted input names) and ``<x>_aval``. A list of tensors is
            a list in formulas, and what they give for it too.
        node: class name of recorded nodes, without the trailing 0, and after a space that of the in-place
            form where it differs; or a function that gives it from arguments: of the runtime ones it gets shape
            and dtype.
        numbers: whether Python numbers are accepted where the schema says Tensor (or the names of the
            arguments that accept them).
        static, runtime: names moved from runtime to static, or back.
        nondiff: indices of outputs that never require grad.
        check: ``check(**arguments) -> (bad flag, exception or function giving it)``, the flag computed
            with the kernel; on concrete values it is examined at once and the exception raised. A flag of None
            says that calls of this kind need no check, and costs nothing.
        policy: names of the arguments the dtype policy applies to (default: every tensor).
        autocast: what autocast does with the inputs, on every device or as ``{"cpu": ..., "cuda": ...}``: one of
            ``AUTOCAST``, or a function of static arguments that gives it; nothing where it says nothing.
        strides: the operator is pointwise; its result has the memory order of its inputs.
        layout: the rule for the strides of other operators, from ``_base/result_layouts.py``; contiguous by default.
        columns: indices of results that follow ``layout`` (by default columns) even where every input is contiguous,
            and which alone do: LAPACK leaves matrices by columns.
        saved: the ``_saved_<name>`` of recorded nodes where they are not what the derivative reads: names
            of arguments, results and ``<argument>_sym_sizes`` and its like, as words or as {name: source},
            where a source may be a function of them; or a function, as ``node``, that gives that. A tensor
            marked ``self!`` is saved though the derivative does not read it, ``self?`` if its own gradient is
            wanted: changing it in place is an error in PyTorch. One marked ``~self`` is saved by value and not
            shown: PyTorch saves something made of it (``~self?``: unless its own gradient is wanted).
        edges: a function, as ``node``, that gives the indices of the inputs that ``next_functions`` tells of, and in
            whose order gradients arrive, where those are not every tensor in order but for indices and masks.
        namespace: of an operator that is no part of the library itself: it is kept in ``EXTENSIONS``.
        jvp: ``{"self": formula}`` where the tangent of the first output is not what follows from ``vjp``. A formula's
            parameters: ``dot`` (the tangent of that input), inputs, ``result`` (or the names of the returns), static
            arguments. "kernel": that of the kernel, where the formulas are its derivative. A function from the names
            of the inputs that have tangents to those whose tangents count: it may raise.
        backward: the aten operator that is the whole derivative of the first differentiable input (or of several, by
            its ``output_mask``): its schema, or its name where another operator declares it; alone or with
            ``{argument: source}`` for those that are not ``grad...`` or called as here: a name, a number, or a function
            as a formula; and ``"when"``, whether it applies. ``{"input": that}`` where inputs differ. A function in
            place of the schema says in words what PyTorch composes.
        aten: what ``torch.ops.aten`` calls it, where that is not the schema: PyTorch's schema without the name, or
            {field: value} of :class:`Aten`; ``False`` for what PyTorch has no name for, ``True`` for a private
            operator of PyTorch's.
        rows: the inputs whose last dimension but one is of rows that the kernel treats apart, as results have them; or
            a function, as ``node``, that names them. That of pointwise operators of one tensor needs no mention.
        out: words of ``OUT`` about ``out=``: "exact", it must have the result's dtype, as of what is not pointwise;
            "cast", the result is cast to its dtype, as of pointwise operators, and "safely", a refusal names the
            result as LAPACK's functions do, as "eigenvalues" where the schema has no name for it; "promotes", it is a
            TypeError; "apart", it shares no memory with an input; "computes", the call computes in its dtype, unless
            the last argument says another, and "widens", one of floats computes in its floats; "truths", it is of bool
            or uint8; "parts", of complex numbers it may be of floats or as they are. Of the in-place form: "part", it
            changes the first input at some places, and "alone", no other shares memory with that, too; "after", all
            are read before anything is written, or "number", those of no dimensions; an expanded first one is
            "repeatable", which does the same twice, or "repeated", of which PyTorch only warns.
        taken: of an operator whose result is elements of the first input, at places that the second one names: numpy's
            index, ``taken(shape, places, *static)``, or None where the kernel has more to say.
        held: the numbers that the dtype of the result must hold, or ``name:wide`` the dtype that computes it: a call
            with a larger one is refused before anything runs; ``name:floats``, not of integer tensors, ``name:long``,
            not of floats of 16 bits, ``name:halves``, of no other floats than those; ``name:negative``, negative floats
            beside unsigned integers too, in which negative ints wrap.
    """
    schema = Schema(schema)
    registry, prefix = (REGISTRY, "") if namespace is None else (EXTENSIONS, f"{namespace}::")

    def declare(kernel: Callable[..., Any]) -> Op:
        names = node.split() if isinstance(node, str) else [camel(schema.name) + "Backward"]
        new = Op(schema.name, names[0])
        new.node_of, new.edges_of = node if callable(node) else None, edges
        new.saved, new.kept, new.apart = _marks(saved)
        new.result_names = _result_names(schema)
        moved, back = set(static.split()), set(runtime.split())
        runtime_arg = [a for a in schema.args if a.name in back or (_is_runtime(a) and a.name not in moved)]
        new.schema, new.kernel, new.dtype, new.formulas = schema, kernel, dtype, _split_names(vjp)
        new.autocast, new.variants, new.operator = _autocast(autocast), _one(variants.split()), operator
        new.nondiff, new.checked = _one(nondiff), check
        new.layout = layout or (elementwise if strides else by_columns if columns else None)
        new.columns, new.laid, new.taken = columns, bool(columns), taken
        new._aten = aten
        tensors = [a.name for a in runtime_arg if a.is_tensor]
        new.rows = rows or (tensors[0] if new.pointwise and len(tensors) == 1 else None)
        new.tangents, new.backward = jvp, _backwards(backward)
        new.dynamic = tuple(runtime_arg)
        new.held = _held(held, [a.name for a in runtime_arg])
        new.numbers = _number_names(numbers, new.dynamic)
        new.static = tuple(a for a in schema.args if a not in runtime_arg)
        new.inexact = tuple(a.name for a in new.static if a.kind in ("Scalar", "float"))
        new.lists = any(a.is_list for a in runtime_arg)
        new.policy_names = tuple(policy.split()) if policy else tuple(a.name for a in runtime_arg if a.is_tensor)
        new.inplace_node, new.out = names[-1], _out(out, new)
        new.inplace = Inplace(new) if "inplace" in new.variants else None
        if prefix + new.full_name in registry:
            _refuse(new, "declared twice")
        if not (kernel.__module__ or "").startswith(_OURS):  # of those a test demands it: an import has better to do
            demand_consistent(new)
        registry[prefix + new.full_name] = new
        return new

    return declare


_SETS: dict[frozenset[Any], frozenset[Any]] = {}


def _one(words: Iterable[Any]) -> frozenset[Any]:
    """The one set of these words: six hundred declarations have a hundred different ones."""
    found = frozenset(words)
    return _SETS.setdefault(found, found)


def _held(words: str, names: list[str]) -> tuple[tuple[int, frozenset[str]], ...]:
    """(the position, what is said) of each word of ``held``."""
    given = [word.split(":") for word in words.split()]
    return tuple([(names.index(name), _one(said)) for name, *said in given])


def _out(words: str, new: Op) -> frozenset[str]:
    """``out`` of a declaration, with what follows from its kind."""
    given = _one(words.split())
    if given - OUT or {"exact", "cast"} <= given:
        raise SchemaError(
            f"{new.full_name}: out: {sorted(given)} are not words of {sorted(OUT)}, of which exact or cast"
        )
    if given & _INPLACE:
        INPLACE[new.name + "_"] = INPLACE.get(new.name + "_", frozenset()) | given & _INPLACE
    casts = new.pointwise and "out" in new.variants
    return given if given & {"exact", "cast", "computes", "truths"} or casts else _one(given | {"exact"})


def _marks(saved: Saved) -> tuple[Any, dict[str, str], frozenset[str]]:
    """``saved`` without its marks, {name: ! or ?}, and the names marked ~."""
    if saved is None or callable(saved):
        return saved, {}, _one(())
    sources = {word: word for word in saved.split()} if isinstance(saved, str) else saved
    apart = _one(name[1:].rstrip("?") for name in sources if name[0] == "~")
    kept = {name[:-1].lstrip("~"): name[0] if name[0] == "~" else name[-1] for name in sources if name[-1] in "!?"}
    shown = {name.rstrip("!?"): source for name, source in sources.items() if source and name[0] != "~"}
    return {n: s.rstrip("!?") if isinstance(s, str) else s for n, s in shown.items()}, kept, apart


_DEVICES = ("cpu", "cuda")


def _autocast(classes: Autocast | Mapping[str, Autocast]) -> Mapping[str, Autocast]:
    """{device: class}."""
    by_device: Mapping[str, Autocast] = classes if isinstance(classes, Mapping) else dict.fromkeys(_DEVICES, classes)
    by_device = by_device if classes else {}
    unknown = {str(c) for c in by_device.values() if not callable(c)} - AUTOCAST | {*by_device} - {*_DEVICES}
    if unknown:
        raise SchemaError(f"autocast: {sorted(unknown)} is none of {sorted(AUTOCAST)}, by cpu or cuda")
    return by_device


def _aten(given: str | dict[str, Any] | bool | None, schema: Schema, form: bool | None) -> Aten:
    """``aten`` of a declaration with what follows from its schema; private names and random words are ours.

    ``form``: whether it has one with ``out=``, None of a view.
    """
    fields: dict[str, Any] = given if isinstance(given, dict) else {"schema": given} if isinstance(given, str) else {}
    private = schema.name[0] == "_" or any(a.name == "words" for a in schema.args)
    own = fields.get("own", given is False or private and given is not True and "schema" not in fields)
    own_text = schema.text[len(schema.full_name) :]
    text = fields.get("schema", re.sub(r" (result\d)(?=[,)])", "", own_text) if "result" in own_text else own_text)
    writes = form or form is False and "calls" not in fields and _gives_tensors(schema)
    out = fields.get("out", (f"{schema.overload}_out" if schema.overload else "out") if writes else None)
    overload, *results = out.split() if out else (None,)
    named = [name for _, name in schema.returns]
    if not results:
        results = ["out"] if len(named) == 1 else [form and n or f"out{i}" for i, n in enumerate(named)]
    written = ("out",) if results == ["out"] else tuple(results)
    return Aten(own, text, fields.get("inplace", schema.overload), overload, written,
                fields.get("calls"), fields.get("calls_inplace"))  # fmt: skip


def _gives_tensors(schema: Schema) -> bool:
    return bool(schema.returns) and all(
        kind.split("(")[0] == "Tensor" and "[]" not in kind for kind, _ in schema.returns
    )


def _backwards(backward: Backward) -> dict[str | None, tuple[Any, dict[str, Any]]] | None:
    """``backward`` as {inputs: (schema or name, sources)}."""
    if backward is None:
        return backward
    by_input = backward if isinstance(backward, dict) else {None: backward}
    return {wrt: b if isinstance(b, tuple) else (b, {}) for wrt, b in by_input.items()}


def _result_names(schema: Schema) -> tuple[str, ...] | None:
    names: tuple[Any, ...] = tuple(name for _, name in schema.returns)
    return names if len(names) > 1 and all(names) else None


def _number_names(numbers: bool | str, args: Iterable[Arg]) -> frozenset[str]:
    """The names of the tensor arguments that accept Python numbers."""
    return _one(numbers.split() if isinstance(numbers, str) else (a.name for a in args if numbers))


def _is_runtime(arg: Arg) -> bool:
    return arg.kind in ("Tensor", "Scalar", "float") and not (arg.is_list and arg.kind != "Tensor")


def _split_names(vjp: Mapping[str, Formula] | None) -> dict[tuple[str, ...], Formula] | None:
    return None if vjp is None else {tuple(names.split(", ")): formula for names, formula in vjp.items()}


def parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """Parameter names of a plain function, read without the cost of inspect."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def demand_consistent(op: Op) -> None:
    """Refuse a declaration whose kernel or formulas do not fit its schema."""
    names = [a.name for a in op.schema.args]
    takes = list(parameters(op.kernel))
    if takes != names:
        _refuse(op, f"kernel takes {takes}, schema has {names}")
    if not op.variants <= VARIANTS:
        _refuse(op, f"unknown variants {sorted(op.variants - VARIANTS)}")
    for wrt, formula in (op.formulas or {}).items():
        if not {a.name for a in op.dynamic}.issuperset(wrt):
            _refuse(op, f"vjp for unknown input {wrt}")
        _demand_known(op, f"vjp for {wrt}", formula, names)
    for wrt, formula in (op.tangents if isinstance(op.tangents, dict) else {}).items():
        if wrt not in names:
            _refuse(op, f"jvp for unknown input {wrt}")
        _demand_known(op, f"jvp for {wrt}", formula, [*names, "dot"])


def _demand_known(op: Op, what: str, formula: Callable[..., Any], names: list[str]) -> None:
    """Refuse a formula that asks for what calls do not have."""
    extra = set(parameters(formula)).difference(names, ("grad", "grads", "needs", "result"))
    if not extra:
        return
    known = {*(n for _, n in op.schema.returns if n), *(f"result{i}" for i in range(len(op.schema.returns)))}
    known |= {"grad", "grads", "needs", "result", *names, *(f"{n}_aval" for n in names if n != "dot")}
    if extra - known:
        _refuse(op, f"{what} asks for {sorted(extra - known)}; known: {sorted(known)}")


def _refuse(op: Op, problem: str) -> NoReturn:
    raise SchemaError(f"{op.full_name}: {problem}\n  schema: {op.schema}")


def view(
    schema: str,
    *,
    prepare: Callable[..., Any],
    write: Callable[..., Any],
    vjp: dict[tuple[str, ...], Formula] | None = None,
    node: str | None = None,
    variants: str = "function method",
    saved: Saved = "",
    backward: Callable[..., Any] | None = None,
    aten: str | dict[str, Any] | bool | None = None,
    autocast: Autocast | Mapping[str, Autocast] = None,
) -> Callable[[Callable[..., Any]], ViewOp]:
    """Declare a view operator; the decorated function is its ``read``. See :class:`ViewOp` and :func:`op`.

    ``backward(grad, shape, *arguments)``: its adjoint in PyTorch's words, where those are not what jax's are.
    """
    schema = Schema(schema)

    def declare(read: Callable[..., Any]) -> ViewOp:
        new = ViewOp(schema.name, node or camel(schema.name) + "Backward")
        new.schema, new.kernel, new.dtype, new.formulas = schema, read, "same", vjp
        new.autocast, new.operator = _autocast(autocast), None
        new.checked = new.inplace = new.result_names = None
        new.variants, new.numbers, new.nondiff = frozenset(variants.split()), frozenset(), frozenset()
        new.dynamic, new.static, new.lists, new.policy_names = schema.args[:1], schema.args[1:], False, ()
        new.inexact, new.layout, new.rows, new.out, new.taken, new.held = (), None, None, frozenset(), None, ()
        new.read, new.write, new.prepare = read, write, prepare
        new.saved, new.kept, new.apart = saved, {}, frozenset()
        new.node_of = new.edges_of = new.tangents = None
        new.backward, new._aten = backward, aten
        if new.full_name in REGISTRY:
            raise SchemaError(f"{new.full_name}: declared twice")
        REGISTRY[new.full_name] = new
        return new

    return declare


pointwise = partial(op, variants="function method inplace out", numbers=True, strides=True)
reduction = partial(op, variants="function method out")
