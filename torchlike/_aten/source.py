"""What ``torch.ops.aten`` holds: the declared operators in all their forms, and those that :func:`aten` adds."""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from torchlike._aten.outs import out_form
from torchlike._aten.packets import OpOverload, OpOverloadPacket, complete, ops
from torchlike._aten.tags import Tag
from torchlike._core.dispatch.front import _compiled
from torchlike._core.dispatch.out import call_out
from torchlike._decl.function_schema import parse_schema
from torchlike._decl.op import REGISTRY, Op
from torchlike._ops.power import SPECIAL_EXPONENTS, pow_scalar, pow_special


class Overload(NamedTuple):
    """One overload before anyone asked for it: its schema, what makes the callable, its tags."""

    text: str
    make: Callable[[], Callable]
    tags: tuple[Tag, ...] = ()
    whole: bool = False  # whether no other overload follows from it
    saves: tuple[int, ...] = ()  # the results that PyTorch's node keeps, where no one declared operator tells


class Source:
    """The overloads of a namespace, by name; the declared ones are found when first asked for."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.added: dict[str, dict[str, Overload]] = {}
        self._index: dict[str, dict[str, Overload]] | None = None

    @property
    def index(self) -> dict[str, dict[str, Overload]]:
        """{name: {overload: entry}}."""
        found = self._index
        if found is None:
            complete()
            found = {}
            for op in REGISTRY.values():
                if op.aten.own == (self.namespace == "torchlike"):
                    for text, make, tags in _forms(op):
                        name, overload = _names(text)
                        found.setdefault(name, {}).setdefault(overload, Overload(text, make, tags))
            for name, overloads in self.added.items():
                known = found.setdefault(name, {})
                known.update(overloads)
                for entry in overloads.values():
                    _derive(known, entry)
            self._index = found
        return found

    def add(self, entry: Overload) -> None:
        """One more overload."""
        make = entry.make
        entry = entry._replace(make=lambda: _by_place(entry.text, make()))
        name, overload = _names(entry.text)
        self.added.setdefault(name, {})[overload] = entry
        if self._index is not None:
            known = self._index.setdefault(name, {})
            known[overload] = entry
            _derive(known, entry)

    def names(self) -> Iterable[str]:
        return self.index

    def overloads(self, name: str) -> Iterable[str]:
        return self.index.get(name, ())

    def make(self, packet: OpOverloadPacket, overload: str) -> OpOverload:
        """The object of one overload."""
        entry = self.index[packet.__name__][overload]
        schema = parse_schema(f"{self.namespace}::{entry.text}")
        return OpOverload(packet, schema, _Late(entry.make), entry.tags, entry.saves)


class _Late:
    """A callable that is made on its first call."""

    __slots__ = ("_make", "_call")

    def __init__(self, make: Callable[[], Callable]) -> None:
        self._make = make
        self._call: Callable | None = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        call = self._call
        if call is None:
            call = self._call = self._make()
        return call(*args, **kwargs)


def _by_place(text: str, function: Callable) -> Callable:
    """``function``, called with the names of the schema ``text``, which may be others than its own."""
    arguments = [a for a in parse_schema(f"aten::{text}").arguments if not a.kwarg_only]

    def call(*args: Any, **kwargs: Any) -> Any:
        named = [i for i, a in enumerate(arguments) if a.name in kwargs]
        if not named:
            return function(*args, **kwargs)
        placed = list(args)
        for a in arguments[len(args) : named[-1] + 1]:
            if a.name not in kwargs and not a.has_default_value():
                raise TypeError(f"aten::{text} is missing value for argument '{a.name}'")
            placed.append(kwargs.pop(a.name, a.default_value))
        return function(*placed, **kwargs)

    return call


def _derive(known: dict[str, Overload], entry: Overload) -> None:
    """Add the overload with ``out=`` of an added one, unless it was added too."""
    form = None if entry.whole else out_form(entry.text, entry.make)
    if form is not None:
        known.setdefault(_names(form[0])[1], Overload(*form, (*entry.tags, Tag.out)))


def _names(text: str) -> tuple[str, str]:
    name, _, overload = text[: text.index("(")].partition(".")
    return name, overload or "default"


def _forms(op: Op) -> Iterable[tuple[str, Callable[[], Callable], tuple[Tag, ...]]]:
    """(schema, maker, tags) of the operator itself, in place, with out= and with a number."""
    facts, tail = op.aten, op.aten.schema
    name, overload = op.schema.name, op.schema.overload
    kind = (Tag.pointwise,) if op.pointwise else ()
    value = (Tag.data_dependent_output,) if tail.endswith(" -> bool") else ()
    yield op.full_name + tail, lambda: _power() if op is pow_scalar else _whole(op, tail), (*kind, *value)
    if op.inplace is not None and tail.startswith("(Tensor self") and facts.inplace is not None:
        changed = _changing(f"{name}_.{facts.inplace}".rstrip("."), tail)
        yield changed, lambda: _compiled(op, "inplace", False, {}), (Tag.inplace, *kind)
    if facts.out is not None:
        yield f"{name}.{facts.out}{_with_out(op, tail)}", lambda: _out_front(op), (Tag.out, *kind)
    if op.numbers and overload == "Tensor" and "Tensor other" in tail:
        yield from _scalar_forms(op, tail, kind)


def _whole(op: Op, tail: str) -> Callable:
    """The operator itself; a tensor stands for what its schema has as a bool."""
    front = _compiled(op, "method", False, {})
    if not tail.endswith(" -> bool"):
        return front
    return lambda *args, **kwargs: bool(front(*args, **kwargs))


def _power() -> Callable:
    """``pow`` of a number, which has a kernel of its own for some numbers."""
    general, special = (_compiled(op, "method", False, {}) for op in (pow_scalar, pow_special))

    def power(self: Any, exponent: Any) -> Any:
        floats = self.dtype.is_floating_point or self.dtype.is_complex
        return (special if floats and exponent in SPECIAL_EXPONENTS else general)(self, exponent)

    return power


def _scalar_forms(
    op: Op, tail: str, kind: tuple[Tag, ...]
) -> Iterable[tuple[str, Callable[[], Callable], tuple[Tag, ...]]]:
    """The overloads whose second operand is a number."""
    name = op.schema.name
    overload = "Tensor_Scalar" if name.endswith("_shift") else "Scalar"
    tail = tail.replace("Tensor other", "Scalar other").replace("*, Scalar alpha", "Scalar alpha")
    if f"{name}.{overload}" in REGISTRY:
        return
    yield f"{name}.{overload}{tail}", lambda: _by_position(_compiled(op, "method", False, {})), kind
    if op.inplace is not None:
        changed = _changing(f"{name}_.{overload}", tail)
        yield changed, lambda: _by_position(_compiled(op, "inplace", False, {})), (Tag.inplace, *kind)
    if op.aten.out is not None:
        yield f"{name}.{overload}_out{_with_out(op, tail)}", lambda: _by_position(_out_front(op)), (Tag.out, *kind)


def _changing(head: str, tail: str) -> str:
    """The schema of the in-place form."""
    args = tail.replace("(Tensor self", "(Tensor(a!) self", 1).rsplit(" -> ", 1)[0]
    return f"{head}{args} -> Tensor(a!)"


def _by_position(front: Callable) -> Callable:
    """``front`` with its keyword-only ``alpha`` as a third positional argument."""

    def scalar(self: Any, other: Any, *alpha: Any, **kwargs: Any) -> Any:
        return front(self, other, **kwargs, **({"alpha": alpha[0]} if alpha else {}))

    return scalar


def _with_out(op: Op, tail: str) -> str:
    args = tail[1 : tail.rindex(") -> ")]
    names = op.aten.results
    outs = ", ".join(f"Tensor({chr(97 + i)}!) {n}" for i, n in enumerate(names))
    star = "" if "*, " in args else "*, "
    kept = ["" if n is None or re.fullmatch(r"result\d", n) else n for _, n in op.schema.returns]
    results = ", ".join(f"Tensor({chr(97 + i)}!) {n}".rstrip() for i, n in enumerate(kept))
    return f"({args}, {star}{outs}) -> " + (f"({results})" if len(names) > 1 else results)


def _out_front(op: Op) -> Callable:
    names = op.aten.results
    front = _compiled(op, "method", True, {})

    def write(*args: Any, **kwargs: Any) -> Any:
        outs = tuple([kwargs.pop(n) for n in names])
        _, found, inputs, static, _ = front(*args, **kwargs)
        return call_out(found, inputs, static, outs if len(outs) > 1 else outs[0])

    return write


SOURCE, OWN = Source("aten"), Source("torchlike")
ops.aten._source, ops.torchlike._source = SOURCE, OWN


def aten(text: str, *tags: Tag) -> Callable[[Callable], OpOverload]:
    """Add the overload with this schema to ``torch.ops.aten``; the decorated function computes it."""

    def add(function: Callable) -> OpOverload:
        SOURCE.add(Overload(text, lambda: function, tags))
        name, overload = _names(text)
        return getattr(getattr(ops.aten, name), overload)

    return add


# The objects of operators: those that were declared for other namespaces, and those that have been asked for.
EXTENDED: dict[Any, OpOverload] = {}


def overload_of(op: Any) -> OpOverload:
    """The public object of a declared operator."""
    found = EXTENDED.get(op)
    if found is None:
        namespace = ops.torchlike if op.aten.own else ops.aten
        found = EXTENDED[op] = getattr(getattr(namespace, op.schema.name), op.schema.overload or "default")
    return found


__all__ = ["EXTENDED", "OWN", "SOURCE", "Overload", "Source", "aten", "overload_of"]
