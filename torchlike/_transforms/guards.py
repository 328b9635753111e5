"""Guards: what a program took for granted of the Python objects its function reaches, and whether it still holds."""

import sys
import types

from torchlike._core.tensor import Tensor

_SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_DEPTH = 6
_missing = object()
_OWN = __name__.split(".")[0]


class Guards:
    """Checks on module, container and attribute contents, in lists that are quick to run.

    Attributes:
        items: (dict or list, key, value, name): the entry is this object. equals: the same, for numbers
            and strings. lengths: (container, length, name). cells: (closure cell, object, name).
        fields: (tensor, field, value, name). others: (getter, value).
    """

    def __init__(self):
        self.items, self.equals, self.lengths, self.cells, self.fields, self.others = [], [], [], [], [], []
        self._seen = set()
        self._kept = []  # objects whose id was used: they must not be replaced by others at the same place

    def failed(self):
        """The name of the first check that does not hold, or None."""
        for container, key, value, name in self.items:
            if (container.get(key, _missing) if type(container) is dict else container[key]) is not value:
                return name
        for container, key, value, name in self.equals:
            now = container.get(key, _missing) if type(container) is dict else container[key]
            if now.__class__ is not value.__class__ or now != value:
                return name
        for container, n, name in self.lengths:
            if len(container) != n:
                return name
        for cell, value, name in self.cells:
            now = cell.cell_contents
            if now is not value and not (
                now.__class__ in _SIMPLE_SET and now.__class__ is value.__class__ and now == value
            ):
                return name
        for t, field, value, name in self.fields:
            if getattr(t, field) is not value:
                return name
        for getter, value in self.others:
            if getter() != value:
                return "an option of the optimizer"
        return None

    # -- collection ------------------------------------------------------------------------------
    def reach(self, x, name, depth=0):
        """Guard everything that can be reached from ``x``."""
        if isinstance(x, _SIMPLE) or id(x) in self._seen or depth > _DEPTH:
            return
        self._seen.add(id(x))
        self._kept.append(x)
        if isinstance(x, Tensor):
            self.fields.append((x, "_rg", x._rg, f"{name}.requires_grad"))
            self.fields.append((x, "_storage", x._storage, f"the storage of {name}"))
        elif isinstance(x, types.FunctionType):
            self._function(x, name, depth)
        elif isinstance(x, types.MethodType):
            self.reach(x.__self__, f"{name}.__self__", depth)
            self.reach(x.__func__, name, depth)
        elif isinstance(x, dict):
            self._entries(x, name, depth)
        elif isinstance(x, list | tuple):
            self._sequence(x, name, depth)
        elif not isinstance(x, type | types.ModuleType | types.BuiltinFunctionType):
            self._object(x, name, depth)

    def _function(self, f, name, depth):
        for variable, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            self.cells.append((cell, value, variable))
            self.reach(value, variable, depth + 1)
        if f.__module__ and f.__module__.split(".")[0] in (_OWN, "jax", "numpy", *sys.stdlib_module_names):
            return
        for variable in _names(f.__code__):
            if variable in f.__globals__:
                self._entry(f.__globals__, variable, variable, depth)
        for default in f.__defaults__ or ():
            self.reach(default, name, depth + 1)

    def _entries(self, d, name, depth):
        self.lengths.append((d, len(d), f"the length of {name}"))
        for key in list(d):
            self._entry(d, key, f"{name}[{key!r}]", depth)

    def _sequence(self, x, name, depth):
        if isinstance(x, list):
            self.lengths.append((x, len(x), f"the length of {name}"))
        for i, value in enumerate(x):
            if isinstance(x, list):
                self._entry(x, i, f"{name}[{i}]", depth)
            else:
                self.reach(value, f"{name}[{i}]", depth + 1)

    def _entry(self, container, key, name, depth):
        value = container[key]
        (self.equals if isinstance(value, _SIMPLE) else self.items).append((container, key, value, name))
        self.reach(value, name, depth + 1)

    def _object(self, x, name, depth):
        attributes = getattr(x, "__dict__", None)
        if attributes is None:
            return
        skipped = getattr(type(x), "_unguarded", ())
        for key in list(attributes):
            if key not in skipped:
                self._entry(attributes, key, f"{name}.{key}", depth)
        forward = getattr(type(x), "forward", None)
        if isinstance(forward, types.FunctionType):
            self.reach(forward, f"{name}.forward", depth)


_SIMPLE_SET = frozenset(_SIMPLE)


def _names(code):
    """The global names that a function and those inside it use."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= _names(const)
    return names
