"""The table of derivatives that differ at singular points, and the copy of it that comes with torchlike."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, overload

import jax

from torchlike import version
from torchlike.conventions._export import Table

DATA = Path(__file__).with_name("kinks.json")
PYTORCH = version.STANDS_FOR.partition("+")[0]  # whose derivatives torchlike gives


@dataclass(frozen=True)
class Kink:
    """One way in which an operator's derivative differs.

    Attributes:
        operator: PyTorch's name, with the overload: ``clamp``, ``max.dim``.
        argument: the argument differentiated with respect to.
        pytorch, jax: the derivative (of the sum of the results) in each library; a complex one is given
            in PyTorch's convention for both, so that what differs is not the conjugate.
        points: the points where that is so, each the arguments as text: ``self=0, other=0``.
        compared: JAX's function of the same name and values, or ``torchlike's kernel``: the function by which
            torchlike computes the operator, differentiated by ``jax.vjp``.
    """

    operator: str
    argument: str
    pytorch: str
    jax: str
    points: tuple[str, ...]
    compared: str


class Kinks(Table, Sequence[Kink]):
    """A list of :class:`Kink` that prints as a table.

    Attributes:
        versions: the versions of torchlike, PyTorch and jax whose derivatives these are.
    """

    def __init__(self, found: Sequence[Kink], versions: Mapping[str, str]):
        self._found = tuple(found)
        self.versions = dict(versions)

    @overload
    def __getitem__(self, index: int) -> Kink: ...
    @overload
    def __getitem__(self, index: slice) -> Kinks: ...
    def __getitem__(self, index):
        return Kinks(self._found[index], self.versions) if isinstance(index, slice) else self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    @property
    def operators(self) -> list[str]:
        """The names of the operators in the list, each once."""
        return list(dict.fromkeys(k.operator for k in self._found))

    def columns(self) -> tuple[str, ...]:
        return "operator", "argument", "at", "PyTorch", "JAX", "JAX's function"

    def rows(self) -> list[tuple[str, ...]]:
        return [(k.operator, k.argument, _at(k.points), k.pytorch, k.jax, k.compared) for k in self._found]

    def title(self) -> str:
        n = len(self.operators)
        with_ = ", ".join(f"{name} {number}" for name, number in self.versions.items() if name != "torchlike")
        return f"{n} operator{'s' * (n != 1)} with derivatives that differ at singular points ({with_})"

    def __repr__(self) -> str:
        return f"<Kinks: {len(self)} of {len(self.operators)} operators; print() shows them>"

    def among(self, wanted: Callable[[Kink], bool]) -> Kinks:
        """The rows for which ``wanted`` holds."""
        return Kinks([k for k in self if wanted(k)], self.versions)

    def differences(self, other: Kinks) -> Differences:
        """The rows that only one of two tables has, such as those of two versions of jax."""
        return Differences(self, other)

    def save(self, path: Any) -> None:
        """Write the table as JSON, which :func:`read` reads."""
        rows = [asdict(k) | {"points": [*k.points]} for k in self]
        text = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
        head = json.dumps(self.versions)
        Path(path).write_text(f'{{"versions": {head}, "kinks": [\n  {text}\n]}}\n', encoding="utf-8")


class Differences(Table):
    """What two tables of kinks disagree on; false where they agree."""

    def __init__(self, before: Kinks, after: Kinks):
        self.gone = [k for k in before if k not in after]
        self.new = [k for k in after if k not in before]
        self._versions = before.versions, after.versions

    def __bool__(self) -> bool:
        return bool(self.gone or self.new)

    def columns(self) -> tuple[str, ...]:
        return "", "operator", "argument", "at", "PyTorch", "JAX", "JAX's function"

    def rows(self) -> list[tuple[str, ...]]:
        signed = [("-", k) for k in self.gone] + [("+", k) for k in self.new]
        signed.sort(key=lambda pair: pair[1].operator)
        return [(s, k.operator, k.argument, _at(k.points), k.pytorch, k.jax, k.compared) for s, k in signed]

    def title(self) -> str:
        old, new = (", ".join(f"{k} {v}" for k, v in versions.items()) for versions in self._versions)
        return f"{len(self.gone)} rows only with {old} (-), {len(self.new)} only with {new} (+)"

    def __repr__(self) -> str:
        return f"<Differences: {self.title()}>"


def versions() -> dict[str, str]:
    """The versions at work."""
    return {"torchlike": version.__version__, "torch": PYTORCH, "jax": jax.__version__}


def read(path: Any) -> Kinks:
    """A table that :meth:`Kinks.save` wrote."""
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    return Kinks([Kink(**row | {"points": tuple(row["points"])}) for row in found["kinks"]], found["versions"])


@cache
def shipped() -> Kinks:
    """The table that comes with torchlike."""
    return read(DATA)


def _at(points: tuple[str, ...]) -> str:
    return points[0] if len(points) == 1 else f"{points[0]} (and {len(points) - 1} more)"
