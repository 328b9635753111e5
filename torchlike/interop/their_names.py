"""Which public names PyTorch has, so that a misspelt one is told from one that is missing here."""

from __future__ import annotations

import functools
from pathlib import Path


@functools.cache
def _lines() -> list[str]:
    return Path(__file__).with_suffix(".txt").read_text().splitlines()


@functools.cache
def their_names() -> dict[str, frozenset[str]]:
    """Names by module, and by class for the classes that many programs use; written by docs/make_names.py."""
    parts = (line.partition(":") for line in _lines())
    return {place: frozenset([n.partition("=")[0] for n in names.split()]) for place, colon, names in parts if colon}


@functools.cache
def _homes(place: str) -> dict[str, str]:
    line = next((line for line in _lines() if line.startswith(f"{place}:")), "")
    return dict(n.split("=") for n in line.split() if "=" in n)


def their_home(place: str, name: str) -> str | None:
    """What a name that a module of PyTorch's has imported from elsewhere is called there; None for its own.

    >>> from torchlike.interop.their_names import their_home
    >>> their_home("torch.optim.adam", "Optimizer"), their_home("torch.optim.adam", "Adam")
    ('torch.optim.optimizer.Optimizer', None)
    """
    return _homes(place).get(name)


@functools.cache
def their_modules() -> frozenset[str]:
    """The names of PyTorch's modules, private ones too."""
    places = (line.partition(":")[0] for line in _lines())
    return frozenset(place for place in places if not place.rpartition(".")[2][0].isupper())  # the others are classes


@functools.cache
def their_parents() -> frozenset[str]:
    """The packages among :func:`their_modules`."""
    return frozenset(place.rpartition(".")[0] for place in their_modules())


def is_theirs(place: str, name: str) -> bool | None:
    """Whether PyTorch has the name ``name`` in a public module; None where that is not known.

    >>> from torchlike.interop.their_names import is_theirs
    >>> is_theirs("torch.nn", "Linear"), is_theirs("torch.nn", "Linaer"), is_theirs("torch._C", "Node")
    (True, False, None)
    """
    names = their_names().get(place)
    if names is None or name.startswith("_"):
        return None
    return name in names or f"{place}.{name}" in their_names()
