"""The tensors that an exported function reads beside its arguments, and where they stand."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torchlike._base import dtypes
from torchlike._core.tensor.tensor import Tensor, value_of
from torchlike.export._program import Slot
from torchlike.nn.modules.module import Module

_MEMBERS = ("_parameters", "_buffers", "_modules")


class State:
    """Parameters and buffers of the module that a function is (or is a method of), then the constants found.

    Attributes:
        tensors: each once. names: where each stands, in the same order.
    """

    def __init__(self, fn: Callable) -> None:
        owner = fn if isinstance(fn, Module) else getattr(fn, "__self__", None)
        self.module = owner if isinstance(owner, Module) else None
        self.tensors: list[Tensor] = []
        self.places: list[tuple[str, bool, list[str]]] = []
        self.order: list[str] = []
        self.lifted = 0
        self.attributes: dict[int, str] = {}
        if self.module is not None:
            self._collect(self.module)

    def _collect(self, module: Module) -> None:
        for name, p in module.named_parameters(remove_duplicate=False):
            self._put(p, "parameter", True, name)
        transient = {
            f"{prefix}.{key}" if prefix else key
            for prefix, m in module.named_modules(remove_duplicate=False)
            for key in m._non_persistent_buffers_set
        }
        for name, b in module.named_buffers(remove_duplicate=False):
            self._put(b, "buffer", name not in transient, name)
        for prefix, m in module.named_modules():
            for key, value in vars(m).items():
                if isinstance(value, Tensor):
                    self.attributes.setdefault(id(value), f"{prefix}.{key}" if prefix else key)

    def _put(self, t: Tensor, kind: str, persistent: bool, name: str) -> None:
        self.order.append(name)
        for known, (_, _, names) in zip(self.tensors, self.places, strict=True):
            if known is t:
                names.append(name)
                return
        self.tensors.append(t)
        self.places.append((kind, persistent, [name]))

    def add(self, found: list[Tensor]) -> bool:
        """Take more tensors, as constants; whether there were any."""
        new = [t for t in found if all(t is not known for known in self.tensors)]
        for t in new:
            name = self.attributes.get(id(t))
            if name is None:
                name, self.lifted = f"lifted_tensor_{self.lifted}", self.lifted + 1
            self._put(t, "constant", False, name)
        return bool(new)

    def parameters(self) -> list[int]:
        """The numbers of the tensors whose gradient may be asked for."""
        return [
            k
            for k, (t, (kind, _, _)) in enumerate(zip(self.tensors, self.places, strict=True))
            if t._rg or (kind == "parameter" and t.dtype.is_floating_point | t.dtype.is_complex)
        ]

    def slots(self) -> list[Slot]:
        """How the program describes the tensors."""
        return [
            Slot(
                names,
                [self.order.index(n) for n in names],
                kind,
                persistent,
                list(value_of(t).shape),
                dtypes.FROM_NP[value_of(t).dtype].name,
            )  # fmt: skip
            for t, (kind, persistent, names) in zip(self.tensors, self.places, strict=True)
        ]

    def current(self) -> list[Tensor]:
        """The tensors that stand at the places now."""
        return [self._at(t, *place) for t, place in zip(self.tensors, self.places, strict=True)]

    def _at(self, t: Tensor, kind: str, persistent: bool, names: list[str]) -> Tensor:
        if kind == "constant":
            return t
        *path, key = names[0].split(".")
        owner: Any = self.module
        for part in path:
            owner = owner._modules[part]
        return (owner._parameters if kind == "parameter" else owner._buffers)[key]

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Give the modules back the attributes that they had."""
        modules = [] if self.module is None else list(self.module.modules())
        before = [(m, dict(vars(m)), [(d, dict(d)) for d in (vars(m)[k] for k in _MEMBERS)]) for m in modules]
        try:
            yield
        finally:
            for m, attributes, members in before:
                for d, entries in [(vars(m), attributes), *members]:
                    for key in [key for key in d if key not in entries]:
                        del d[key]
                    d.update(entries)
