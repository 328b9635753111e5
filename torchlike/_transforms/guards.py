"""Guards: what a program took for granted of the Python objects its function reaches, and whether it still holds.

Everything is compared by identity in a few calls that run in C; only where that fails does Python look at
single entries, since a number that was set again is as good as the one before.
"""

import collections
import functools
import sys
import types
from itertools import chain
from operator import attrgetter, is_, itemgetter

from torchlike._core.tensor import Tensor

_SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_SIMPLE_SET = frozenset(_SIMPLE)
_LIBRARIES = frozenset((__name__.split(".")[0], "jax", "jaxlib", "numpy", *sys.stdlib_module_names)) - {"__main__"}
_WHOLE = frozenset(("__dict__", "vars"))  # names whose use means that every attribute counts
_STATE = "the state of an optimizer"
_missing = object()
_fields = ("_rg", "_storage", "_view", "_edge", "_ex")
_read = attrgetter(*_fields)
_storage = attrgetter("_storage")
_content = attrgetter("cell_contents")


class Guards:
    """Checks on what modules, containers, closures and tensors hold.

    Attributes:
        whole: {id: (dict, name)}: every entry counts. lists: the same for lists. entries: {(id of a dict,
            key): (dict, key, name)}: only this entry counts. cells: (closure cell, name). tensors: (tensor, name).
        states: dicts of tensors of optimizers. owned: tensors of which only the storage counts. others: (getter,
            value).
    """

    def __init__(self):
        self.whole, self.lists, self.entries, self.cells, self.tensors, self.others = {}, {}, {}, [], [], []
        self.owned, self.states = [], []
        self._seen, self._classes, self._kept, self._todo = set(), set(), [], []
        self._names, self._waiting = set(), {}

    def finish(self):
        """Note what everything holds now; called once, when all has been reached."""
        self._empty = [d for d, _ in self.whole.values() if not d]  # hooks, most of them
        self._full = [(d, name) for d, name in self.whole.values() if d]
        dicts, sequences = [d for d, _ in self._full], [x for x, _ in self.lists.values()]
        self._containers = [*dicts, *sequences, *self.states]
        self._named = [d for d in dicts if all(type(key) is str for key in d)]
        others = [d for d in dicts if any(type(key) is not str for key in d)]
        self._state_views = [d.values() for d in self.states]
        self._iterables = [*others, *[d.values() for d in dicts], *sequences, *self._state_views]
        groups = {}
        for d, key, _ in self.entries.values():
            if key in d:
                groups.setdefault(id(d), (d, []))[1].append(key)
        self._groups = [(d, itemgetter(*keys, keys[0])) for d, keys in groups.values()]  # of two keys at least: a tuple
        self._absent = [(d, key) for d, key, _ in self.entries.values() if key not in d]
        self._cell_list = tuple([cell for cell, _ in self.cells])
        self._tensor_list = tuple([t for t, _ in self.tensors])
        self._note()
        del self._seen, self._classes, self._names, self._waiting, self._todo

    def _note(self):
        self._lengths = list(map(len, self._containers))
        self._words = list(chain.from_iterable(self._named))
        self._held = list(self._contents())
        self._tensor_values = list(map(_read, self._tensor_list))
        self._owned_values = list(map(_storage, self.owned))
        self._snapshots = [list(d.items()) for d, _ in self._full]
        self._elements = [list(x) for x, _ in self.lists.values()]
        self._singles = [d.get(key, _missing) for d, key, _ in self.entries.values()]
        self._cell_values = list(map(_content, self._cell_list))
        self._state_values = list(chain.from_iterable(self._state_views))

    def _contents(self):
        """Everything that must be the same object."""
        entries = [get(d) for d, get in self._groups]
        return chain.from_iterable([*self._iterables, *entries, map(_content, self._cell_list)])

    def hold(self):
        """Whether everything is as it was; a number that was set again may look as if it were not."""
        try:
            return (
                list(map(len, self._containers)) == self._lengths
                and list(chain.from_iterable(self._named)) == self._words
                and all(map(is_, self._contents(), self._held))
                and not any(self._empty)
                and not any([key in d for d, key in self._absent])
                and list(map(_read, self._tensor_list)) == self._tensor_values
                and list(map(_storage, self.owned)) == self._owned_values
                and all([getter() == value for getter, value in self.others])
            )
        except (KeyError, ValueError):  # an attribute or a variable was deleted
            return False

    def failed(self):
        """The name of a check that does not hold, or None."""
        found = self._structure() or self._tensors_or_others()
        if found is None:
            self._note()
        return found

    def _tensors_or_others(self):
        if list(map(_read, self._tensor_list)) != self._tensor_values:
            return self._tensor()
        state = list(chain.from_iterable(self._state_views))
        if len(state) != len(self._state_values) or not all(map(is_, state, self._state_values)):
            return _STATE
        if list(map(_storage, self.owned)) != self._owned_values:
            return _STATE
        for getter, value in self.others:
            if getter() != value:
                return "an option of the optimizer"
        return None

    def _tensor(self):
        for (t, name), before in zip(self.tensors, self._tensor_values, strict=True):
            for field, now, value in zip(_fields, _read(t), before, strict=True):
                if now is not value:
                    shown = {"_rg": "requires_grad", "_edge": "grad_fn", "_ex": "the hooks"}.get(field, "the storage")
                    return f"{shown} of {name}"
        return "a tensor"

    def _structure(self):
        """Look at every entry; numbers may be equal instead of identical."""
        for d, name in self.whole.values():
            if d and any(d is e for e in self._empty):
                return f"the length of {name}"
        for (d, name), items in zip(self._full, self._snapshots, strict=True):
            if len(d) != len(items):
                return f"the length of {name}"
            for (key, value), (key_before, before) in zip(d.items(), items, strict=True):
                if not (_alike(key, key_before) and _alike(value, before)):
                    return _shown(name, key)
        for (x, name), elements in zip(self.lists.values(), self._elements, strict=True):
            if len(x) != len(elements):
                return f"the length of {name}"
            for i, (value, before) in enumerate(zip(x, elements, strict=True)):
                if not _alike(value, before):
                    return f"{name}[{i}]"
        for (d, key, name), before in zip(self.entries.values(), self._singles, strict=True):
            if not _alike(d.get(key, _missing), before):
                return name
        for (cell, name), before in zip(self.cells, self._cell_values, strict=True):
            try:
                if not _alike(cell.cell_contents, before):
                    return name
            except ValueError:
                return name
        return None

    # -- collection ------------------------------------------------------------------------------
    def reach(self, x, name):
        """Guard everything that can be reached from ``x``."""
        self._todo.append((x, name))
        while self._todo:
            self._visit(*self._todo.pop())

    def optimizer(self, optimizer):
        """Guard which parameters and state an optimizer has; numbers such as the learning rate are inputs."""
        name = type(optimizer).__name__
        if id(optimizer.param_groups) in self.lists:
            return
        self._kept += optimizer, optimizer.param_groups
        for key in ("param_groups", "state"):
            self._entry(vars(optimizer), key, f"{name}.{key}", follow=False)
        self.lists[id(optimizer.param_groups)] = optimizer.param_groups, f"{name}.param_groups"
        for i, group in enumerate(optimizer.param_groups):
            label = f"{name}.param_groups[{i}]"
            self.lists[id(group["params"])] = group["params"], f"{label}['params']"
            self._entry(group, "params", f"{label}['params']")
            for key, value in group.items():
                if isinstance(value, Tensor):
                    self._entry(group, key, f"{label}[{key!r}]")
        self._whole(optimizer.state, f"{name}.state", optimizer.state)
        for state in optimizer.state.values():
            whole = all(isinstance(value, Tensor) for value in state.values())
            if whole:
                self.states.append(state)
            for key, value in state.items():
                if isinstance(value, Tensor):
                    self.owned.append(value)
                    if not whole:
                        self._entry(state, key, f"{name}.state[...][{key!r}]", follow=False)

    def _visit(self, x, name):
        if type(x) in _SIMPLE_SET or id(x) in self._seen:
            return
        self._seen.add(id(x))
        self._kept.append(x)  # so that no other object takes its id
        if isinstance(x, Tensor):
            self.tensors.append((x, name))
            if x._ex is not None:
                self._whole(x._ex, f"the hooks of {name}")
        elif isinstance(x, types.FunctionType):
            self._function(x, name)
        elif isinstance(x, types.MethodType):
            self._todo += (x.__self__, f"{name}.__self__"), (x.__func__, name)
        elif isinstance(x, staticmethod | classmethod):
            self._todo.append((x.__func__, name))
        elif isinstance(x, property):
            self._todo += [(f, name) for f in (x.fget, x.fset) if f is not None]
        elif isinstance(x, functools.partial):
            self._todo += [(y, name) for y in (x.func, x.args, x.keywords)]
        elif isinstance(x, dict):
            self._whole(x, name)
        elif isinstance(x, list | collections.deque):
            self.lists[id(x)] = x, name
            self._todo += [(value, f"{name}[{i}]") for i, value in enumerate(x)]
        elif isinstance(x, tuple | set | frozenset):
            self._todo += [(value, f"{name}[{i}]") for i, value in enumerate(x)]
        elif isinstance(x, type):
            self._class(x)
        elif isinstance(x, types.ModuleType):
            if x.__name__.split(".")[0] not in _LIBRARIES:
                self._used(vars(x), vars(x), name)
        elif not isinstance(x, types.BuiltinFunctionType):
            self._object(x, name)

    def _function(self, f, name):
        for variable, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            self.cells.append((cell, variable))
            self._todo.append((value, variable))
        if (f.__module__ or "").split(".")[0] in _LIBRARIES:
            return
        names = _names(f.__code__)
        for variable in names:
            if variable in f.__globals__:
                self._entry(f.__globals__, variable, variable)
        self._todo += [(default, name) for default in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values())]
        new = names - self._names
        self._names |= new
        every = new & _WHOLE
        for variable in list(self._waiting) if every else new:
            for container, label in self._waiting.pop(variable, ()):
                self._entry(container, variable, f"{label}.{variable}")

    def _whole(self, d, name, aside=()):
        if id(d) not in self.whole:
            self._kept.append(d)
            self.whole[id(d)] = d, name
            self._todo += [(v, _shown(name, k)) for k, v in d.items() if k not in aside]

    def _used(self, attributes, keys, name):
        """Guard those of ``keys`` that occur in the code that was reached, or will be."""
        everything = self._names & _WHOLE
        for key in list(keys):
            if everything or key in self._names or key in _MEMBERS:
                self._entry(attributes, key, f"{name}.{key}")
            else:
                self._waiting.setdefault(key, []).append((attributes, name))

    def _entry(self, container, key, name, follow=True):
        if (id(container), key) not in self.entries:
            self._kept.append(container)
            self.entries[id(container), key] = container, key, name
        if follow:
            self._todo.append((container.get(key), name))

    def _class(self, cls):
        for base in cls.__mro__[:-1]:
            if base.__module__.split(".")[0] not in _LIBRARIES and base not in self._classes:
                self._classes.add(base)
                self._used(vars(base), vars(base), base.__qualname__)

    def _object(self, x, name):
        self._class(type(x))
        for cls in type(x).__mro__[:-1]:
            slots = cls.__dict__.get("__slots__", ())
            for key in (slots,) if isinstance(slots, str) else slots:
                self._todo.append((getattr(x, key, None), f"{name}.{key}"))
        attributes = getattr(x, "__dict__", None)
        if attributes is None:
            return
        if type(x).__module__.split(".")[0] not in _LIBRARIES:
            defaults = [k for c in type(x).__mro__[:-1] for k, v in vars(c).items() if not hasattr(v, "__get__")]
            self._used(attributes, dict.fromkeys([*attributes, *defaults]), name)
            return
        skipped = getattr(type(x), "_unguarded", None)
        if skipped is None:
            self._whole(attributes, name, _ASIDE)
            return
        for key in list(attributes):
            if key not in skipped:
                self._entry(attributes, key, f"{name}.{key}")


# what torchlike's own code reads of a user's module
_MEMBERS = frozenset(
    ("training", "_parameters", "_buffers", "_modules", "_is_full_backward_hook", "_backward_pre_hooks")
    + ("_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
    + ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "forward", "__call__")
)


# hooks of a module that a call does not run
_ASIDE = frozenset(
    ("_state_dict_hooks", "_state_dict_post_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks")
    + ("_load_state_dict_post_hooks", "_non_persistent_buffers_set")
)


def _alike(now, before):
    if now is before:
        return True
    if type(now) is not type(before) or type(now) not in _SIMPLE_SET or now != before:
        return False
    return bool(now) or repr(now) == repr(before)  # -0.0 is not 0.0


def _shown(name, key):
    return f"{name}.{key}" if isinstance(key, str) and key.isidentifier() else f"{name}[{key!r}]"


def _names(code):
    """The names that a function and those inside it use, and its strings: they may be names for getattr."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= _names(const)
        elif isinstance(const, str):
            names.add(const)
    return names
