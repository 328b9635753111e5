"""Passes that are taken up where they were left."""

from __future__ import annotations

from typing import Any

from torchlike.utils.data.datapipes._hook_iterator import _SnapshotState
from torchlike.utils.data.datapipes.datapipe import IterDataPipe
from torchlike.utils.data.graph_settings import apply_random_seed


def _simple_graph_snapshot_restoration(datapipe: IterDataPipe, n_iterations: int, rng: Any = None) -> None:
    """Let the next pass over a pipe begin after ``n_iterations`` items, which are read now.

    ``rng``: the Generator that seeded its shufflers. RuntimeError where the pipe has fewer, or was restored already.
    """
    if datapipe._snapshot_state is _SnapshotState.Restored:
        raise RuntimeError("Snapshot restoration cannot be applied. You can only restore simple snapshot once.")
    if rng is not None:
        apply_random_seed(datapipe, rng)
    datapipe._snapshot_state = _SnapshotState.NotStarted
    source = iter(datapipe)
    for count in range(n_iterations):
        try:
            next(source)
        except StopIteration:
            raise RuntimeError(
                f"Fast-forward {datapipe} by {n_iterations} iterations exceeds the number of samples available: {count}"
            ) from None
    datapipe._fast_forward_iterator = source
    datapipe._snapshot_state = _SnapshotState.Restored
