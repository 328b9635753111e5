"""Attributes and subscripts of objects as the language defines them, with each read noted."""

from __future__ import annotations

import collections
import contextlib
import functools
import re
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from torchlike._core.autograd.node import Node
from torchlike._core.overrides.torch_function import PROPERTIES
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.interpreter.ancestry import note_bases, of_super, replaced
from torchlike._transforms.interpreter.effects import ABSENT, MUTATORS, OPEN
from torchlike._transforms.interpreter.live import may_live
from torchlike._transforms.interpreter.operators import contained, subscript
from torchlike._transforms.interpreter.protocols import HOLDERS, Protocols, is_iterator
from torchlike._transforms.interpreter.reads import MISSING, entry_name, is_container
from torchlike._transforms.interpreter.trust import PLAIN, computed, hidden, own, trusted_class

if TYPE_CHECKING:
    from torchlike._decl.typed import Value

_OF_ANY_NODE = frozenset(("name", "next_functions", "variable", "__class__", "register_hook", "register_prehook"))
_OF_NODES = frozenset(("retains_grad", "_backward_hooks"))  # what a tensor with a history says of its node
_OF_HISTORY = _OF_NODES | {"grad_fn", "_grad_fn", "output_nr", "grad_dtype"}
_SLOT = types.MemberDescriptorType
_STORED = (_SLOT, types.GetSetDescriptorType)
_C_DESCRIPTORS = (types.GetSetDescriptorType, types.MethodDescriptorType, types.WrapperDescriptorType)
_C_METHODS = (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodType, *_C_DESCRIPTORS)


class Objects(Protocols):
    """The part of the interpreter that reads and changes objects.

    Attributes:
        made: {id: object} of what was made since the capture began: it is free to change, and nothing of it is
            guarded. around: what was made before the bodies, of loops and branches, that run now: these may not
            change it. reads: what was read of the others. arguments: ids of the tensors that stand for arguments.
    """

    made: dict[int, Any]
    around: list[dict[int, Any]]

    def is_made(self, x: Any) -> bool:
        """Whether ``x`` was made while capturing."""
        return id(x) in self.made or (bool(self.around) and self._is_around(x))

    def _is_around(self, x: Any) -> bool:
        return any([id(x) in made for made in self.around])

    @contextlib.contextmanager
    def body(self) -> Iterator[None]:
        """A context for a function that something else repeats, or leaves out: it changes nothing around it."""
        self.around.append(self.made)
        self.made = {}
        try:
            yield
        finally:
            inner = self.made
            self.made = self.around.pop()
            self.made.update(inner)

    def new(self, x: Any) -> Any:
        """Note that ``x`` was just made."""
        if type(x) not in PLAIN:
            self.made[id(x)] = x
        return x

    def refuse(self, what: str) -> NoReturn:
        """End the trace."""
        raise Unsupported(what)

    def refuse_change(self, what: str) -> NoReturn:
        """End the trace at a change of what was there before, which may be one of those that only first calls make."""
        error = Unsupported(f"{what}, which a program would not do again")
        error.transient = True
        raise error

    def change(self, x: Any, what: str) -> None:
        """Refuse to change what was there before, or what was made around the body that runs."""
        if not self.is_made(x):
            self.refuse_change(what)
        if id(x) in self.given:
            self.allow_given(what)
        if self.around and id(x) not in self.made and type(x) not in PLAIN:
            self.refuse_change(f"{what} in the body of a loop or branch")

    # -- classes -----------------------------------------------------------------------------------
    def in_class(self, cls: type, name: str) -> Any:
        """What the classes in ``cls.__mro__`` define as ``name``, or MISSING."""
        known = self.classes.get((cls, name))
        if known is None:
            known = self.classes[cls, name] = (self._in_class(cls, name),)
        return known[0]

    def _in_class(self, cls: type, name: str) -> Any:
        note_bases(self, cls)
        for base in type.__dict__["__mro__"].__get__(cls):
            value = self.member(base, name)
            if value is not MISSING:
                return value
        return MISSING

    def member(self, base: Any, name: str) -> Any:
        """What a class itself defines as ``name``, or MISSING."""
        if self.places and (value := self.place_set("class", base, name)) is not ABSENT:
            return value
        value = type.__dict__["__dict__"].__get__(base).get(name, MISSING)
        if base.__flags__ & 1 << 9 and not self.is_made(base):  # others cannot change
            self.reads.add("class", base, name, value, f"{base.__qualname__}.{name}")
        return value

    def method(self, x: Any, name: str) -> Any:
        """The method ``name`` of ``type(x)`` that is written in Python, bound to ``x``; None if there is none."""
        cls = type(x)
        if trusted_class(cls) or isinstance(x, Tensor):
            return None
        found = self.in_class(cls, name)
        if isinstance(found, types.FunctionType):
            return types.MethodType(found, x)
        if found is MISSING or found is None or type(found) in _C_DESCRIPTORS or type(found) in _C_METHODS:
            return None
        return self.bound(found, x, cls)

    def bound(self, found: Any, x: Any, cls: type) -> Any:
        """What a member of a class gives when it is read from ``x`` (None: from the class)."""
        kind = type(found)
        if kind is types.FunctionType:
            return found if x is None else types.MethodType(found, x)
        if kind in PLAIN:
            return found
        if kind in PROPERTIES:
            return found if x is None else self.call(self.getter_of(found), (x,))
        if kind is classmethod:
            return self.bound(found.__func__, cls, type(cls))
        if kind is staticmethod:
            return found.__func__
        if kind in _STORED and x is not None:
            return self._slot(found, x, cls)
        if kind is functools.cached_property and x is not None:  # the lock of Python 3.11's is nobody's concern here
            value = self.call(found.func, (x,))
            self.set_generic(x, found.attrname, value)
            return value
        get = type(found).__dict__.get("__get__") if trusted_class(kind) else self.in_class(kind, "__get__")
        if get is None or get is MISSING:
            return found
        if isinstance(get, types.FunctionType):
            return self.call(get, (found, x, cls))
        return found.__get__(x, cls) if x is None or not computed(found) else self._slot(found, x, cls)

    def _slot(self, found: Any, x: Any, cls: type) -> Any:
        """What a slot, or an attribute that C computes, holds for ``x``."""
        if self.places and (value := self.place_set("slot", x, found)) is not ABSENT:
            return value
        try:
            value = found.__get__(x, cls)
        except AttributeError:
            if type(found) is _SLOT and not self.is_made(x):
                self.reads.add("slot", x, found, MISSING, f"{self.reads.name(x)}.{found.__name__}")
            raise
        again = type(found) is _SLOT or type(value) in PLAIN or found.__get__(x, cls) is value
        field = getattr(found, "__name__", "a field")  # those of named tuples have no name
        if self.is_made(x) or not again or field == "__class__":
            return value
        name = f"{self.reads.name(x)}.{field}"
        return self.live(self.reads.add("slot", x, found, value, name), "slot", x, found)

    def getter_of(self, found: property) -> Any:
        """The getter of a property."""
        if found.fget is None:
            raise AttributeError("unreadable attribute")
        return found.fget

    # -- attributes --------------------------------------------------------------------------------
    def attribute(self, x: Any, name: str) -> Any:
        """``x.name``."""
        x = self.constant(x)
        cls = type(x)
        if isinstance(x, Tensor):
            return self._of_tensor(x, cls, name)
        if cls is types.ModuleType or isinstance(x, types.ModuleType):
            return self._of_module(x, name)
        if isinstance(x, type):
            return self._of_class(x, name)
        if cls is super:
            return of_super(self, x, name)
        if trusted_class(cls):
            return self._of_builtin(x, name)
        look = self.in_class(cls, "__getattribute__")
        try:
            if isinstance(look, types.FunctionType):
                return self.call(look, (x, name))
            return self.generic(x, name)
        except AttributeError:
            fallback = self.in_class(cls, "__getattr__")
            if not isinstance(fallback, types.FunctionType):
                raise
        return self.call(fallback, (x, name))

    def generic(self, x: Any, name: str) -> Any:
        """``object.__getattribute__(x, name)``."""
        cls = type(x)
        if not self.is_made(x):
            self.reads.add("type", x, None, cls, f"the class of {self.reads.name(x)}")
        found = self.in_class(cls, name)
        if found is not MISSING and self._overrides(found):
            if name == "__dict__":
                return self.members(x)
            return self.bound(found, x, cls)
        members = self.members(x)
        if members is not None:
            value = self.held(members, name, f"{self.reads.name(x)}.{name}")
            if value is not MISSING:
                return value
        if found is MISSING:
            raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}", name=name, obj=x)
        return self._live_member(cls, name, found) if may_live(found) else self.bound(found, x, cls)

    def _live_member(self, cls: type, name: str, value: Any) -> Any:
        """A number or tensor that is a member of a class."""
        for base in cls.__mro__ if self.moving else ():
            if self.place_set("class", base, name) is not ABSENT:
                break
            if name in vars(base):
                return self.live(value, "class", base, name)
        return value

    def _overrides(self, found: Any) -> bool:
        """Whether a member of a class is a data descriptor."""
        kind = type(found)
        if kind is types.FunctionType or kind in PLAIN:
            return False
        return hasattr(kind, "__set__") or hasattr(kind, "__delete__")

    def members(self, x: Any) -> Any:
        """``x.__dict__``, or None."""
        try:
            found = object.__getattribute__(x, "__dict__")
        except AttributeError:
            return None
        if self.is_made(x):
            self.new(found)
        else:
            self.reads.add("dict", x, None, found, f"{self.reads.name(x)}.__dict__")
            self.reads.names[id(found)] = self.reads.name(x)
        return found

    def held(self, d: dict[Any, Any], key: Any, name: str | None = None) -> Any:
        """``d[key]`` of a dict, or MISSING."""
        key = self.key(key)
        if self.is_made(d):
            return dict.get(d, key, MISSING)
        if self.changed and (value := self.entry_set(d, key)) is not ABSENT:
            return value
        return self.live(self.reads.entry(d, key, name), "entry", d, key)

    def _of_tensor(self, x: Any, cls: type, name: str) -> Any:
        for base in cls.__mro__:
            if name in base.__dict__:
                if own(base.__module__) or base.__flags__ & 1 << 9 == 0:
                    value = replaced(self, base, name)
                    return self.of_native_tensor(x, name) if value is None else self.bound(value, x, cls)
                return self.bound(self.in_class(cls, name), x, cls)
        members = getattr(x, "__dict__", None)
        if id(x) in self.arguments:
            self.refuse(f"reads the attribute {name} of an argument")
        if members is not None and not self.is_made(x):
            self.reads.add("dict", x, None, members, f"{self.reads.name(x)}.__dict__")
            value = self.held(members, name, f"{self.reads.name(x)}.{name}")
        else:
            value = MISSING if members is None else members.get(name, MISSING)
        if value is not MISSING:
            return value
        fallback = self.in_class(cls, "__getattr__")
        if fallback is not MISSING:
            return self.call(fallback, (x, name))
        raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}", name=name, obj=x)

    def of_native_tensor(self, x: Any, name: str) -> Any:
        """An attribute that this library defines for tensors."""
        if name == "_version" and (self.frame is None or self.frame.watched) and not self.is_made(x):
            self.refuse("reads the version of a tensor that was made outside")
        if name == "is_leaf" and id(x) in self.histories and x._rg and x._edge is None:
            return False
        if name == "__dict__":
            return self.refuse("reads the attributes of an argument") if id(x) in self.arguments else self.members(x)
        if id(x) in self.histories and name in _OF_HISTORY:
            self.refuse(f"reads the {name} of a result")
        value = self.native(getattr, (x, name), {})
        if name in _OF_NODES and not self.is_made(x):
            self.reads.add("attr", x, name, value, f"{self.reads.name(x)}.{name}")
        return value

    def _of_module(self, x: types.ModuleType, name: str) -> Any:
        value = self.held(vars(x), name, f"{x.__name__}.{name}")
        if value is not MISSING:
            return value
        made = MISSING if own(x.__name__) else self.held(vars(x), "__getattr__", x.__name__)
        if isinstance(made, types.FunctionType) and name != "__getattr__":
            return self.call(made, (name,))
        value = getattr(x, name)  # a submodule or name that is made on first use
        return value if type(x) is types.ModuleType else self._option(x, name, value)

    def _of_class(self, x: type, name: str) -> Any:
        meta = type(x)
        if trusted_class(x):
            return getattr(x, name)
        if name == "__dict__" and not self.places:  # whoever reads it as a whole has it guarded so
            return x.__dict__
        above = getattr(meta, name, MISSING) if meta is type else self.in_class(meta, name)
        if above is not MISSING and self._overrides(above):
            if not trusted_class(meta) and not name.startswith("__"):
                return self.bound(above, x, meta)
            return self._told_by_meta(x, name)
        found = self.in_class(x, name)
        if found is not MISSING:
            return self._live_member(x, name, found) if may_live(found) else self.bound(found, None, x)
        if above is not MISSING:
            return self._told_by_meta(x, name) if meta is type else self.bound(above, x, meta)
        fallback = MISSING if meta is type else self.in_class(meta, "__getattr__")
        if isinstance(fallback, types.FunctionType):
            return self.call(fallback, (x, name))
        return getattr(x, name)

    def _told_by_meta(self, x: type, name: str) -> Any:
        """An attribute of a class that ``type`` defines, such as its name."""
        value = getattr(x, name)
        if not self.is_made(x) and getattr(x, name) is value:
            self.reads.add("attr", x, name, value, f"{x.__qualname__}.{name}")
        return value

    def _of_builtin(self, x: Any, name: str) -> Any:
        """An attribute of an object that C or this library defines."""
        if isinstance(x, Node) and name not in _OF_ANY_NODE and self.frame.watched and not self.is_made(x):
            self.refuse(f"reads {name} of a node that was made outside")
        if id(x) in self.owners and (value := self.entry_set(x.__dict__, name)) is not ABSENT:
            return self._present_attribute(x, name, value)
        if type(x) in OPEN and name in x.__dict__ and not self.is_made(x):
            return self.held(self.members(x), name, f"{self.reads.name(x)}.{name}")
        value = getattr(x, name, MISSING)
        if value is MISSING:
            if not self.is_made(x) and type(x) not in PLAIN:
                self.reads.add("attr", x, name, MISSING, f"{self.reads.name(x)}.{name}")
            return self.native(getattr, (x, name), {})
        kind = type(value)
        if self.is_made(x) or type(x) in PLAIN or isinstance(x, tuple | frozenset):
            return self.new(value) if name == "__dict__" else value
        if own(type(x).__module__):  # this library's own state is not the function's
            return self.new(value) if is_container(value) else self._option(x, name, value)
        if kind in _C_METHODS and getattr(value, "__self__", None) is x:
            return value
        if type(x) is np.ndarray:
            if name == "flags":
                self.refuse(f"reads the flags of {self.reads.name(x)}")
            self.reads.whole(x)
            return value
        if kind in PLAIN or getattr(x, name, MISSING) is value:
            self.reads.add("attr", x, name, value, f"{self.reads.name(x)}.{name}")
            return self.live(value, "attr", x, name)
        return value

    def _option(self, x: Any, name: str, value: Any) -> Any:
        """What the user's code finds in an object of this library, such as a setting or an option."""
        users = self.frame is None or self.frame.watched
        if not users or type(value) not in PLAIN or not hasattr(x, "__dict__"):
            return value
        self.reads.add("attr", x, name, value, f"{self.reads.name(x)}.{name}")
        return self.live(value, "attr", x, name)

    def _present_attribute(self, x: Any, name: str, value: Any) -> Any:
        if value is MISSING:
            raise AttributeError(f"{type(x).__name__!r} object has no attribute {name!r}", name=name, obj=x)
        return value

    # -- subscripts --------------------------------------------------------------------------------
    def item(self, x: Any, key: Any) -> Any:
        """``x[key]``."""
        key = self.constants(key) if self.lives else key
        if isinstance(x, type):
            return self._item_of_class(x, key)
        get = self.method(x, "__getitem__")
        if get is not None:
            return self.call(get, (key,))
        if type(key) not in PLAIN and not isinstance(x, dict) and (place := self.method(key, "__index__")) is not None:
            key = self.call(place, ())
        if isinstance(x, dict) and type(x) not in (dict, collections.OrderedDict):  # which may have a default
            return self._entry(x, key)
        if self.is_made(x) or not is_container(x):
            self.expose(x, key)
            key = self.key(key) if isinstance(x, dict) else key
            return self.native(subscript, (x, key), {}) if type(x) not in HOLDERS else self.handed(subscript, x, key)
        if isinstance(x, dict):
            return self._entry(x, key)
        if self.changed and (value := self.element(x, key)) is not ABSENT:
            return value
        if isinstance(x, list | collections.deque) and isinstance(key, int):
            value = x[key]
            return self.live(self.reads.add("item", x, key, value, f"{self.reads.name(x)}[{key}]"), "item", x, key)
        self.reads.whole(x)
        return self.native(subscript, (x, key), {})

    def _item_of_class(self, x: type, key: Any) -> Any:
        if trusted_class(x):
            return x[key]
        get = MISSING if type(x) is type else self.in_class(type(x), "__getitem__")
        if isinstance(get, types.FunctionType):
            return self.call(get, (x, key))
        return self.call(self.attribute(x, "__class_getitem__"), (key,))

    def key(self, x: Any) -> Any:
        """``x`` as what a dict or set finds its value by: no live number, and hashed by no code that is not seen."""
        x = self.constants(x) if self.lives else x
        if type(x) not in PLAIN:
            self.native(hash, (x,), {})
        return x

    def _entry(self, x: Any, key: Any) -> Any:
        value = self.held(x, key)
        if value is not MISSING:
            return value
        fallback = self.method(x, "__missing__")
        if fallback is not None:
            return self.call(fallback, (key,))
        if isinstance(x, collections.defaultdict) and x.default_factory is not None:
            value = self.call(x.default_factory)
            self.set_item(x, key, value)
            return value
        raise KeyError(key)

    def contains(self, x: Any, value: Any) -> bool:
        """``value in x``."""
        method = self.method(x, "__contains__")
        if method is not None:
            return self.truth(self.call(method, (value,)))
        if isinstance(x, dict) and not self.is_made(x):
            return self.has_key(x, value)
        if not isinstance(x, Tensor) and not trusted_class(type(x)) and not is_container(x):
            return any(self.truth(self.compare("==", v, value)) for v in self.iterate(x))
        x = self.present(x)
        self.expose(x)
        return self.native(contained, (x, value), {})

    def has_key(self, x: Any, key: Any) -> bool:
        """Whether a dict from outside has a key."""
        key = self.key(key)
        if self.changed and (value := self.entry_set(x, key)) is not ABSENT:
            return value is not MISSING
        return self.reads.add("has", x, key, dict.__contains__(x, key), entry_name(self.reads.name(x), key))

    # -- what something else reads ------------------------------------------------------------------
    def expose(self, *values: Value) -> None:
        """Note all that containers from outside hold, because something else is going to read it."""
        for x in values:
            kind = type(x)
            if kind in PLAIN or isinstance(x, Tensor) or kind is types.FunctionType:
                continue
            if (self.changed or self.owners) and self.touched(x):
                self.refuse_change(f"has {self.reads.name(x)} read by a function that cannot be looked into")
            if kind is types.BuiltinFunctionType and self._changes_outside(x):
                self.refuse_change(f"has {x.__name__} of {self.reads.name(x.__self__)} called")
            if is_container(x):
                self._contents(x)
            elif isinstance(x, tuple | frozenset):
                self.expose(*x)
            elif kind is slice:
                self.expose(x.start, x.stop, x.step)
            elif kind is types.MappingProxyType:
                self.reads.add("proxy", x, None, None, self.reads.name(x))
            elif is_iterator(x) and not self.is_made(x):
                self.refuse(f"reads {self.reads.name(x)}, an iterator that was made outside")
            elif self.around and is_iterator(x):
                self.change(x, "reads an iterator")
            elif hidden(kind) and not self.is_made(x) and not _of_pattern(x):
                self.refuse(f"reads {self.reads.name(x)}, a {kind.__name__} that was made outside")

    def _changes_outside(self, f: Any) -> bool:
        """Whether a C method changes a container from outside."""
        return f.__name__ in MUTATORS and is_container(f.__self__) and id(f.__self__) not in self.made

    def _contents(self, x: Any) -> None:
        if id(x) in self.looking:
            return
        self.looking.add(id(x))
        if not self.is_made(x):
            self.reads.whole(x)
        if isinstance(x, dict):
            self.expose(*dict.values(x))
        elif isinstance(x, list | collections.deque):
            self.expose(*x)
        self.looking.discard(id(x))


def _of_pattern(x: Any) -> bool:
    """Whether ``x`` is a method of a regular expression, which never changes."""
    return isinstance(getattr(x, "__self__", None), re.Pattern)
