"""``torch.torch_version``: a version that is a text and compares as versions do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torchlike.version as version

__all__ = ["TorchVersion"]

_FORM = (  # compiled when a version is first compared
    r"\s*v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>\d*))?"
    r"(?:-(?P<post_alone>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*"
)
_PHASES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
_LAST = (9, "")  # after every mark of a version before its release


def _key(text: str) -> tuple[Any, ...] | None:
    """What versions of the Python packaging rules (PEP 440) are ordered by; None if the text is none."""
    found = re.fullmatch(_FORM, text, re.IGNORECASE)
    if found is None:
        return None
    release = [int(part) for part in found["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    post = found["post_alone"] or (found["post_n"] or "0" if found["post"] else None)
    dev = (int(found["dev_n"] or 0),) if found["dev"] else None
    phase: tuple[Any, ...] = _LAST
    if found["pre"]:
        name = found["pre"].lower()
        phase = (1, _PHASES.get(name, name), int(found["pre_n"] or 0))
    elif post is None and dev is not None:
        phase = (0,)
    parts = re.split(r"[-_.]", found["local"].lower()) if found["local"] else []
    local = [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]
    return int(found["epoch"] or 0), release, phase, (-1 if post is None else int(post)), dev or _LAST, local


def _text(other: Any) -> str | None:
    """The version that ``other`` spells: a text, or parts of one."""
    if isinstance(other, str):
        return str(other)
    if isinstance(other, Iterable):
        return ".".join(str(part) for part in other)
    return None


def _compared(name: str) -> Any:
    as_text = getattr(str, name)

    def compare(self: TorchVersion, other: Any) -> Any:
        text = _text(other)
        if text is None:
            return NotImplemented
        mine, theirs = _key(str(self)), _key(text)
        if mine is None or theirs is None:  # then they are texts
            return as_text(str(self), other)
        return getattr(tuple, name)(mine, theirs)

    compare.__name__ = name
    return compare


class TorchVersion(str):
    """A text that compares with other versions, and with tuples of their parts, as versions do.

    A comparison with what is no version is one of texts.

    >>> import torchlike as torch
    >>> v = torch.torch_version.TorchVersion("2.13.0+cpu")
    >>> v > "2.9", v >= (2, 13), v < "3.0.0a1", v.split("+")
    (True, True, True, ['2.13.0', 'cpu'])
    """

    __slots__ = ()
    __lt__, __le__, __gt__, __ge__ = (_compared(name) for name in ("__lt__", "__le__", "__gt__", "__ge__"))
    __eq__ = _compared("__eq__")

    def __hash__(self) -> int:
        return hash(str(self))


__version__ = TorchVersion(version.STANDS_FOR)
