"""Scripts of this folder, one after the other in one process of each rank, which imports the library once.

    python all_scripts.py LIBRARY FILE SCRIPT PORT SCRIPT PORT ...

Each writes to FILE with its name behind, and makes a group of processes of its own.
"""

import os
import runpy
import sys

library, file, *rest = sys.argv[1:]
for script, port in zip(rest[::2], rest[1::2], strict=True):
    os.environ["MASTER_PORT"] = port
    sys.argv = [script, library, f"{file}.{script}"]
    runpy.run_path(script, run_name="__main__")
