"""What PyTorch gave for programs that run in processes of their own: noted, so that `make test` runs torchlike alone.

``pytorchs.json`` has for each name a checksum of what the answer depends on, and the answer, or a checksum of it. Where
the first is another one, where ours differs, and in `make test-all`, PyTorch is asked. `make answers` notes all anew.
"""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

PLACE = Path(__file__).with_suffix(".json")
asked: list[str] = []  # the names whose answers were not noted, in this process


def given(name: str, sources: Iterable[Path | str], ask: Callable[[], Any]) -> Any:
    """What PyTorch gives: ``ask()``, if it has not been noted for these files and texts."""
    noted = json.loads(PLACE.read_text()) if PLACE.exists() else {}
    depends = checksum([x if isinstance(x, str) else x.read_text() for x in sources])
    write = os.environ.get("TORCHLIKE_ANSWERS", "0") != "0"
    if not write and os.environ.get("TORCHLIKE_EVERY", "0") == "0" and noted.get(name, [""])[0] == depends:
        return noted[name][1]
    answer = ask()
    if noted.get(name, [""])[0] != depends:
        asked.append(name)
    if write:
        PLACE.write_text(json.dumps({**noted, name: [depends, answer]}, indent=0, sort_keys=True) + "\n")
    return answer


def same(name: str, sources: Iterable[Path | str], ours: Any, ask: Callable[[], Any]) -> Any:
    """What PyTorch gives, which is not asked where it once gave just what is ours."""
    theirs: list[Any] = []

    def sum_of_theirs() -> str:
        theirs.append(ask())
        return checksum(theirs[0])

    equal = given(name, sources, sum_of_theirs) == checksum(ours)
    if not theirs and not equal:
        theirs.append(ask())
    return theirs[0] if theirs else ours


def checksum(value: Any) -> str:
    """Of what JSON can write, on this kind of processor and for this PyTorch."""
    about = torch.__version__.partition("+")[0], platform.machine(), value
    return hashlib.blake2b(json.dumps(about).encode(), digest_size=12).hexdigest()
