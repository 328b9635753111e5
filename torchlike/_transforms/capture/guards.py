"""Guards: what a program took for granted, as one generated function that says whether it still holds.

Each read of the capture is one condition of it, in the order of the reads: where an earlier one fails, later ones
may mean nothing. Most compare by identity; a number that was set again is as good as the one before.
"""

from __future__ import annotations

import array
import collections
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from torchlike._core.tensor.mutation import CHANGED
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.kinds import kind_of
from torchlike._transforms.capture.mortal import Members, Mortals, Weak, solid
from torchlike._transforms.interpreter.live import KINDS, may_live
from torchlike._transforms.interpreter.reads import MISSING
from torchlike._transforms.interpreter.trust import PLAIN

if TYPE_CHECKING:
    from torchlike._decl.typed import Values
    from torchlike._transforms.interpreter.reads import Read, Reads

_STATE = "the state of an optimizer"
_fields = ("_rg", "_storage", "_view", "_edge", "_ex")
_read = attrgetter(*_fields)
_SHOWN = {"_rg": "requires_grad", "_edge": "grad_fn", "_ex": "the hooks"}
_MANY = 32  # elements from which on a loop in C is quicker than straight code
_CONTAINERS = (dict, collections.OrderedDict, collections.defaultdict, list, tuple, set, frozenset, collections.deque)
_CODE = attrgetter("__code__", "__defaults__", "__kwdefaults__")
_ERRORS = (KeyError, ValueError, IndexError, AttributeError, TypeError, RuntimeError, ReferenceError)


class Guards:
    """The checks of one program.

    Attributes:
        hold: a function without arguments: whether everything is as it was. reads: what it checks.
        mortals: what they do not keep alive, of which ``died`` is told. ``passed``: the arguments that are no tensors.
    """

    def __init__(self, reads: Reads, checks: Sequence[Any], passed: Sequence[Any], died: Callable[..., None]) -> None:
        for optimizer in reads.optimizers:
            _optimizer(reads, optimizer)
        self.mortals = Mortals(died, passed, [MISSING, *reads.optimizers])
        reads.found = {known: self.mortals.read(read) for known, read in reads.found.items()}
        self.reads, self.checks, self._kept = reads, checks, (reads._kept, reads.optimizers)
        self.tensors = [r for r in reads.found.values() if r.kind == "tensor"]
        self.parts = [self._part(r) for r in reads.found.values() if r.kind in _PARTS]
        self.hold = self._compiled()

    def _part(self, read: Read) -> Any:
        part = _PARTS[read.kind](read)
        if isinstance(part, _Content) and len(part.before) < _MANY:
            return part._replace(before=list(map(self.mortals.weak, part.before)))
        return part

    def names(self) -> list[str]:
        """What is checked, for people."""
        return sorted({f"tensor {r.name}" if r.kind == "tensor" else r.name for r in self.reads.found.values()})

    def failed(self) -> str | None:
        """The name of a check that does not hold, or None."""
        for part in self.parts:
            if not part.holds():
                return part.name()
        for read, before in zip(self.tensors, self._tensor_values, strict=True):
            for field, now, value in zip(_fields, _read(read.holder), before, strict=True):
                if now is not value:
                    return f"{_SHOWN.get(field, 'the storage')} of {read.name}"
        for getter, value in self.checks:
            if getter() != value:
                return "a mode or an option of an optimizer"
        return None

    def moved(self) -> set[Any]:
        """The numbers that are not what they were, as the interpreter knows them."""
        found = set()
        for part in self.parts:
            read = part.read
            if read.kind in KINDS and may_live(read.value) and not part.holds():
                try:
                    holder = solid(read.holder)
                    now = KINDS[read.kind](holder, read.key)
                except _ERRORS:
                    continue
                if may_live(now) and type(now) is type(read.value):
                    found.add((read.kind, id(holder), read.key))
        return found

    def _compiled(self) -> Callable[[], bool]:
        writer = _Writer()
        empty = [solid(part.read.holder) for part in self.parts if _is_empty(part)]
        terms = [f"not {writer.bind(any)}({writer.bind(tuple(empty))})"] if empty else []
        found = {(id(part.read.holder), part.read.key) for part in self.parts if _finds(part)}
        terms += [
            part.term(writer)
            for part in self.parts
            if part.read.kind != "class"
            and not _is_empty(part)
            and not (part.read.kind == "has" and part.read.value and (id(part.read.holder), part.read.key) in found)
        ]
        terms += _class_terms([p.read for p in self.parts if p.read.kind == "class"], writer)
        tensors = [r.holder for r in self.tensors]
        self._tensor_values = list(map(_read, tensors))
        owned = [t for part in self.parts if isinstance(part, _State) for t in part.owned]
        if tensors or owned:
            fields = writer.bind(_Fields(tensors, self._tensor_values, owned))
            terms.append(f"{fields}.mark is {writer.bind(CHANGED)}.mark or {fields}.hold()")
        for getter, value in self.checks:
            terms.append(f"{writer.bind(getter)}() == {writer.bind(value)}")
        return writer.function(terms)


class _Fields:
    """The fields of tensors, and the storages of others.

    Attributes:
        mark: of the changes of tensors, when all was as it had been; see ``Changes``.
    """

    def __init__(self, tensors: Any, values: Values, owned: Any) -> None:
        self.mark, self.tensors, self.values = None, tensors, values
        self.owned, self.storages = owned, [t._storage for t in owned]

    def hold(self) -> bool:
        mark = CHANGED.mark  # before the look: what changes meanwhile sets another one
        if list(map(_read, self.tensors)) != self.values or [t._storage for t in self.owned] != self.storages:
            return False
        self.mark = mark
        return True


class _Writer:
    """Source of one condition, and the objects that it names."""

    def __init__(self) -> None:
        self.names, self.bound, self._alive = {}, {}, 0

    def bind(self, x: object) -> str:
        """The name of an object in the source, or the call that gives it."""
        found = self.names.get(id(x))
        if found is None:
            found = self.names[id(x)] = f"o{len(self.names)}"
            self.bound[found] = x
        return f"{found}()" if (type(x) is Weak or type(x) is Members) and found[0] == "o" else found

    def alive(self, weak: Weak) -> str | None:
        """A name for the object for which ``weak`` stands, from here on; None if it has one.

        For conditions that are always asked, of what they find to be the object.
        """
        if self.bind(weak)[0] != "o":
            return None
        self._alive += 1
        name = self.names[id(weak)] = f"a{self._alive}"
        return name

    def members(self, owner: Weak, members: Members) -> str:
        """The condition that an object has the dict of attributes that it had, which has a name from there on."""
        name = self.names[id(members)] = f"d{len(self.names)}"
        return f"id({name} := {self.bind(owner)}.__dict__) == {members.number}"

    def function(self, terms: Iterable[Any]) -> Callable[..., Any]:
        """The condition as a function without arguments; terms are expressions, or lists of lines that may return."""
        lines = ["try:"]
        for found, group in groupby(terms, key=type):
            if found is list:
                lines += [f" {line}" for part in group for line in part]
            else:
                lines += [" if not (", *[f"   ({term}) and" for term in group], "   True): return False"]
        lines += [" return True", f"except {self.bind(_ERRORS)}:", " return False"]
        space = dict(self.bound)
        lines = ["def hold(", *[f" {n}={n}," for n in self.bound], "):", *[f" {line}" for line in lines]]
        exec(compile("\n".join(lines), "<torchlike guards>", "exec"), space)
        return space["hold"]

    def parts(self, source: str, values: Collection[Any], otherwise: str = "True") -> list[str]:
        """Lines that return False unless the elements of ``source`` are ``values``, or ``otherwise`` is false."""
        names, same = [], []
        for i, value in enumerate(values):
            known = self.bind(value)
            names.append((self.alive(value) if type(value) is Weak else None) or f"v{i}")
            dead = f" or {names[i]} is None" if type(value) is Weak else ""
            same.append(f"{names[i]} is not {known}{dead}")
        return [f"{', '.join(names)}, = {source}", f"if ({' or '.join(same)}) and {otherwise}: return False"]


def alike(now: Any, before: Any) -> bool:
    """Whether a value is as good as the one before."""
    if type(before) is Weak or type(before) is Members:
        return now is not None and now is before()
    if now is before:
        return True
    if type(now) is not type(before) or type(now) not in PLAIN or now != before:
        return False
    return bool(now) or repr(now) == repr(before)  # -0.0 is not 0.0


class _Part(NamedTuple):
    """One read: ``get(holder, key)`` gives what must be ``read.value``; ``source`` is the same as code."""

    read: object
    get: object
    source: str

    def holds(self) -> bool:
        try:
            now = self.get(solid(self.read.holder), self.read.key)
        except _ERRORS:
            now = MISSING
        return alike(now, self.read.value)

    def name(self) -> str:
        return self.read.name

    def term(self, writer: _Writer) -> str:
        read = self.read
        if read.value is MISSING:
            return f"{writer.bind(self.holds)}()"
        if type(read.value) is Members:
            return writer.members(read.holder, read.value)
        now = self.source.format(x=writer.bind(read.holder), k=writer.bind(read.key))
        value = writer.bind(read.value)
        if type(read.value) is Weak:
            name = writer.alive(read.value)
            return f"{now if name is None else f'({name} := {now})'} is {value} is not None"
        if type(read.value) not in PLAIN or read.value is None or type(read.value) is bool:
            return f"{now} is {value}"
        return f"{now} is {value} or {writer.bind(alike)}({now}, {value})"


class _Content(NamedTuple):
    """A container, of which everything counts: ``get(holder)`` gives it in a form that can be compared."""

    read: Any
    get: Any
    before: Any
    source: str

    def holds(self) -> bool:
        now = self.get(solid(self.read.holder))
        return len(now) == len(self.before) and all(map(alike, now, self.before))

    def name(self) -> str:
        now, read = self.get(solid(self.read.holder)), self.read
        if len(now) != len(self.before):
            return f"the length of {read.name}"
        i = next(i for i, pair in enumerate(zip(now, self.before, strict=True)) if not alike(*pair))
        if isinstance(solid(read.holder), dict):
            key = now[i % (len(now) // 2)]
            return f"{read.name}.{key}" if isinstance(key, str) and key.isidentifier() else f"{read.name}[{key!r}]"
        return f"{read.name}[{i}]" if isinstance(solid(read.holder), list | collections.deque) else read.name

    def term(self, writer: _Writer) -> Any:
        x = writer.bind(self.read.holder)
        slow = f"{writer.bind(self.holds)}()"
        if not self.source:
            return slow
        if not self.before:
            return f"not {x}"
        half = len(self.before) // 2
        if len(self.before) < _MANY and isinstance(solid(self.read.holder), dict):
            keys, values = self.before[:half], self.before[half:]
            return writer.parts(x, keys, f"not {slow}") + writer.parts(f"{x}.values()", values, f"not {slow}")
        if len(self.before) < _MANY:
            return writer.parts(x, self.before, f"not {slow}")
        parts = {"keys": self.before[:half], "values": self.before[half:], "all": self.before}
        names = {k: writer.bind(v) for k, v in parts.items() if f"{{{k}}}" in self.source}
        is_dict = isinstance(solid(self.read.holder), dict)
        helpers: dict[str, Any] = {"n": len(parts["keys"]) if is_dict else len(self.before)}
        helpers |= {
            "every": writer.bind(all),
            "map": writer.bind(map),
            "same": writer.bind(is_),
            "len": writer.bind(len),
        }
        return f"{self.source.format(x=x, **names, **helpers)} or {slow}"


def _finds(part: Any) -> bool:
    """Whether a part asks for an entry by the dict's own brackets, which fail where there is none."""
    kind = type(solid(part.read.holder))
    return part.read.kind == "entry" and part.read.value is not MISSING and kind in (dict, collections.OrderedDict)


def _is_empty(part: Any) -> bool:
    """Whether a part says that a container of Python's own is empty: such are checked together."""
    read = part.read
    if type(solid(read.holder)) not in _CONTAINERS:
        return False
    return read.value == 0 if read.kind == "len" else read.kind == "whole" and not part.before


def _content(read: Read) -> _Content:
    """The check of a whole container."""
    x = solid(read.holder)
    if isinstance(x, dict):
        fast = "{len}({x}) == {n} and {every}({map}({same}, {x}, {keys}))"
        fast += " and {every}({map}({same}, {x}.values(), {values}))"
        plain = type(x) in (dict, collections.OrderedDict, collections.defaultdict)
        return _Content(read, _pairs, _pairs(x), fast if plain else "")
    if isinstance(x, list | collections.deque):
        fast = "{len}({x}) == {n} and {every}({map}({same}, {x}, {all}))"
        return _Content(read, list, list(x), fast if type(x) in (list, collections.deque) else "")
    get = _elements if isinstance(x, set) else _bytes if isinstance(x, np.ndarray | array.array) else _proxied
    if isinstance(x, bytearray):
        get = bytes
    return _Content(read, get, get(x), "")


def _pairs(d: dict[Any, Any]) -> list[Any]:
    base: Any = collections.OrderedDict if isinstance(d, collections.OrderedDict) else dict  # has an order of its own
    return [*base.keys(d), *base.values(d)]


def _elements(s: set[Any]) -> list[Any]:
    """In their order, which differs between equal sets."""
    return [*set.__iter__(s)]


def _bytes(x: Any) -> list[Any]:
    if isinstance(x, array.array):
        return [x.tobytes()]
    if x.dtype == object:
        return [str(x.shape), *x.flat]
    return [x.dtype.str, str(x.shape), x.tobytes()]


def _proxied(x: Mapping[Any, Any]) -> list[Any]:
    return [part for key in x for part in (key, x[key])]


class _Code(NamedTuple):
    """A function: its code and defaults."""

    read: object
    before: tuple

    def holds(self) -> bool:
        f = solid(self.read.holder)
        return all(map(is_, (f.__code__, f.__defaults__, f.__kwdefaults__), self.before))

    def name(self) -> str:
        return f"the code or the defaults of {self.read.name}"

    def term(self, writer: _Writer) -> str:
        x, fields = writer.bind(self.read.holder), ("__code__", "__defaults__", "__kwdefaults__")
        return " and ".join([f"{x}.{k} is {writer.bind(v)}" for k, v in zip(fields, self.before, strict=True)])


class _Kind(NamedTuple):
    """What kind of tensor a getter gives."""

    read: object

    def holds(self) -> bool:
        try:
            return kind_of(self.read.holder()) == self.read.value
        except _ERRORS:
            return False

    def name(self) -> str:
        return f"the shape, dtype or history of {self.read.name}"

    def term(self, writer: _Writer) -> str:
        return f"{writer.bind(kind_of)}({writer.bind(self.read.holder)}()) == {writer.bind(self.read.value)}"


class _Has(NamedTuple):
    """Whether a dict has a key."""

    read: object

    def holds(self) -> bool:
        return dict.__contains__(solid(self.read.holder), self.read.key) is self.read.value

    def name(self) -> str:
        return self.read.name

    def term(self, writer: _Writer) -> str:
        if type(solid(self.read.holder)) not in (dict, collections.OrderedDict, collections.defaultdict):
            return f"{writer.bind(self.holds)}()"
        word = "in" if self.read.value else "not in"
        return f"{writer.bind(self.read.key)} {word} {writer.bind(self.read.holder)}"


class _Entry(_Part):
    """An entry of a dict, or that there is none."""

    def term(self, writer: _Writer) -> str:
        read = self.read
        if type(holder := solid(read.holder)) is dict or type(holder) is collections.OrderedDict:
            if read.value is MISSING:
                return f"{writer.bind(read.key)} not in {writer.bind(read.holder)}"
            return super().term(writer)
        return f"{writer.bind(self.holds)}()"


def _class_terms(reads: Iterable[Read], writer: _Writer) -> list[Any]:
    """The members of classes: names that must be absent are checked together."""
    absent, terms = {}, []
    for read in reads:
        members = vars(read.holder)
        if read.value is MISSING:
            absent.setdefault(read.holder, (members, []))[1].append(read.key)
        else:
            alive = " is not None" if type(read.value) is Weak else ""
            terms.append(f"{writer.bind(members)}[{read.key!r}] is {writer.bind(read.value)}{alive}")
    for members, names in absent.values():
        terms.append(f"{writer.bind(members.keys().isdisjoint)}({writer.bind(tuple(names))})")
    return terms


def _part(get: Callable[..., Any], source: str) -> Callable[[Read], _Part]:
    return lambda read: _Part(read, get, source)


_PARTS: dict[str, Callable[[Read], Any]] = {
    "entry": lambda read: _Entry(read, lambda d, k: dict.get(d, k, MISSING), "{x}[{k}]"),
    "has": _Has,
    "kind": _Kind,
    "item": _part(lambda x, i: x[i], "{x}[{k}]"),
    "len": _part(lambda x, _: len(x), "len({x})"),
    "cell": _part(lambda cell, _: cell.cell_contents, "{x}.cell_contents"),
    "bases": _part(lambda cls, _: cls.__mro__, "{x}.__mro__"),
    "heirs": _part(lambda cls, known: cls.__subclasses__() == list(known), "({x}.__subclasses__() == [*{k}])"),
    "instance": _part(isinstance, "isinstance({x}, {k})"),
    "subclass": _part(issubclass, "issubclass({x}, {k})"),
    "class": _part(lambda cls, k: vars(cls).get(k, MISSING), ""),
    "attr": _part(getattr, "getattr({x}, {k})"),
    "slot": _part(lambda x, k: k.__get__(x), "{k}.__get__({x})"),
    "dict": _part(lambda x, _: object.__getattribute__(x, "__dict__"), "{x}.__dict__"),
    "type": _part(lambda x, _: type(x), "type({x})"),
    "setting": _part(lambda settings, _: settings(), "{x}()"),
    "version": _part(lambda t, _: t._vc.version, "{x}._vc.version"),
    "alive": _part(lambda reference, _: reference() is not None, "({x}() is not None)"),
    "weak type": _part(lambda reference, _: type(reference()), "type({x}())"),
    "weak dict": _part(lambda reference, _: object.__getattribute__(reference(), "__dict__"), "{x}().__dict__"),
    "weak slot": _part(lambda reference, k: k.__get__(reference()), "{k}.__get__({x}())"),
    "weak attr": _part(lambda reference, k: getattr(reference(), k), "getattr({x}(), {k})"),
    "variable": _part(lambda x, given: x.get(*given), "{x}.get(*{k})"),
    "argument": _part(lambda arguments, i: arguments.leaves[i], "{x}.leaves[{k}]"),
    "number": _part(lambda get, _: type(get()), "type({x}())"),
    "number test": _part(lambda get, _: get(), "{x}()"),
    "code": lambda read: _Code(read, _CODE(solid(read.holder))),
    "whole": _content,
    "array": _content,
    "proxy": _content,
}


def _optimizer(reads: Reads, optimizer: Any) -> None:
    """Guard which parameters and state an optimizer has; numbers such as the learning rate are inputs."""
    name = type(optimizer).__name__
    members = vars(optimizer)
    reads.entry(members, "param_groups", f"{name}.param_groups")
    reads.entry(members, "state", f"{name}.state")
    reads.whole(optimizer.param_groups, f"{name}.param_groups")
    for i, group in enumerate(optimizer.param_groups):
        label = f"{name}.param_groups[{i}]"
        reads.entry(group, "params", f"{label}['params']")
        reads.whole(group["params"], f"{label}['params']")
        for key, value in group.items():
            if isinstance(value, Tensor):
                reads.entry(group, key, f"{label}[{key!r}]")
    for hooks in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
        if hooks in members:
            reads.entry(members, hooks, f"{name}.{hooks}")
            reads.whole(members[hooks], f"{name}.{hooks}")
    reads.add("states", optimizer.state, None, None, _STATE)


class _State:
    """The state of an optimizer: which tensors it holds; of these only which storage they have counts."""

    def __init__(self, read: Read) -> None:
        self.read, state = read, read.holder
        self.keys, self.states = list(state), list(state.values())
        self.lengths, self.views = list(map(len, self.states)), [s.values() for s in self.states]
        self.held = list(chain.from_iterable(self.views))
        self.owned = [v for v in self.held if isinstance(v, Tensor)]
        self.storages = [t._storage for t in self.owned]

    def holds(self) -> bool:
        """Whether it is as it was."""
        return self._same() and [t._storage for t in self.owned] == self.storages

    def _same(self) -> bool:
        """Whether it holds the same objects."""
        state = self.read.holder
        return (
            len(state) == len(self.keys)
            and all(map(is_, state, self.keys))
            and all(map(is_, state.values(), self.states))
            and list(map(len, self.states)) == self.lengths
            and (all(map(is_, self._values(), self.held)) or all(map(alike, self._values(), self.held)))
        )

    def _values(self) -> Iterator[Any]:
        return chain.from_iterable(self.views)

    def name(self) -> str:
        """What has changed."""
        return _STATE

    def term(self, writer: _Writer) -> Any:
        """The condition but for the storages, which are checked with the fields of other tensors."""
        same = writer.bind(self._same)
        if len(self.held) >= _MANY:
            return f"{same}()"
        state = writer.bind(self.read.holder)
        if not self.keys:
            return f"not {state}"
        lines = writer.parts(state, self.keys) + writer.parts(f"{state}.values()", self.states)
        for view, values in zip(self.views, map(list, self.views), strict=True):
            if values:
                lines += writer.parts(writer.bind(view), values, f"not {same}()")
            else:
                lines.append(f"if {writer.bind(view)}: return False")
        return lines


_PARTS["states"] = _State
