"""The choice between immediate and recorded execution."""

from __future__ import annotations

from typing import Any

import jax

from torchlike._base.bits import X64
from torchlike._base.state import Context, state
from torchlike._base.volatile import volatile
from torchlike._executor import recorded

__all__ = ["get_execution", "set_execution", "x64"]


class set_execution(Context):
    """Choose how operators run, at once; as a context manager or decorator, go back on exit.

    ``"immediate"``: each call runs its kernel. ``"recorded"``: calls are appended to a trace, which runs when a
    number is needed, at the end of an optimizer's step, and after a module was called without grad; a trace that
    comes back runs as one compiled program. Shapes, dtypes and their errors are immediate in both; what a value
    check finds (an index out of range) may be raised later, naming the line, once the line has run a few times.

    Set at once, the choice is that of this thread and of threads that begin later; a context changes this thread only.
    The environment variable ``TORCHLIKE_EXECUTION`` gives the choice a process starts with.

    Raises ValueError for another name.

    >>> import torchlike as torch
    >>> with torch.set_execution("recorded"):
    ...     y = torch.ones(2) * 3
    ...     print(y)
    tensor([3., 3.])
    """

    def __init__(self, mode: str) -> None:
        if mode not in recorded.MODES:
            raise ValueError(f'set_execution(): mode must be "immediate" or "recorded", not {mode!r}')
        self.mode, self._before = mode, (get_execution(), recorded.Default.recorded)
        recorded.switch(mode, default=True)

    def __enter__(self) -> None:
        recorded.Default.recorded = self._before[1]
        recorded.switch(self.mode)

    def __exit__(self, *exc: object) -> None:
        recorded.switch(self._before[0])

    def clone(self) -> set_execution:
        return type(self)(self.mode)

    def __call__(self, target: Any) -> Any:
        recorded.Default.recorded = self._before[1]
        recorded.switch(self._before[0])
        return super().__call__(target)


@volatile
def get_execution() -> str:
    """How operators run in this thread: ``"immediate"`` or ``"recorded"``."""
    return "immediate" if state.recorder is None else state.recorder.mode


class x64(Context):
    """A context, or a decorator, in which JAX's own functions have 64-bit defaults, or not, in this thread.

    ``import torchlike`` switches 64 bits on, since PyTorch has int64 and float64: ``jnp.ones(3)`` and
    ``jax.random.normal`` give float64 then. Code written for JAX's 32-bit defaults keeps them in ``x64(False)``.
    torchlike's operators need 64 bits, and refuse to run there.

    Raises:
        RuntimeError: ``x64(True)`` in a process with ``JAX_ENABLE_X64=0``, where torchlike's types have 32 bits.

    >>> import jax.numpy as jnp, torchlike as torch
    >>> with torch.x64(False):
    ...     jnp.ones(3).dtype
    dtype('float32')
    """

    def __init__(self, enabled: bool) -> None:
        if enabled and not X64:
            raise RuntimeError("x64(True): torchlike was imported with JAX_ENABLE_X64=0; unset it before Python starts")
        self.enabled = enabled

    def __enter__(self) -> None:
        self._execution = get_execution()
        if not self.enabled:  # what were recorded would be computed with whatever bits it is read with
            recorded.switch("immediate")
        self._jax = jax.enable_x64(self.enabled)
        self._jax.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._jax.__exit__(None, None, None)
        recorded.switch(self._execution)

    def clone(self) -> x64:
        return type(self)(self.enabled)
