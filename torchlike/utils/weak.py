"""Weak references and dictionaries that go by identity, as ``==`` of tensors compares their elements."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.interop.alias import missing_names

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]

__getattr__ = missing_names(__name__)


class WeakIdRef(weakref.ref):
    """A weak reference that equals others of the same object, and hashes by identity."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        self._id = id(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        a, b = self(), other() if isinstance(other, weakref.ref) else None
        return a is b if a is not None and b is not None else self is other


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary whose keys are held weakly and told apart by identity.

    >>> import torchlike as torch
    >>> from torchlike.utils.weak import WeakIdKeyDictionary
    >>> x, names = torch.ones(2), WeakIdKeyDictionary()
    >>> names[x] = "x"
    >>> names[x], torch.ones(2) in names
    ('x', False)
    """

    def __init__(self, dict: Mapping | None = None, ref_type: type = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        for key, value in (dict or {}).items():
            self[key] = value

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        data = self.data
        self.data[self.ref_type(key, lambda ref: data.pop(ref, None))] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        return self.ref_type(key) in self.data

    def __iter__(self) -> Iterator[Any]:
        for ref in list(self.data):
            if (key := ref()) is not None:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def keyrefs(self) -> list[Any]:
        """The weak references."""
        return list(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor. AssertionError for anything else."""

    __slots__ = ("ref",)

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}.")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()
