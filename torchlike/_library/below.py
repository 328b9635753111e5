"""Which layers of registered operators the current thread leaves out."""

import threading
from typing import Any

from torchlike._base.state import state


class Below(threading.local):
    """Of this thread: whether autograd is left out, and the operators whose ``__torch_dispatch__`` runs."""

    autograd = False
    seen: tuple = ()


BELOW = Below()


class AutoDispatchBelowAutograd:
    """A context in which calls of registered operators go past their kernels for Autograd, and nothing is recorded."""

    def __enter__(self) -> None:
        self._before = BELOW.autograd, state.grad
        BELOW.autograd, state.grad = True, False

    def __exit__(self, *exc: Any) -> None:
        BELOW.autograd, state.grad = self._before
