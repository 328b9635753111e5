"""The tests that `make test` leaves to `make test-all`; see ``make_sample.py``, which chooses them.

``sample.txt`` has a line for each file, and after it one for each test function in it, with checksums of the names of
the cases that are left out.
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
    found, file = {}, ""
    for line in PLACE.read_text().splitlines() if PLACE.exists() else ():
        name, *sums = line.split()
        if not sums:
            file = name
        elif name != "#":
            found[f"{file}::{name}"] = frozenset(sums)
    return found


def left_out(name: str) -> bool:
    """Whether the test with this name, as pytest writes it, is left to ``make test-all``."""
    return _checksum(name) in _left().get(name.partition("[")[0], ())


def write(names: list[str], more: bool = False) -> None:
    """Note the tests that are left out; with ``more`` in addition to those that are."""
    files: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for place, sums in _left().items() if more else ():
        file, _, test = place.partition("::")
        files[file][test] |= sums
    for name in names:
        file, _, test = name.partition("[")[0].partition("::")
        files[file][test].add(_checksum(name))
    lines = ["# Written by `make sample`: checksums of the cases that `make test` leaves to `make test-all`."]
    for file, tests in sorted(files.items()):
        lines += [file, *[f"{test} {' '.join(sorted(sums))}" for test, sums in sorted(tests.items())]]
    PLACE.write_text("\n".join([*lines, ""]))
