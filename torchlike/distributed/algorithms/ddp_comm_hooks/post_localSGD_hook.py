"""A communication hook for local SGD: means of gradients over all processes at first, over those of a group later."""

from typing import Any

from torchlike.distributed import distributed_c10d as c10d
from torchlike.distributed._buckets import mean
from torchlike.futures import Future

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """What :func:`post_localSGD_hook` keeps.

    Args:
        process_group: of the first steps; None for that of all processes.
        subgroup: of the later ones; None for the processes of this machine.
        start_localSGD_iter: the number of the first later step.
        post_local_gradient_allreduce: whether gradients are averaged in later steps at all.
    """

    def __init__(
        self, process_group: Any, subgroup: Any, start_localSGD_iter: int,  # noqa: N803
        post_local_gradient_allreduce: bool = True,
    ) -> None:  # fmt: skip
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count one of the first steps, at its last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: Any) -> Future:  # noqa: N802
    """The gradients of a bucket, averaged as ``state`` says; to be used with a ``PeriodicModelAverager``."""
    buffer = bucket.buffer()
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return mean(state.process_group, buffer)
    if not state.post_local_gradient_allreduce:
        done: Future = Future()
        done.set_result(buffer)
        return done
    if state.subgroup is None:
        state.subgroup, _ = c10d.new_subgroups()
    return mean(state.subgroup, buffer)
