"""What a process of ``elastic_launch`` runs: ``_entry.py FOLDER`` calls the function there, and leaves its result."""

import os
import pickle
import sys
from multiprocessing import spawn
from pathlib import Path

from torchlike.distributed.elastic.multiprocessing.errors import record


def main(folder: Path) -> None:
    """Call the function of a folder, within the main module that it was made in."""
    with (folder / "call").open("rb") as file:
        spawn.prepare(pickle.load(file))
        function, args = pickle.load(file)
    result = pickle.dumps((int(os.environ["RANK"]), record(function)(*args)))
    (folder / os.environ["LOCAL_RANK"]).write_bytes(result)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
