"""Changes of objects: made at once where the capture made the object, noted where it is from outside."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Set
from typing import Any

from torchlike._base.state import DISPATCH, LEVELS, REMAT, SELECTIVE, state
from torchlike._core.overrides.torch_function import PROPERTIES
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.given import Given
from torchlike._transforms.capture.given import attributes as attributes_of
from torchlike._transforms.capture.numbers import Number
from torchlike._transforms.interpreter.effects import (
    ABSENT,
    BLIND,
    OPEN,
    Changed,
    Op,
    base_of,
    delete_cell,
    is_key,
    set_cell,
)  # fmt: skip
from torchlike._transforms.interpreter.live import may_live
from torchlike._transforms.interpreter.reads import MISSING, entry_name, is_container
from torchlike._transforms.interpreter.trust import PLAIN, own, trusted_class

_OTHERWISE = REMAT | SELECTIVE | DISPATCH  # where Python does not run as often as the function says
_SLOT = types.MemberDescriptorType


class Changes:
    """The part of the interpreter that changes objects; see Note [Effects].

    Attributes:
        changed: {id: container from outside that was changed or read as a whole}. places: {(kind, id, key): the
            operation that sets a variable, slot or member of a class}. owners: {id: object whose attributes
            changed}. order: how many operations there were. sealed: why there can be no more, or None.
        mapped: whether any was within vmap, grad or jvp, whose tensors end with them.
    """

    def _start_changes(self) -> None:
        self.sealed: str | None = None
        self.mapped = False
        self.changed, self.places, self.owners, self.order = {}, {}, {}, 0

    def _allow(self, what: str) -> None:
        """Refuse a change that calls of the program could not make."""
        if self.sealed is not None:
            self.refuse_change(f"{what} {self.sealed}")
        if state.active & _OTHERWISE or (state.capture is not None and state.capture.repeats):
            self.refuse_change(f"{what} in a function that is transformed, repeated or run again")
        self.mapped |= bool(state.active & LEVELS)
        self.order += 1

    def allow_given(self, what: str) -> None:
        """Refuse a change of a container of the arguments that comes too late."""
        self.mapped |= bool(state.active & LEVELS)
        if self.sealed is not None:
            self.refuse_change(f"{what} of the arguments {self.sealed}")

    # -- what the function sees ----------------------------------------------------------------------
    def touched(self, x: Any) -> bool:
        """Whether the function has changed ``x``, so that code which is not interpreted would read the old state."""
        found = self.changed.get(id(x))
        return id(x) in self.owners or (found is not None and found.dirty())

    def present(self, x: Any) -> Any:
        """``x``, or what stands for a changed container where it is read by code that is not interpreted."""
        found = self.changed.get(id(x)) if self.changed else None
        if found is None or not found.dirty() or type(x) is not found.base:
            return x
        return self.contents(x)

    def presented(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """``args`` as ``present`` has them."""
        return tuple(map(self.present, args)) if self.changed else args

    def contents(self, x: Any) -> Any:
        """A copy of a container from outside, which is what the function sees from now on."""
        found = self._changed(x)
        if found.contents is None:
            self.reads.whole(x)
            if hasattr(x, "default_factory"):
                self.reads.add("attr", x, "default_factory", x.default_factory, "the default of a dict")
            found.copy()
            if found.base is set and not all(
                a is b for a, b in zip([*found.contents], [*set.__iter__(x)], strict=True)
            ):
                self.refuse("reads a set whose copy has another order")
            self.new(found.contents)
        return found.contents

    def _changed(self, x: Any) -> Changed:
        found = self.changed.get(id(x))
        if found is None:
            found = self.changed[id(x)] = Changed(x, self.order)
        return found

    def forget(self) -> None:
        """Code that is not interpreted may have changed containers that were read as a whole: read them anew."""
        self.changed = {k: found for k, found in self.changed.items() if found.dirty()}

    def untouched(self, optimizer: Any) -> None:
        """Refuse that an optimizer of this library, which reads its groups as they are, takes a step after changes."""
        parts = [optimizer, vars(optimizer), optimizer.param_groups, optimizer.state, *optimizer.state.values()]
        for group in optimizer.param_groups:
            parts += [group, group["params"]]
        if any(map(self.touched, parts)):
            self.refuse_change("changes an optimizer before its step")
        self.forget()

    # -- at the end ------------------------------------------------------------------------------------
    def operations(self) -> list[Op]:
        """All that the function changed, in order."""
        found = []
        for changed in self.changed.values():
            operations = changed.operations()
            if changed.contents is not None:  # the lists that these name were made for them
                [self.new(x) for op in operations for x in op.args if type(x) is list]
            found += operations
        return sorted([*found, *self.places.values()], key=lambda op: op.order)

    def changes_of(self, given: Given) -> list[Op]:
        """What the function changed of the containers among its arguments."""
        ops = []
        for x, (before, attributes) in zip(given.found, given.before, strict=True):
            if before is not None:
                changed = Changed(x, self.order)
                changed.before, changed.contents = before, x
                ops += changed.operations()
            now = attributes_of(x)
            ops += [Op(object.__delattr__, x, (k,), self.order) for k in attributes if k not in now]
            known = attributes.get
            ops += [
                Op(object.__setattr__, x, pair, self.order)
                for pair in now.items()
                if known(pair[0], ABSENT) is not pair[1]
            ]
        [self.new(v) for op in ops for v in op.args if type(v) is list]
        return ops

    def anticipate(self) -> None:
        """Raise where the program would be of no use in the next call, because it changes what it relies on."""
        spent = [*self._replaced()]
        moving = {(r.kind, id(r.holder), r.key) for r, value in spent if _may_move(r.value, value)}
        if moving - self.moving - self.fixed:
            raise Again(moving)
        if spent and self.patient:
            self.refuse_change(f"changes {spent[0][0].name}")

    def _replaced(self) -> Iterator[tuple[Any, Any]]:
        """(read, new value) of what the function has read and changed."""
        found = self.reads.found.get
        for changed in self.changed.values():
            for key, op in changed.entries.items():
                value = op.args[-1] if len(op.args) == 2 else MISSING
                for kind in ("entry", "item", "has"):
                    read = found(self.reads.key(kind, changed.x, key))
                    if read is None and kind == "item" and type(key) is int:
                        read = found(self.reads.key(kind, changed.x, key - len(changed.x)))
                    if read is not None and not unchanged(read.value, value is not MISSING if kind == "has" else value):
                        yield read, value
            for kind in ("whole", "len") if changed.dirty() else ():
                read = found(self.reads.key(kind, changed.x, None))
                if read is not None and (kind == "whole" or changed.length() != read.value):
                    yield read, changed.length()
        for (kind, _, _), op in self.places.items():
            read = found(self.reads.key(kind, op.target, None if kind == "cell" else op.args[0]))
            if read is not None and not unchanged(read.value, op.args[-1] if op.args else MISSING):
                yield read, op.args[-1] if op.args else MISSING

    # -- what the function has set ---------------------------------------------------------------------
    def entry_set(self, x: Any, key: Any) -> Any:
        """What the function has set for an entry: a value, MISSING, or ABSENT."""
        found = self.changed.get(id(x))
        if found is None:
            return ABSENT
        if found.contents is not None:
            return dict.get(found.contents, key, MISSING)
        return found.entry(key) if found.entries else ABSENT

    # -- entries -------------------------------------------------------------------------------------
    def put_entry(self, x: Any, key: Any, value: Any) -> None:
        """``x[key] = value`` of a dict from outside; MISSING deletes what is there."""
        what = f"sets {entry_name(self.reads.name(x), key)}"
        self._allow(what)
        if not is_key(key):
            self.refuse_change(what)
        found = self._changed(x)
        if found.contents is None:
            found.put(key, value, self.order)
        elif value is MISSING:
            found.base.__delitem__(found.contents, key)
        else:
            found.base.__setitem__(found.contents, key, value)

    def _put_element(self, x: Any, key: Any, value: Any) -> None:
        """``x[key] = value`` of a list from outside."""
        found = self._changed(x)
        if type(key) is int and found.contents is None and len(found.ops) == len(found.entries):
            n = self.reads.length(x)
            if -n <= key < n:
                self._allow(f"sets {self.reads.name(x)}[{key}]")
                found.put(key % n, value, self.order)
                return
        self._allow(f"changes {self.reads.name(x)}")
        self.contents(x)[key] = self.present(value) if isinstance(key, slice) else value

    def element(self, x: Any, key: int) -> Any:
        """What the function has set for an element of a list from outside, or ABSENT."""
        found = self.changed.get(id(x))
        if found is None or (found.contents is None and not found.ops):
            return ABSENT
        if found.contents is None and len(found.ops) == len(found.entries) and type(key) is int:
            n = self.reads.length(x)
            return found.entry(key % n) if -n <= key < n else ABSENT
        return self.native(_subscript, (self.contents(x), key), {})

    def set_item(self, x: Any, key: Any, value: Any) -> None:
        """``x[key] = value``."""
        put = self.method(x, "__setitem__")
        if put is not None:
            self.call(put, (key, value))
        elif isinstance(x, Tensor) or self.is_made(x):
            if not isinstance(x, Tensor):
                self.change(x, "sets an entry")
            else:
                self.expose(key, value)
            self.native(put_item, (x, self.constant(key), self.constant(value)), {})
        else:
            self._set_outside(x, self.constants(key) if self.lives else key, value)

    def _set_outside(self, x: Any, key: Any, value: Any) -> None:
        base = base_of(x)
        if base is not None and issubclass(base, dict):
            self.put_entry(x, key, value)
        elif base is list:
            self._put_element(x, key, value)
        elif base is not None:
            self._allow(f"changes {self.reads.name(x)}")
            self.contents(x)[key] = value
        else:
            self.refuse_change(f"sets {entry_name(self.reads.name(x), key)}")

    def delete_item(self, x: Any, key: Any) -> None:
        """``del x[key]``."""
        delete, base = self.method(x, "__delitem__"), base_of(x)
        if delete is not None:
            self.call(delete, (key,))
        elif self.is_made(x) or base is None:
            self.change(x, f"deletes {entry_name(self.reads.name(x), key)}")
            self.native(_delete, (x, key), {})
        elif issubclass(base, dict):
            if self.held(x, key) is MISSING:
                raise KeyError(key)
            self.put_entry(x, key, MISSING)
        else:
            self._allow(f"changes {self.reads.name(x)}")
            self.native(_delete, (self.contents(x), key), {})

    # -- methods of containers -------------------------------------------------------------------------
    def change_by(self, f: Any, x: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A method, written in C, that changes a container from outside."""
        what, base = f"changes {self.reads.name(x)} ({name})", base_of(x)
        if base is None or name in ("__init__", "__setstate__"):
            self.refuse_change(what)
        if name in ("extend", "update", "extendleft", "__iadd__", "__ior__") or name.endswith("_update"):
            args = self._drained(self.presented(args))
        if issubclass(base, dict):
            return self._change_dict(x, name, args, kwargs, what)
        if base is list and name == "__setitem__" and len(args) == 2:
            return self._put_element(x, *args)
        self._allow(what)
        found = self._changed(x)
        if name == "clear":
            found.empty()
            self.new(found.contents)
            return None
        if found.contents is None and name in BLIND[base] and (base is not set or self._are_keys(name, args)):
            args = self._taken(name, args)
            found.ops.append(Op(getattr(base, name), x, args, self.order))
            return x if name.startswith("__i") else None
        return self._on_contents(x, base, name, args, kwargs)

    def change_first(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A function, written in C, that reads and changes a list from outside."""
        self._allow(f"changes {self.reads.name(args[0])} ({f.__name__})")
        self.expose(*args[1:])
        args, kwargs = self.wrapped((self.contents(args[0]), *args[1:]), kwargs)
        return self.native(f, args, kwargs)

    def _are_keys(self, name: str, args: tuple[Any, ...]) -> bool:
        return all([is_key(v) for v in (args if name in ("add", "discard") else self._taken(name, args)[0])])

    def _taken(self, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a method, with the values of what it iterates over."""
        if name not in ("extend", "update", "extendleft", "__iadd__", "__ior__"):
            return args
        return tuple([self.new(list(a) if self._is_own(a) else self.all_of(a)) for a in args])

    def _is_own(self, x: Any) -> bool:
        return type(x) is tuple or (type(x) is list and self.is_made(x))

    def all_of(self, x: Any) -> list[Any]:
        """The elements of an iterable as a list."""
        self.expose(x)
        return self.native(list, (x,), {})

    def _on_contents(self, x: Any, base: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        new = self.contents(x)
        if self.lives:
            self.constants(new)
        method = getattr(new, name)
        if name in ("append", "appendleft", "insert", "__setitem__", "setdefault"):
            result = method(*args)
        else:
            if name == "sort":
                args, kwargs = self.wrapped(args, kwargs)
            self.expose(*args, *kwargs.values())
            result = self.native(method, args, kwargs)
        return x if result is new else result

    def _change_dict(self, x: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], what: str) -> Any:
        if name in ("__setitem__", "update", "__ior__"):
            pairs = [args] if name == "__setitem__" else self._pairs(args, kwargs)
            for key, value in pairs:
                self.put_entry(x, key, value)
            return x if name == "__ior__" else None
        if name == "__delitem__":
            return self.delete_item(x, *args)
        if name in ("pop", "setdefault") and args:
            return self._take_or_set(x, name, *args)
        self._allow(what)
        if name == "clear":
            self._changed(x).empty()
            return self.new(self._changed(x).contents) and None
        return self._on_contents(x, base_of(x), name, args, kwargs)

    def _take_or_set(self, x: Any, name: str, key: Any, *default: Any) -> Any:
        value = self.held(x, key)
        if name == "setdefault":
            if value is MISSING:
                value = default[0] if default else None
                self.put_entry(x, key, value)
            return value
        if value is not MISSING:
            self.put_entry(x, key, MISSING)
        elif not default:
            raise KeyError(key)
        return default[0] if value is MISSING else value

    def _pairs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """What ``dict.update`` sets."""
        found = []
        for x in args:
            if isinstance(x, dict) and self.method(x, "keys") is None:
                self.expose(x)
                found += [(k, dict.get(x, k)) for k in dict.keys(x)]
            elif not isinstance(x, dict | list | tuple) and hasattr(type(x), "keys"):
                found += [(k, self.item(x, k)) for k in self.all_of(self.call(self.attribute(x, "keys")))]
            else:
                found += [tuple(self.all_of(pair)) for pair in self.all_of(x)]
        return [*found, *kwargs.items()]

    def change_in_place(self, function: Any, x: Any, other: Any) -> Any:
        """``x += other`` and its like of a container from outside."""
        name = f"__{function.__name__.rstrip('_')}__"
        if base_of(x) is None or not hasattr(base_of(x), name):
            self.refuse_change(f"changes {self.reads.name(x)}")
        return self.change_by(None, x, name, (other,), {})

    # -- variables, slots, members of classes -------------------------------------------------------------
    def _place(self, kind: str, holder: Any, key: Any, function: Any, args: tuple[Any, ...], what: str) -> None:
        self._allow(what)
        place = kind, id(holder), key if type(key) in PLAIN else id(key)
        known = self.places.get(place)
        if known is None:
            self.places[place] = Op(function, holder, args, self.order)
        else:
            known.function, known.args = function, args

    def place_set(self, kind: str, holder: Any, key: Any = None) -> Any:
        """What the function has set there: a value, MISSING if it deleted it, or ABSENT."""
        op = self.places.get((kind, id(holder), key if type(key) in PLAIN else id(key)))
        if op is None:
            return ABSENT
        return op.args[-1] if op.function is not delete_cell else MISSING

    def variable(self, cell: Any, name: str) -> Any:
        """The value of a variable of a closure, or MISSING."""
        if self.places and (value := self.place_set("cell", cell)) is not ABSENT:
            return value
        try:
            value = cell.cell_contents
        except ValueError:
            value = MISSING
        if self.is_made(cell):
            return value
        return self.live(self.reads.add("cell", cell, None, value, name), "cell", cell, None)

    def set_cell(self, cell: Any, value: Any, name: str) -> None:
        """Let a variable of a closure be ``value``; MISSING: have none."""
        if self.is_made(cell):
            self.change(cell, f"sets the variable {name}")
            set_cell(cell, value) if value is not MISSING else delete_cell(cell)
        elif value is MISSING:
            self._place("cell", cell, None, delete_cell, (), f"deletes the variable {name}")
        else:
            self._place("cell", cell, None, set_cell, (value,), f"sets the variable {name}")

    def _set_member(self, cls: type, name: str, value: Any) -> Any:
        """``cls.name = value``."""
        what = f"sets {cls.__qualname__}.{name}"
        plain = type(value) in PLAIN or type(value) is Number or isinstance(value, Tensor) or is_container(value)
        if trusted_class(cls) or name.startswith("__") or not plain or type(cls).__setattr__ is not type.__setattr__:
            return self._same_or_refuse(cls, name, value, what)
        self._place("class", cls, name, type.__setattr__, (name, value), what)
        return self.classes.clear()

    # -- attributes ----------------------------------------------------------------------------------------
    def set_attribute(self, x: Any, name: str, value: Any) -> Any:
        """``x.name = value``."""
        if isinstance(x, Tensor):
            return self._set_of_tensor(x, name, value)
        cls = type(x)
        if not isinstance(x, type | types.ModuleType) and not trusted_class(cls):
            setter = self.in_class(cls, "__setattr__")
            if isinstance(setter, types.FunctionType):
                return self.call(setter, (x, name, value))
        return self.set_generic(x, name, value)

    def _set_of_tensor(self, x: Any, name: str, value: Any) -> Any:
        if hasattr(type(x), name):
            return self.native(setattr, (x, name, self.constant(value)), {})
        what = f"sets the attribute {name} of a tensor that was made outside"
        if self.is_made(x):
            self.change(x, what)
            return setattr(x, name, self.constant(value))
        members = getattr(x, "__dict__", None)
        if id(x) in self.arguments or members is None:
            self.refuse_change(what)
        return self.put_entry(self.members(x), name, value)

    def set_generic(self, x: Any, name: str, value: Any) -> Any:
        """``object.__setattr__(x, name, value)``."""
        cls, found = type(x), MISSING
        if not isinstance(x, type | types.ModuleType) and not trusted_class(cls):
            found = self.in_class(cls, name)
            if type(found) in PROPERTIES:
                if found.fset is None:
                    raise AttributeError(f"property {name!r} of {cls.__name__!r} object has no setter")
                return self.call(found.fset, (x, value))
            setter = MISSING if found is MISSING else self.in_class(type(found), "__set__")
            if isinstance(setter, types.FunctionType):
                return self.call(setter, (found, x, value))
        if not self.is_made(x) and name != "_opt_called":
            return self._set_attribute_outside(x, name, value, found)
        if name != "_opt_called":
            self.change(x, f"sets the attribute {name}")
        value = self.constant(value)
        if isinstance(x, type):
            self.classes.clear()
            return setattr(x, name, value)
        return object.__setattr__(x, name, value)

    def _set_attribute_outside(self, x: Any, name: str, value: Any, found: Any) -> Any:
        if isinstance(x, type):
            return self._set_member(x, name, value)
        what = f"sets {entry_name(self.reads.name(x), name)}"
        if type(found) is _SLOT:
            self.owners[id(x)] = x
            return self._place("slot", x, found, _set_slot, (found, value), what)
        members = self._writable(x, name, found)
        if members is None:
            return self._same_or_refuse(x, name, value, what)
        self.owners[id(x)] = x
        return self.put_entry(members, name, value)

    def _same_or_refuse(self, x: Any, name: str, value: Any, what: str) -> None:
        """Setting an attribute to what it is changes nothing."""
        try:
            now = self.attribute(x, name)
        except AttributeError:
            now = MISSING
        if not unchanged(now, value):
            self.refuse_change(what)

    def _writable(self, x: Any, name: str, found: Any) -> Any:
        """The ``__dict__`` that an attribute of ``x`` is stored in; None where that is not all that setting it does."""
        cls: Any = type(x)
        if trusted_class(cls):
            found = getattr(cls, name, MISSING)
            if own(cls.__module__) or (cls not in OPEN and cls.__setattr__ is not object.__setattr__):
                return None
        if isinstance(x, types.ModuleType) and (cls is not types.ModuleType or own(x.__name__)):
            return None
        if name.startswith("__") or (found is not MISSING and self._overrides(found)):
            return None
        return self.members(x)

    def delete_attribute(self, x: Any, name: str) -> Any:
        """``del x.name``."""
        deleter = self.method(x, "__delattr__")
        if deleter is not None:
            return self.call(deleter, (name,))
        if isinstance(x, Tensor) and hasattr(type(x), name):
            return self.native(delattr, (x, name), {})
        if self.is_made(x):
            return self._delete_made(x, name)
        return self.delete_generic(x, name)

    def _delete_made(self, x: Any, name: str) -> None:
        self.change(x, f"deletes the attribute {name}")
        if isinstance(x, type):
            self.classes.clear()
            return delattr(x, name)
        return object.__delattr__(x, name)

    def delete_generic(self, x: Any, name: str) -> Any:
        """``object.__delattr__(x, name)``."""
        if self.is_made(x):
            return self._delete_made(x, name)
        what = f"deletes {self.reads.name(x)}.{name}"
        simple = not isinstance(x, type | Tensor) and not trusted_class(type(x))
        found = self.in_class(type(x), name) if simple else MISSING
        members = self._writable(x, name, found) if simple or type(x) in OPEN else None
        if members is None:
            self.refuse_change(what)
        if self.held(members, name) is MISSING:
            raise AttributeError(name)
        self.owners[id(x)] = x
        return self.put_entry(members, name, MISSING)


class Again(Exception):
    """Numbers and tensors that the function reads and changes: it is captured again, with these live.

    Attributes:
        moving: {(kind, id of a holder, key)}. fixed: of those that can be no inputs.
    """

    def __init__(self, moving: Set[Any] = frozenset(), fixed: Set[Any] = frozenset()) -> None:
        super().__init__()
        self.moving, self.fixed = moving, fixed


def _may_move(before: Any, after: Any) -> bool:
    return may_live(before) and type(after) is type(before) and (type(before) is not tuple or may_live(after))


def unchanged(now: Any, value: Any) -> bool:
    """Whether replacing ``now`` by ``value`` changes nothing."""
    if now is value:
        return True
    return type(now) is type(value) and type(now) in PLAIN and now == value and repr(now) == repr(value)


def _set_slot(x: Any, descriptor: Any, value: Any) -> None:
    descriptor.__set__(x, value)


def _subscript(x: Any, key: Any) -> Any:
    return x[key]


def put_item(x: Any, key: Any, value: Any) -> None:
    x[key] = value


def _delete(x: Any, key: Any) -> None:
    del x[key]
