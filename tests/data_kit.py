"""Small datasets of a library, for the tests of torch.utils.data."""

import importlib
from functools import cache
from types import SimpleNamespace


def data(T):
    return importlib.import_module(f"{T.__name__}.utils.data")


@cache
def kit(T):
    """Datasets of a library."""
    D = data(T)

    class Stream(D.IterableDataset):
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return iter(range(self.n))

    class Sized(Stream):
        def __len__(self):
            return self.n

    class Wrong(Stream):
        def __len__(self):
            return 2

    class Bad(D.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            raise ValueError(f"bad item {i}")

    class Many(D.Dataset):
        asked = []

        def __len__(self):
            return 4

        def __getitems__(self, indices):
            self.asked.append(list(indices))
            return [i * 10 for i in indices]

    class Short(Many):
        def __getitem__(self, i):
            return i

        def __getitems__(self, indices):
            return [1]

    class Endless(D.Dataset):
        def __getitem__(self, i):
            return i

    return SimpleNamespace(Stream=Stream, Sized=Sized, Wrong=Wrong, Bad=Bad, Many=Many, Short=Short, Endless=Endless)


def tensors(T, n=3):
    return data(T).TensorDataset(T.arange(n * 2.0).reshape(n, 2), T.arange(n))
