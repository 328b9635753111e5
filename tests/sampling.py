"""The tests that `make test` leaves to `make test-all`; see ``make_sample.py``, which chooses them.

``sample.txt`` has a line for each test function, and in it checksums of the names of the cases that are left out.
"""

from __future__ import annotations

import functools
import zlib
from collections import defaultdict
from pathlib import Path

PLACE = Path(__file__).parent / "sample.txt"


def _checksum(name: str) -> str:
    return f"{zlib.crc32(name.encode()) & 0xFFFFF:05x}"


@functools.cache
def _left() -> dict[str, frozenset[str]]:
    lines = [line.split() for line in PLACE.read_text().splitlines()] if PLACE.exists() else []
    return {line[0]: frozenset(line[1:]) for line in lines if line and line[0] != "#"}


def left_out(name: str) -> bool:
    """Whether the test with this name, as pytest writes it, is left to ``make test-all``."""
    return _checksum(name) in _left().get(name.partition("[")[0], ())


def write(names: list[str]) -> None:
    """Note the tests that are left out."""
    lines: dict[str, set[str]] = defaultdict(set)
    for name in names:
        lines[name.partition("[")[0]].add(_checksum(name))
    text = "".join([f"{test} {' '.join(sorted(lines[test]))}\n" for test in sorted(lines)])
    PLACE.write_text(
        f"# Written by `make sample`: checksums of the cases that `make test` leaves to `make test-all`.\n{text}"
    )
