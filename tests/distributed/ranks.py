"""How a script of PyTorch and torchlike tells what its cases gave on this rank."""

import datetime
import json
import sys
import traceback


def run(d, cases, seconds=30, told=lambda result: result):
    """Write ``told(case(rank))`` of each case, or its error, as JSON to the file that is the second argument.

    A third argument chooses the cases whose names contain it. ``seconds``: how long a rank waits for another.
    """
    d.init_process_group("gloo", timeout=datetime.timedelta(seconds=seconds))
    rank, found = d.get_rank(), {}
    for name, case in cases.items():
        if len(sys.argv) > 3 and sys.argv[3] not in name:
            continue
        try:
            found[name] = told(case(rank))
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        d.barrier()
    with open(sys.argv[2], "w") as file:
        json.dump(found, file)
    d.destroy_process_group()
