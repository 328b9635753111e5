"""Programs are lowered in one MLIR context after the other, each of many programs: jax makes one for each.

That takes as long as the rest of lowering a small program. What imports this, tests and the scripts that they start,
shares them.
"""

import os
import threading

from jax._src.interpreters import mlir

USES = 200  # programs in a context, which keeps their constants
_new, _of_thread = mlir.make_ir_context, threading.local()


def _context() -> mlir.ir.Context:
    """The context of this thread; a new one after some programs."""
    uses = getattr(_of_thread, "uses", 0)
    if uses % USES == 0:
        _of_thread.kept = _new()
    _of_thread.uses = uses + 1
    return _of_thread.kept


def _forget() -> None:
    """Let a forked process make its own: the parent's waits for threads that are not there, and so would its end."""
    _LEFT.append(getattr(_of_thread, "kept", None))
    _of_thread.uses = 0


_LEFT: list = []
mlir.make_ir_context = _context
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
