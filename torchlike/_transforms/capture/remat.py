"""Recomputation that XLA keeps: in a program, a region that runs again reads its inputs behind a fence.

XLA sees a region and its second run in backward as equal expressions, and would compute them once: the
results would live from forward to backward again. So the second run reads other values: each array from
outside passes a fence that opens when the gradient of the region is there, and equals what went in.
Parameters do not: what depends on nothing else may well be computed once. All this is for what becomes one
program, traced or recorded; code that runs call by call computes what it is told.

XLA keeps ``optimization_barrier`` on accelerators but drops it early on the CPU. There the fence is a
choice between the array and zeros, by a condition that is true but that XLA does not see through.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

import jax
from jax import lax

from torchlike._base import opaque
from torchlike._base.state import REMAT, state
from torchlike._core.dispatch.layers import AGAIN
from torchlike._core.overrides.torch_function import unseen
from torchlike._core.tensor.mutation import become, lend
from torchlike._core.tensor.storage import holding
from torchlike._core.tensor.tensor import Tensor, value_of
from torchlike._executor.immediate import Abstract
from torchlike._executor.pending import Pending, all_settled

if TYPE_CHECKING:
    from torchlike._core.dispatch.layers import Call
    from torchlike._decl.typed import Value

_WAITING = 4  # how many gradients that are still to be summed a fence waits for


_word = jax.jit(opaque.word)


@jax.jit
def _opened(*words: jax.Array) -> jax.Array:
    """True, after all of them."""
    return opaque.certain(functools.reduce(operator.xor, words))


def _choice(value: Any, opened: Any) -> jax.Array:
    return lax.select(opened, value, lax.full_like(value, 0))


def _barrier(value: Any, opened: Any) -> jax.Array:
    return lax.optimization_barrier((value, opened))[0]


@jax.jit
def _behind(value: Any, opened: Any) -> jax.Array:
    return lax.platform_dependent(value, opened, cpu=_choice, default=_barrier)


def _run(kernel: Callable[..., Any], *values: Value) -> Any:
    """``kernel(*values)``, recorded if calls are."""
    recorder = state.recorder
    return kernel(*all_settled(values)) if recorder is None else recorder.record(kernel, values, "checkpoint")


def _in_program(value: Any) -> bool:
    """Whether what is done with the value becomes part of a program: it is being traced, or calls are recorded."""
    return state.recorder is not None or isinstance(value, jax.core.Tracer)


@unseen
def words_of(results: Iterable[Any]) -> dict[int, Any]:
    """{node: word} of those of these tensors that belong to a program; the node is None without a history."""
    found = {}
    for t in results:
        if isinstance(t._storage.form, Abstract) or not t.numel() or not (t.is_floating_point() or t.is_complex()):
            continue
        if _in_program(t._storage.value):
            found.setdefault(t.grad_fn, _run(_word, value_of(t)))
    return found


def fence(gradients: Iterable[Any], words: Collection[Any]) -> Any:
    """What opens when the gradients of a region and the region itself are there; None outside a program or backward.

    It waits too for gradients that are still to be summed, so that regions side by side run again in turn.
    """
    arrived = [value_of(g) for g in gradients if g is not None and g.numel()]
    if state.task is None or not arrived or not words or not any(map(_in_program, (*words, *arrived))):
        return None
    waiting = [g for buffer in state.task.buffers.values() for g in buffer if g is not None]
    waiting = [value_of(g) if isinstance(g, Tensor) else g for g in waiting[:_WAITING]]
    return _run(_opened, *words, *[_run(_word, g) for g in (*arrived, *waiting) if g.size])


def watch(results: Iterable[Any], start: int, tell: Callable[..., Any]) -> None:
    """Call ``tell(fence)`` in each backward that reaches ``results``, if they belong to a program.

    Nodes numbered below ``start`` are not part of the region.
    """
    for node, word in words_of(results).items():
        if node is not None and node._seq >= start:
            node.register_prehook(lambda grads, word=word: tell(fence(grads, [word])))


class Rerun(threading.local):
    """The second run of a region in this thread, or None."""

    current: Any = None


_rerun = Rerun()


class Again:
    """The context of a second run; without a fence it does nothing.

    What the run reads is replaced where it is stored, so that every alias sees it, and put back at the end.
    """

    def __init__(self, opened: Any) -> None:
        self.opened, self.own, self.fenced = opened, {}, {}

    def __enter__(self) -> Again:
        self._before = _rerun.current, state.active & REMAT
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        for storage, before, fenced in self.fenced.values():
            if storage.value is fenced:
                lend(storage, before)

    def start(self) -> None:
        """Put what is read from now on behind the fence."""
        if self.opened is not None:
            _rerun.current = self
            state.active |= REMAT

    def stop(self) -> None:
        """The region has run; what was replaced stays until the end of the context."""
        if self.opened is not None:
            _rerun.current, bit = self._before
            state.active = (state.active & ~REMAT) | bit

    def read(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs of a call, with tensors from outside behind the fence; arrays of the host, never saved, stay."""
        for x in inputs:
            if isinstance(x, Tensor) and id(x._storage) not in self.own and id(x._storage) not in self.fenced:
                self._replace(x)
        return inputs

    def behind(self, value: Any) -> Any:
        """The array behind the fence."""
        return _run(_behind, value, self.opened)

    def _replace(self, t: Tensor) -> None:
        storage = t._storage
        value = storage.value
        if _is_parameter(t) or not isinstance(value, jax.Array | Pending):
            return
        lend(storage, self.behind(value))
        self.fenced[id(storage)] = storage, value, storage.value

    def made(self, out: Any) -> Any:
        """Note what a call of the region gave."""
        for t in out if isinstance(out, tuple | list) else (out,):
            if isinstance(t, Tensor):
                self.own[id(t._storage)] = t._storage
        return out

    def keep(self, tensors: Iterable[Any]) -> None:
        """Let these tensors read what is behind the fence even when the context is left."""
        moved = {}
        for t in tensors:
            storage, _, fenced = self.fenced.get(id(t._storage), (None, None, None))
            if storage is not None and storage.value is fenced:
                if id(storage) not in moved:
                    moved[id(storage)] = holding(fenced)
                    moved[id(storage)].strides = storage.strides
                become(t, moved[id(storage)], t._view)


def _is_parameter(t: Tensor) -> bool:
    base = t if t._diff is None else t._diff.base
    return getattr(base, "_is_param", False)


def replayed(make: Callable[..., Any], inputs: tuple[Any, ...], results: Any) -> Any:
    """``make(inputs, results)``, a call whose results are known, behind the fence of the second run if there is one."""
    again = _rerun.current
    if again is None:
        return make(inputs, results)
    several = isinstance(results, tuple)
    results = tuple([again.behind(x) for x in (results if several else (results,))])
    return again.made(make(again.read(inputs), results if several else results[0]))


@AGAIN.install
def _layer(call: Call) -> Any:
    again = _rerun.current
    if again is None:  # a backward that went on in another thread
        return call.run()
    return again.made(call.run(again.read(call.inputs)))
