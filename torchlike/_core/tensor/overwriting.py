"""Changes of a part of a large tensor, computed in the memory of its old value.

Note [Overwriting]
~~~~~~~~~~~~~~~~~~
Arrays never change, so ``x[i] = v`` copies all of ``x``: milliseconds for millions of elements, where XLA writes one
number if the old array is donated. That is gone then, so nobody may be left with it:

- Whoever holds the array itself is counted: a graph that saved it, a detached copy's storage, a variable of the user.
  XLA counts who sees its memory without the array (numpy, dlpack), and copies then.
- What jax makes of an array without counting (``jax.device_put`` to where it is) takes an array that the user was
  given. So only the result of a change is overwritten by the next one, and ``references.lent`` ends that.
- Another thread may read the array at any time: where there is one, a token takes the place of the array first. Who
  reads that waits for the new value, who had read the array before is counted, and who wrote meanwhile came later.
- Captures and traces look at old values, recorded execution has its own way, several devices share pieces.

What fails, fails before: checks of values are computed first, and shapes are settled when the kernel is compiled. One
call in C runs the kernel and keeps its result, in the storage or where the token finds it, so that no signal comes
between the two.
"""

from __future__ import annotations

import sys
import threading
import weakref
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from jax import numpy as jnp

from torchlike._base.state import state
from torchlike._base.threads import alone
from torchlike._base.tracing import trace_state_clean
from torchlike._core.tensor.storage import CAPTURES, Storage
from torchlike._executor import immediate
from torchlike._executor.kernels import jit
from torchlike._executor.pending import Array, Pending, kind_of, pending
from torchlike._executor.references import KNOWN, ONE, SHARING, owned
from torchlike._executor.spread import USED

if TYPE_CHECKING:
    from torchlike._decl.derive import Kernel
    from torchlike._decl.typed import Static

LEAST = 1 << 17  # elements from which a copy takes much longer than a call
_OPERANDS = frozenset((Array, bool, int, float, complex, type(None)))
_put = Storage.__dict__["form"].__set__  # of the slot of ``value``
_OVER = "over"
_IN_TURN = getattr(sys, "_is_gil_enabled", lambda: True)()  # threads: what calls nothing is not interrupted


def large(storage: Storage) -> bool:
    """Whether a change of a part of what the storage holds is worth a kernel of its own."""
    return storage.__class__ is Storage and storage.form.__class__ is Array and storage.form.size >= LEAST


def overwrite(
    storage: Storage, op: Kernel, static: Static, others: tuple[Any, ...], expected: weakref.ref[Any] | None = None
) -> int:
    """Let a :func:`large` storage hold ``op(its value, *others)``, in the memory of its value; see Note [Overwriting].

    ``expected``: to what ``others`` were computed from, if they were computed from the value. Returns the storage's
    epoch as this change leaves it, or 0, with nothing done, if somebody may still hold the value, or it is another.
    """
    if CAPTURES or state.trace is not None or state.recorder is not None or USED or SHARING:
        return 0
    old = storage.value
    if not getattr(old, "_owned", False) or getrefcount(old) > KNOWN or not trace_state_clean():
        return 0
    if expected is not None and expected() is not old:
        return 0
    if not _OPERANDS.issuperset([x.__class__ for x in others]):
        return 0
    try:
        kernel, verdict = _compiled(op, static)
        bad = None if verdict is None else verdict(old, *others)
    except Exception:  # who computes as usual finds it too, and says it in PyTorch's words
        return 0
    immediate.verified(op, static, (old, *others), (None, bad))
    if not alone():
        values = [old]
        del old
        return _overwrite_beside(storage, values, kernel, others) if _IN_TURN else 0
    storage.epoch += 1  # before, too: who is interrupted between the write and the count leaves no view out of date
    try:
        [*map(_put, (storage,), map(kernel, (old,), *[(x,) for x in others]))]
    except Exception:
        if old.is_deleted():
            raise
        return 0
    finally:
        storage.epoch += 1
        epoch = storage.epoch
    owned(storage.value)
    return epoch


def _overwrite_beside(storage: Storage, values: list[Any], kernel: Any, others: tuple[Any, ...]) -> int:
    """As :func:`overwrite`, beside other threads; ``values`` has the old value, which nobody else holds here."""
    change, done = Change(values), False
    with change.lock:
        token = pending(kind_of(values[0].aval, values[0].sharding), change)
        if storage.__class__ is not Storage or storage.value is not values[0]:
            return 0
        storage.value = token  # no thread comes between, as nothing is called
        try:
            if max(map(getrefcount, values)) > ONE or not getattr(values[0], "_owned", False):
                return 0
            storage.epoch += 1
            change.results.extend(map(kernel, values, *[(x,) for x in others]))
            owned(change.results[0])
            done = True
        except Exception:
            if values[0].is_deleted():
                raise
            return 0
        finally:
            change.end(storage, token)
    return change.epoch if done else 0


class Change:
    """A token in the place of the old value while that is overwritten; who reads it waits for the new one."""

    __slots__ = ("lock", "values", "results", "epoch")

    def __init__(self, values: list[Any]) -> None:
        self.lock, self.values, self.results, self.epoch = threading.RLock(), values, [], 0

    def end(self, storage: Storage, token: Pending) -> None:
        """The new array is there, or the old one still. Who interrupts this leaves it to who reads the token."""
        now = token.array = (self.results or self.values)[0]
        last = storage.value is token
        if last:
            storage.value = now  # no thread comes between, as nothing is called
        storage.epoch += 1
        self.epoch = storage.epoch if last else storage.epoch - 1  # a past one, if another thread's value stands there
        self.values.clear()
        self.results.clear()  # tokens know them

    def settle(self, token: Pending) -> None:
        """Wait for the new value; code that interrupts the change sees a copy of the old one."""
        with self.lock:
            if token.array is None:
                token.array = self.results[0] if self.results else jnp.array(self.values[0])


def _compiled(op: Kernel, static: Static) -> tuple[Any, Any]:
    """The kernel of ``op`` that overwrites its first argument, and that of its check, if it has one."""
    found = op.kernels.get((_OVER, static))
    if found is None:
        name = immediate.named(op, static)
        verdict = None if op.checked is None else jit(op.verdict(static), None if name is None else ("verdict", name))
        found = op.kernels[_OVER, static] = jit(op.forward(static), name, (0,)), verdict
    return found


def overwritable(value: Any) -> Any:
    """``value``, which a kernel has just computed, so that nobody has it yet: the next change may overwrite it."""
    if value.__class__ is Array and value.size >= LEAST:
        owned(value)
    return value
