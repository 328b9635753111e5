"""Helpers: run a script under recorded execution, count what it compiles, look at the trace of this thread."""

from contextlib import contextmanager

import jax.monitoring
import numpy as np

import torchlike as torch
from torchlike._base.state import state
from torchlike._executor.pending import Pending
from torchlike._executor.trie import HOT

COMPILED = "/jax/core/compile/backend_compile_duration"
WARM = HOT + 3  # repetitions after which a loop runs as programs


def calls():
    """How many calls the trace of this thread holds."""
    return len(state.recorder.calls)


def computed(t):
    """Whether the numbers of ``t`` are there already."""
    value = t._storage.value
    return value.__class__ is not Pending or value.array is not None


@contextmanager
def compilations():
    """A list that grows with each compilation within."""
    seen = []

    def listener(event, duration, **attributes):
        if event == COMPILED:
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)


def is_steady(step, rounds=5):
    """Whether most rounds of ``step()`` compile nothing; in some, kernels that were called often are optimised."""
    made = []
    for _ in range(rounds):
        with compilations() as found:
            step()
        made.append(len(found))
    return made.count(0) > rounds // 2


def numbers(x):
    """Tensors anywhere in ``x`` as numpy arrays."""
    return jax.tree.map(lambda t: t.detach().numpy() if isinstance(t, torch.Tensor) else t, x, is_leaf=torch.is_tensor)


def agree(script, rtol=1e-5, atol=1e-6):
    """``script()`` gives the same in both modes, however often its lines come back."""
    found = []
    for mode in ("immediate", "recorded"):
        torch.manual_seed(0)
        with torch.set_execution(mode):
            found.append(numbers(script()))
    ours, expected = found[::-1]
    assert jax.tree.structure(ours) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
