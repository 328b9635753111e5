"""Which layers of registered operators the current thread leaves out."""

import threading
from typing import Any

from torchlike._base.state import below_autograd


class Excluded(threading.local):
    """Of this thread: whether autograd is left out, and the operators whose ``__torch_dispatch__`` runs."""

    autograd = False
    dispatched: tuple = ()


EXCLUDED = Excluded()


class AutoDispatchBelowAutograd(below_autograd):
    """A context in which calls of registered operators go past their kernels for Autograd, and nothing is recorded."""

    def __enter__(self) -> None:
        self._above = EXCLUDED.autograd
        EXCLUDED.autograd = True
        super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        EXCLUDED.autograd = self._above
