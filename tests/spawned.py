"""What processes run that are started anew: they import this file, and no library that they have no use for."""

import importlib
from pathlib import Path


def work(index, path):
    Path(path, str(index)).write_text(str(index * 2))


def fail(index):
    raise ValueError(f"number {index} fails")


def told(t):
    """What a product computes in here, and what autocast is set to."""
    x = t.ones(2, 2)
    return str((x @ x).dtype), t.is_autocast_enabled("cpu"), str(t.get_autocast_dtype("cpu")), t.is_grad_enabled()


class Telling:
    """A dataset whose samples tell what they are made in; PyTorch sends it to other processes."""

    def __init__(self, library):
        self.library = library

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return told(importlib.import_module(self.library))
