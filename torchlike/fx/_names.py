"""Names of variables in generated code: each is a legal identifier and stands for one thing."""

import builtins
import keyword
import re
import sys
from typing import Any, NamedTuple

from torchlike._base.device import device
from torchlike.fx import _pytree as fx_pytree
from torchlike.fx._qualified import PACKAGE
from torchlike.utils import _pytree as pytree


class CustomBuiltin(NamedTuple):
    """A name that generated code always has, with the line that imports it and what it is."""

    import_str: str
    obj: Any


CUSTOM_BUILTINS: dict[str, CustomBuiltin] = {
    "inf": CustomBuiltin("from math import inf", float("inf")),
    "nan": CustomBuiltin("from math import nan", float("nan")),
    "NoneType": CustomBuiltin("NoneType = type(None)", type(None)),
    "torch": CustomBuiltin("import torch", sys.modules[PACKAGE]),
    "device": CustomBuiltin("from torch import device", device),
    "fx_pytree": CustomBuiltin("import torch.fx._pytree as fx_pytree", fx_pytree),
    "pytree": CustomBuiltin("import torch.utils._pytree as pytree", pytree),
}
_RESERVED = (frozenset(keyword.kwlist) | frozenset(vars(builtins))) - {"_"}  # a prompt puts that there
_FOREIGN = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.+)_(\d+)")


def is_magic(name: str) -> bool:
    """Whether it is the name of a special method."""
    return name.startswith("__") and name.endswith("__")


def snake_case(name: str) -> str:
    """``LinearBlock`` as ``linear_block``.

    >>> from torchlike.fx._names import snake_case
    >>> snake_case("OrderedDict"), snake_case("HTTPResponse")
    ('ordered_dict', 'httpresponse')
    """
    words: list[str] = []
    for i, c in enumerate(name):
        if c.isupper() and i and name[i - 1].islower():
            words.append("_")
        words.append(c.lower())
    return "".join(words)


class Identity:
    """A key that is the object itself, whether or not that can be hashed, and the name it goes by."""

    def __init__(self, obj: Any, name: str) -> None:
        self.obj, self.name = obj, name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.obj is other.obj

    def __hash__(self) -> int:
        return id(self.obj)


class Namespace:
    """The names that are taken, and for what."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any | None) -> str:
        """A new name like ``candidate``, with a number behind it where that is taken.

        If ``obj`` has a name already it is that.

        >>> from torchlike.fx._names import Namespace
        >>> space = Namespace()
        >>> [space.create_name(name, None) for name in ("x", "x", "len", "0.weight")]
        ['x', 'x_1', 'len_1', '_0_weight']
        """
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        name = _FOREIGN.sub("_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        numbered = _NUMBERED.fullmatch(name)
        base, number = (numbered.group(1), int(numbered.group(2))) if numbered else (name, 0)
        count = max(self._base_count.get(base, 0), number)
        while name in self._used_names or self._is_illegal_name(name, obj):
            count += 1
            name = f"{base}_{count}"
        self._used_names.add(name)
        self._base_count[base] = count
        if obj is not None:
            self._obj_to_name[obj] = name
        return name

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Have ``name``, which is taken already, stand for ``obj``."""
        if self._obj_to_name.setdefault(obj, name) != name:
            raise AssertionError("obj is already associated")

    def _is_illegal_name(self, name: str, obj: Any) -> bool:
        meant = obj.obj if isinstance(obj, Identity) else obj
        if name in keyword.kwlist:
            return True
        if name in _RESERVED:
            return meant is None or getattr(builtins, name) is not meant
        return name in CUSTOM_BUILTINS and (meant is None or CUSTOM_BUILTINS[name].obj is not meant)

    def _rename_object(self, obj: Any, name: str) -> None:
        self._obj_to_name[obj] = name
        self._used_names.add(name)
