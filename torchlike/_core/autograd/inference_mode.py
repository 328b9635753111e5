"""Inference mode, and grad modes in functions that jax traces, as layers of dispatch.

In inference mode nothing is recorded, and what is made is an inference tensor. Where a function that jax traces
switches the grad mode off, jax follows nothing either: what is made is constant, what is changed keeps its derivative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlike._base.state import state, stops_here
from torchlike._core.dispatch.layers import INFERENCE, STOPPED
from torchlike._core.tensor.mutation import store
from torchlike._core.tensor.storage import UNTRACKED
from torchlike._core.tensor.tensor import Tensor, stopped
from torchlike._core.tensor.views import followed_by_jax
from torchlike._ops.constant import carried, still

if TYPE_CHECKING:
    from torchlike._core.dispatch.layers import Call


@INFERENCE.install
def _layer(call: Call) -> Any:
    """Run the call with recording off; its results are inference tensors unless they alias an input."""
    grad = state.grad
    state.grad = False
    try:
        out = call.run()
    finally:
        state.grad = grad
    if call.form.fresh:
        for t in out if isinstance(out, tuple) else (out,):
            if isinstance(t, Tensor):
                t._vc = UNTRACKED
    return out


@STOPPED.install
def _stopped(call: Call) -> Any:
    """Run the call; jax does not follow it."""
    if not stops_here():
        return call.run()
    if call.form.writes:
        return _written(call)
    out = call.run()
    for t in out if isinstance(out, tuple | list) else (out,):
        if not isinstance(t, Tensor):
            continue
        if not call.form.fresh:
            stopped(t)
        elif followed_by_jax(t._storage.form):
            t._storage.value = still(t._storage.value)
    return out


def _written(call: Call) -> Any:
    storage = call.inputs[0]._storage
    before = storage.value
    out = call.run()
    after = storage.value
    if after is not before and followed_by_jax(after):
        store(storage, carried(before, after))
    return out


def is_inference(input: Tensor) -> bool:
    """Whether ``input`` was made in inference mode."""
    if not isinstance(input, Tensor):
        raise TypeError(f"is_inference(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input.is_inference()
