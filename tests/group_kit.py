"""Calls in a group of one process, of PyTorch or torchlike."""

import importlib
import warnings

from story_kit import said


def alone(t, call):
    """What a call gives in a group of one, and what it warns of."""
    d = t.distributed
    c10d = importlib.import_module(f"{t.__name__}.distributed.distributed_c10d")
    d.init_process_group("gloo", store=d.HashStore(), rank=0, world_size=1)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = said(lambda: call(t, c10d))
        return found, [(w.category.__name__, str(w.message)) for w in told]
    finally:
        d.destroy_process_group()
