"""Saving: the ranks agree on who writes what, write, and let the checkpoint count."""

import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from enum import Enum
from typing import Any

from torchlike._base.frames import warn
from torchlike.distributed.checkpoint._ranks import Ranks
from torchlike.distributed.checkpoint.default_planner import DefaultSavePlanner
from torchlike.distributed.checkpoint.filesystem import FileSystemWriter
from torchlike.distributed.checkpoint.metadata import Metadata
from torchlike.distributed.checkpoint.planner import SavePlan, SavePlanner
from torchlike.distributed.checkpoint.staging import BlockingAsyncStager
from torchlike.distributed.checkpoint.stateful import Stateful
from torchlike.distributed.checkpoint.storage import StorageWriter
from torchlike.distributed.distributed_c10d import ProcessGroup, found, is_initialized

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]

Where = str | os.PathLike | None


class AsyncCheckpointerType(Enum):
    """Who writes in the background. PROCESS is not supported."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """What ``async_save`` gives of a stager that copies later: futures of the copy and of the checkpoint."""

    staging_completion: Future
    upload_completion: Future


def ranks_of(process_group: ProcessGroup | None, no_dist: bool, doing: str) -> ProcessGroup | None:
    """The group that takes part; None for this process alone."""
    if no_dist:
        return None
    if not is_initialized():
        warn(
            "torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to "
            f"{doing} in a single process.",
            UserWarning,
        )
        return None
    return found(process_group)


def storage_of(storage: Any, made: Any, checkpoint_id: Where) -> Any:
    """The storage that is given, or a folder. RuntimeError without both."""
    if storage is not None:
        storage.reset(checkpoint_id)
        return storage
    if not checkpoint_id:
        raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
    if not made.validate_checkpoint_id(checkpoint_id):
        raise RuntimeError(f"Cannot detect which StorageReader or StorageWriter to use for {checkpoint_id}: give one")
    storage = made(checkpoint_id)
    return storage


def save(
    state_dict: dict[str, Any], *, checkpoint_id: Where = None, storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None, process_group: ProcessGroup | None = None, no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:  # fmt: skip
    """Save a nested dict of tensors and objects; all ranks of the group call it, and each writes a part.

    What several ranks have is written once. Objects with ``state_dict()`` are saved by it. PyTorch reads the result.
    A rank that fails or dies leaves the checkpoint that was there before; in this folder there is always a whole one.

    Args:
        checkpoint_id: the folder. storage_writer, planner: instead of files, and of writing everything once.
        no_dist: this process alone. use_collectives: without effect.

    Returns:
        What the checkpoint says of itself, on all ranks.

    Raises:
        CheckpointException: on all ranks, where a step failed on one: ``failures`` has the errors.
        DistBackendError: a rank did not come in time. RuntimeError: neither a folder nor a writer.

    >>> import torchlike as torch, tempfile, os
    >>> import torchlike.distributed.checkpoint as dcp
    >>> model = torch.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = dcp.save({"model": model.state_dict(), "step": 3}, checkpoint_id=folder, no_dist=True)
    ...     sorted(os.listdir(folder)), sorted(found.state_dict_metadata)
    (['.metadata', '__0_0.distcp'], ['model.bias', 'model.weight', 'step'])
    """
    group = ranks_of(process_group, no_dist, "save")
    writer = storage_of(storage_writer, FileSystemWriter, checkpoint_id)
    return _saved(told(state_dict), Ranks(group), writer, planner)


def told(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """The state dict, with the states of objects that tell theirs."""
    return {key: x.state_dict() if isinstance(x, Stateful) else x for key, x in state_dict.items()}


def _saved(state: dict[str, Any], ranks: Ranks, writer: StorageWriter, planner: SavePlanner | None) -> Metadata:
    plans = DefaultSavePlanner() if planner is None else planner
    described: list[Metadata] = []

    def local() -> SavePlan:
        plans.set_up_planner(state, writer.storage_meta(), ranks.is_coordinator)
        writer.set_up_storage_writer(ranks.is_coordinator)
        return writer.prepare_local_plan(plans.create_local_plan())

    def everything(every: list[SavePlan]) -> list[SavePlan]:
        made, metadata = plans.create_global_plan(every)
        described.append(metadata)
        return writer.prepare_global_plan(made)

    plan = ranks.apart("plan of a checkpoint", local, everything)

    def write() -> Any:
        return writer.write_data(plans.finish_plan(plan), plans).wait()

    def finish(results: list[Any]) -> Metadata:
        writer.finish(described[0], results)
        return described[0]

    return ranks.together("end of a checkpoint", write, finish)


def save_state_dict(
    state_dict: dict[str, Any], storage_writer: StorageWriter, process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: SavePlanner | None = None,
) -> Metadata:  # fmt: skip
    """The older name of :func:`save`. NotImplementedError for another coordinator than rank 0."""
    if coordinator_rank:
        raise NotImplementedError("save_state_dict(coordinator_rank=) is not supported: rank 0 is the coordinator")
    warn("'save_state_dict' is deprecated and will be removed in future versions. Please use 'save' instead.",
         FutureWarning)  # fmt: skip
    return save(state_dict, storage_writer=storage_writer, process_group=process_group, no_dist=no_dist,
                planner=planner)  # fmt: skip


# -- in the background -------------------------------------------------------------------------------------------------
_groups: dict[str, ProcessGroup] = {}
_latest: dict[str, Future] = {}  # the save of a group that began last
_lock = threading.Lock()


def _beside(group: ProcessGroup | None) -> ProcessGroup | None:
    """A group of the same ranks for a thread of its own, whose calls are counted by themselves."""
    if group is None or group.size() == 1:
        return None
    with _lock:
        if group.group_name not in _groups:
            me = group.ranks[group.rank()]
            name = f"{group.group_name}.checkpoints"
            _groups[group.group_name] = ProcessGroup(group.ranks, me, group.name(), name, group.timeout)
        return _groups[group.group_name]


def async_save(
    state_dict: dict[str, Any], *, checkpoint_id: Where = None, storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None, process_group: ProcessGroup | None = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD, async_stager: Any = None,
    no_dist: bool = False, use_collectives: bool = True,
) -> Future | AsyncSaveResponse:  # fmt: skip
    """:func:`save` in a thread, of the state as it is now: a future of what :func:`save` returns.

    Saves of one group are written one after the other. ``async_stager`` copies the state; one that gives a future of
    the copy makes this an :class:`AsyncSaveResponse`. NotImplementedError for a process.

    >>> import torchlike as torch, tempfile
    >>> import torchlike.distributed.checkpoint as dcp
    >>> x, y = torch.ones(2), {"x": torch.zeros(2)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     later = dcp.async_save({"x": x}, checkpoint_id=folder, no_dist=True)
    ...     _ = x.zero_()
    ...     _ = later.result()
    ...     dcp.load(y, checkpoint_id=folder, no_dist=True)
    >>> y
    {'x': tensor([1., 1.])}
    """
    if async_checkpointer_type is not AsyncCheckpointerType.THREAD:
        raise NotImplementedError("async_save: a thread of this process writes; processes are not supported")
    group = _beside(ranks_of(process_group, no_dist, "save"))
    writer = storage_of(storage_writer, FileSystemWriter, checkpoint_id)
    stager = BlockingAsyncStager() if async_stager is None else async_stager
    staged = stager.stage(told(state_dict))
    future: Future = Future()
    before = None
    if group is not None:
        with _lock:
            before, _latest[group.group_name] = _latest.get(group.group_name), future

    def run() -> None:
        if before is not None:  # ranks would take what one says for what the other does
            wait([before])
        try:
            state = staged.result() if isinstance(staged, Future) else staged
            future.set_result(_saved(state, Ranks(group), writer, planner))
        except BaseException as error:  # a CheckpointException is no Exception
            future.set_exception(error)

    threading.Thread(target=run, name="torchlike-checkpoint").start()
    if isinstance(staged, Future):
        return AsyncSaveResponse(_once(staged), future)
    if stager.should_synchronize_after_execute:
        stager.synchronize_staging()
    return future


def _once(staged: Future) -> Future:
    """A future of nothing, which is there with another one."""
    done: Future = Future()
    staged.add_done_callback(lambda f: done.set_exception(f.exception()) if f.exception() else done.set_result(None))
    return done
