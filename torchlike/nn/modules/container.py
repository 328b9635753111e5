"""Containers: modules that hold other modules, or parameters, in order or by name."""

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.nn.modules.module import Module, _addindent
from torchlike.nn.parameter import Parameter

__all__ = ["Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


def _position(idx: Any, length: int) -> int:
    """``idx`` as a position from the front; IndexError where a list of ``length`` has none."""
    idx = operator.index(idx)
    if not -length <= idx < length:
        raise IndexError(f"index {idx} is out of range")
    return idx % length


def _iterable(owner: str, what: str, given: Any) -> None:
    if not isinstance(given, Iterable) or isinstance(given, Tensor):
        raise TypeError(f"{owner} should be called with an iterable{what}, but got {type(given).__name__}")


def _pairs(owner: str, entries: Iterable) -> Iterator[tuple[Any, Any]]:
    """The (key, value) pairs of ``entries``, each checked to be one."""
    for n, entry in enumerate(entries):
        if not isinstance(entry, Iterable):
            raise TypeError(f"{owner} update sequence element #{n} should be Iterable; is {type(entry).__name__}")
        entry = tuple(entry)
        if len(entry) != 2:
            raise ValueError(f"{owner} update sequence element #{n} has length {len(entry)}; 2 is required")
        yield entry


class Container(Module):
    """A module whose children are the keyword arguments. Deprecated: assign them to a Module's attributes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        for key, value in kwargs.items():
            self.add_module(key, value)


class _Ordered(Module):
    """What Sequential and ModuleList share: children in the order of ``_modules``, named by position."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        kept = list(self)
        if isinstance(idx, slice):
            del kept[idx]
        else:
            del kept[_position(idx, len(kept))]
        self._renumber(kept)

    def _name_at(self, idx: int) -> str:
        return list(self._modules)[_position(idx, len(self))]

    def _renumber(self, modules: list[Module]) -> None:
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(modules))

    def append(self, module: Module):
        """Add ``module`` at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Module:
        """Remove and return what ``self[key]`` gives; the rest is numbered anew."""
        module = self[key]
        del self[key]
        return module


class Sequential(_Ordered):
    """Modules applied one after the other, each to what the one before gave.

    Args:
        *args: the modules, or one OrderedDict of names and modules.

    It behaves as a list of its modules; a slice is a Sequential that keeps their names.

    >>> import torchlike as torch
    >>> torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())[1]
    Tanh()
    """

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            self.extend(args)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, idx: int | slice):
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __add__(self, other: "Sequential") -> "Sequential":
        _check_summand(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: "Sequential") -> "Sequential":
        _check_summand(other)
        return self.extend(list(other))

    def __mul__(self, other: int) -> "Sequential":
        return Sequential(*list(self) * self._factor(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> "Sequential":
        return self.extend(list(self) * (self._factor(other) - 1))

    def _factor(self, other: Any) -> int:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return other

    def insert(self, index: int, module: Module) -> "Sequential":
        """Put ``module`` before position ``index``; unless that is the end, all are numbered anew. Returns self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        if index == n:
            return self.append(module)
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> "Sequential":
        """Append every module of ``sequential``; returns self."""
        for module in list(sequential):
            self.append(module)
        return self


def _check_summand(other: Any) -> None:
    if not isinstance(other, Sequential):
        raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")


class ModuleList(_Ordered):
    """A list of modules, all registered; it has no forward.

    >>> import torchlike as torch
    >>> torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.ReLU()])
    ModuleList(
      (0-1): 2 x ReLU()
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx: int | slice):
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[self._name_at(idx)]

    def __add__(self, other: Iterable[Module]) -> "ModuleList":
        return ModuleList(chain(self, other))

    def __iadd__(self, modules: Iterable[Module]) -> "ModuleList":
        return self.extend(modules)

    def insert(self, index: int, module: Module) -> None:
        """Put ``module`` before position ``index``, which counts from the front; the rest moves up."""
        index = operator.index(index)
        if index < 0:
            raise KeyError(f"{index}: ModuleList.insert() takes a position from the front, 0 to {len(self)}")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def extend(self, modules: Iterable[Module]) -> "ModuleList":
        """Append every module of ``modules``; returns self."""
        _iterable("ModuleList.extend", "", modules)
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        runs: list[list] = []  # [first, last, repr] of equal neighbours
        for i, text in enumerate(repr(module) for module in self):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in runs
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(_addindent(line, 2) for line in lines) + "\n)"


class ModuleDict(Module):
    """A dictionary of modules, all registered, in the order of insertion; it has no forward.

    Args:
        modules: a mapping, or an iterable of (name, module) pairs.

    >>> import torchlike as torch
    >>> torch.nn.ModuleDict({"act": torch.nn.ReLU()})["act"]
    ReLU()
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove every module."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return the module named ``key``; KeyError where there is none."""
        return self._modules.pop(key)

    def keys(self):
        """The names."""
        return self._modules.keys()

    def items(self):
        """The (name, module) pairs."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable) -> None:
        """Add or replace modules from a mapping or an iterable of (name, module) pairs."""
        _iterable("ModuleDict.update", " of key/value pairs", modules)
        mapping = isinstance(modules, (Mapping, ModuleDict))
        for name, module in list(modules.items() if mapping else _pairs("ModuleDict", modules)):
            self[name] = module


def _described(value: Any, type_text: str) -> str:
    """One line about an element of a parameter container."""
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    on_gpu = f" (GPU {value.get_device()})" if value.is_cuda else ""
    return f"{kind} containing: [{type_text} of size {'x'.join(map(str, value.shape))}{on_gpu}]"


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


class ParameterList(Module):
    """A list whose tensors are parameters of the module; a plain tensor becomes one, anything else is kept as is.

    >>> import torchlike as torch
    >>> ws = torch.nn.ParameterList([torch.zeros(2), torch.ones(3)])
    >>> [tuple(w.shape) for w in ws.parameters()]
    [(2,), (3,)]
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, idx: int | slice):
        if isinstance(idx, slice):
            return type(self)(self[i] for i in range(*idx.indices(len(self))))
        return getattr(self, str(_position(idx, len(self))))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(_position(idx, len(self))), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, parameters: Iterable[Any]) -> "ParameterList":
        return self.extend(parameters)

    def append(self, value: Any) -> "ParameterList":
        """Add ``value`` at the end; returns self."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> "ParameterList":
        """Append every element of ``values``; returns self."""
        _iterable("ParameterList.extend", "", values)
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            f"  ({i}): {_described(value, str(getattr(value, 'dtype', '')))}" for i, value in enumerate(self)
        )

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary whose tensors are parameters of the module; a plain tensor becomes one.

    Args:
        parameters: a mapping (a plain dict is taken in the order of its sorted keys) or an
            iterable of (name, value) pairs.

    >>> import torchlike as torch
    >>> d = torch.nn.ParameterDict({"scale": torch.ones(1)})
    >>> d["scale"].requires_grad
    True
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, self._key_to_attr(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def _key_to_attr(self, key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'): use str(key)"
            )
        return key

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __or__(self, other: Any) -> "ParameterDict":
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: Any):
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other: Any) -> "ParameterDict":
        self.update(other)
        return self

    def copy(self) -> "ParameterDict":
        """A new ParameterDict that holds the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, which is first set to ``default`` where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove every entry."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return the value of ``key``; AttributeError where there is none."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last (key, value) pair; KeyError where there is none."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> "ParameterDict":
        """A new ParameterDict with ``default`` for every key."""
        return ParameterDict((key, default) for key in keys)

    def keys(self):
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The (key, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add or replace entries from a mapping or an iterable of (key, value) pairs."""
        if not isinstance(parameters, Tensor):  # whose rows are looked at as pairs
            _iterable("ParameterDict.update", " of key/value pairs", parameters)
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            entries = parameters.items()
        elif isinstance(parameters, Mapping):
            entries = sorted(parameters.items())
        else:
            entries = _pairs("ParameterDict", parameters)
        for key, value in list(entries):
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(
            f"  ({key}): {_described(value, value.type() if isinstance(value, Tensor) else '')}"
            for key, value in self.items()
        )

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")
