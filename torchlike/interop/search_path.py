"""The folder `children` on the search paths of this process and of those that it starts.

It has a package `torch`, which makes torch mean torchlike where it is imported, and the metadata of one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = str(Path(__file__).resolve().parent / "children")
_VARIABLE = "PYTHONPATH"


def install() -> None:
    """Add the folder here and to the environment, which children inherit."""
    if FOLDER not in sys.path:
        sys.path.insert(1, FOLDER)  # the first is the script's own; children that are spawned take over the rest
    given = os.environ.get(_VARIABLE)
    if FOLDER not in (given or "").split(os.pathsep):
        os.environ[_VARIABLE] = f"{FOLDER}{os.pathsep}{given}" if given else FOLDER


def uninstall() -> None:
    """Take it out again."""
    if FOLDER in sys.path:
        sys.path.remove(FOLDER)
    given = os.environ.get(_VARIABLE, "")
    if given == FOLDER:
        del os.environ[_VARIABLE]
    elif FOLDER in given:
        os.environ[_VARIABLE] = given.replace(FOLDER + os.pathsep, "", 1)
