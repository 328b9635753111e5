"""Loading: each rank reads what its state dict has names for, whoever wrote it."""

from typing import Any

from torchlike._base.frames import warn
from torchlike.distributed.checkpoint._ranks import Ranks
from torchlike.distributed.checkpoint.default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from torchlike.distributed.checkpoint.filesystem import FileSystemReader
from torchlike.distributed.checkpoint.metadata import Metadata
from torchlike.distributed.checkpoint.planner import LoadPlan, LoadPlanner
from torchlike.distributed.checkpoint.state_dict_saver import Where, ranks_of, storage_of, told
from torchlike.distributed.checkpoint.stateful import Stateful
from torchlike.distributed.checkpoint.storage import StorageReader
from torchlike.distributed.distributed_c10d import ProcessGroup

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any], *, checkpoint_id: Where = None, storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None, process_group: ProcessGroup | None = None, no_dist: bool = False,
) -> None:  # fmt: skip
    """Fill a nested dict from a checkpoint: tensors change in place, other objects are put in their places.

    The checkpoint may have been written by another number of ranks, in other pieces, or by PyTorch. Objects with
    ``load_state_dict()`` get what was saved of them by it.

    Args:
        checkpoint_id: the folder. storage_reader, planner: instead of files, and of reading every name of the dict.
        no_dist: this process alone.

    Raises:
        CheckpointException: on all ranks, where a step failed on one: ``failures`` has the errors, as RuntimeError
            for a name that the checkpoint has not, ValueError for a tensor of another size.
        RuntimeError: neither a folder nor a reader.

    >>> import torchlike as torch, tempfile
    >>> import torchlike.distributed.checkpoint as dcp
    >>> state = {"weight": torch.zeros(2), "step": 0}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dcp.save({"weight": torch.ones(2), "step": 7}, checkpoint_id=folder, no_dist=True)
    ...     dcp.load(state, checkpoint_id=folder, no_dist=True)
    >>> state
    {'weight': tensor([1., 1.]), 'step': 7}
    """
    ranks = Ranks(ranks_of(process_group, no_dist, "load"))
    reader = storage_of(storage_reader, FileSystemReader, checkpoint_id)
    keys = sorted({key for each in ranks.everywhere("keys of a checkpoint", lambda: list(state_dict)) for key in each},
                  key=str)  # fmt: skip
    state = told({key: state_dict[key] for key in keys if key in state_dict})
    _fill(state, ranks, reader, planner)
    for key, value in state.items():
        own = state_dict.get(key)
        if isinstance(own, Stateful):
            own.load_state_dict(value)
        else:
            state_dict[key] = value


def _fill(state: dict[str, Any], ranks: Ranks, reader: StorageReader, planner: LoadPlanner | None) -> None:
    plans = DefaultLoadPlanner() if planner is None else planner

    def described() -> Metadata:
        try:
            return reader.read_metadata()
        except OSError as error:
            raise AssertionError(f"metadata is None; global metadata read failed: {error}") from error

    def local() -> LoadPlan:
        metadata = described()
        plans.set_up_planner(state, metadata, ranks.is_coordinator)
        reader.set_up_storage_reader(metadata, ranks.is_coordinator)
        return reader.prepare_local_plan(plans.create_local_plan())

    def everything(every: list[LoadPlan]) -> list[LoadPlan]:
        return reader.prepare_global_plan(plans.create_global_plan(every))

    plan = ranks.apart("plan of a checkpoint", local, everything)
    ranks.everywhere("reading of a checkpoint", lambda: reader.read_data(plans.finish_plan(plan), plans).wait())


def load_state_dict(
    state_dict: dict[str, Any], storage_reader: StorageReader, process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: LoadPlanner | None = None,
) -> None:  # fmt: skip
    """The older name of :func:`load`. NotImplementedError for another coordinator than rank 0."""
    if coordinator_rank:
        raise NotImplementedError("load_state_dict(coordinator_rank=) is not supported: rank 0 is the coordinator")
    warn("'load_state_dict' is deprecated and will be removed in future versions. Please use 'load' instead.",
         FutureWarning)  # fmt: skip
    load(state_dict, storage_reader=storage_reader, process_group=process_group, no_dist=no_dist, planner=planner)


def _load_state_dict(
    state_dict: dict[str, Any], storage_reader: StorageReader, process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0, no_dist: bool = False, planner: LoadPlanner | None = None,
) -> None:  # fmt: skip
    """Fill a dict as :func:`load`, which knows of objects with ``load_state_dict()``; this one of tensors alone."""
    if coordinator_rank:
        raise NotImplementedError("_load_state_dict(coordinator_rank=) is not supported: rank 0 is the coordinator")
    _fill(state_dict, Ranks(ranks_of(process_group, no_dist, "load")), storage_reader, planner)


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None, *, checkpoint_id: Where = None, storage_reader: StorageReader | None = None,
    process_group: ProcessGroup | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A new dict of what a checkpoint has: all of it, or the names that are, or begin with, one of ``keys``."""
    wanted = {keys} if isinstance(keys, str) else keys
    state: dict[str, Any] = {}
    reader = storage_of(storage_reader, FileSystemReader, checkpoint_id)
    ranks = Ranks(ranks_of(process_group, False, "load"))
    _fill(state, ranks, reader, _EmptyStateDictLoadPlanner(wanted))
    return state
