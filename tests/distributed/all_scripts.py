"""Scripts of this folder, one after the other in one process of each rank, which imports the library once.

    python all_scripts.py LIBRARY FILE SCRIPT PORT SCRIPT PORT ...

Each writes to FILE with its name behind, and makes a group of processes of its own.
"""

import importlib
import os
import runpy
import sys
from pathlib import Path

library, file, *rest = sys.argv[1:]
if library == "torchlike":
    sys.path.append(str(Path(__file__).parents[1]))
    importlib.import_module("lowering_kit")  # lowering takes less time
for script, port in zip(rest[::2], rest[1::2], strict=True):
    os.environ["MASTER_PORT"] = port
    sys.argv = [script, library, f"{file}.{script}"]
    runpy.run_path(script, run_name="__main__")
