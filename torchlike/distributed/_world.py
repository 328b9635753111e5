"""What there is of groups in this process, as programs look into it: ``distributed_c10d._world`` and its kin."""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from torchlike._base.device import device as Device
from torchlike._core.conversion.convert import from_numpy, tensor
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed import distributed_c10d as c10d
from torchlike.distributed._collectives import demand_tensor
from torchlike.distributed._group_store import store_of
from torchlike.distributed.distributed_c10d import ProcessGroup, found, is_member

__all__ = [
    "_as_iterable", "_canonicalize_group_rank", "_check_single_tensor", "_find_pg_by_ranks_and_tag",
    "_get_all_pg_configs", "_get_default_timeout", "_get_group_size", "_get_group_size_by_name", "_get_group_tag",
    "_get_object_coll_device", "_get_pg_config", "_get_pg_default_device", "_get_process_group_name",
    "_get_process_group_store", "_object_to_tensor", "_pg_group_ranks", "_pg_map", "_pg_names", "_tensor_to_object",
    "_update_default_pg", "_world",
]  # fmt: skip


class _OfGroups(Mapping[Any, Any]):
    """Something of each group of this process at the moment."""

    def __init__(self, value: Callable[[ProcessGroup], Any]) -> None:
        self._value = value

    def __getitem__(self, group: Any) -> Any:
        if group not in c10d._groups.every():
            raise KeyError(group)
        return self._value(group)

    def __iter__(self) -> Iterator[Any]:
        return iter(c10d._groups.every())

    def __len__(self) -> int:
        return len(c10d._groups.every())

    def __repr__(self) -> str:
        return repr(dict(self))


class _RanksOfGroups(_OfGroups):
    """The numbers of ranks; those of the last group without this process are under NON_GROUP_MEMBER."""

    def __getitem__(self, group: Any) -> Any:
        if not is_member(group) and c10d._groups.elsewhere:
            return _numbered(c10d._groups.elsewhere)
        return super().__getitem__(group)

    def __iter__(self) -> Iterator[Any]:
        yield from c10d._groups.every()
        if c10d._groups.elsewhere:
            yield c10d.GroupMember.NON_GROUP_MEMBER

    def __len__(self) -> int:
        return super().__len__() + bool(c10d._groups.elsewhere)


def _numbered(ranks: Sequence[int]) -> dict[int, int]:
    return {rank: i for i, rank in enumerate(ranks)}


def _get_group_tag(pg: ProcessGroup) -> str:
    """By what functional collectives name a group."""
    number = pg.group_name.partition(".")[2] or "0"
    return f"ptd:{number}"


_pg_map = _OfGroups(lambda group: (group.name(), store_of(group)))
_pg_names = _OfGroups(lambda group: group.group_name)
_pg_group_ranks = _RanksOfGroups(lambda group: _numbered(group.ranks))


class _World:
    """The groups of this process, and what is known of each. Only ``default_pg`` can be changed."""

    pg_map, pg_names, pg_group_ranks = _pg_map, _pg_names, _pg_group_ranks
    pg_backend_config = _OfGroups(c10d.get_backend_config)
    pg_to_tag = _OfGroups(_get_group_tag)

    def __init__(self) -> None:
        self.comms: list[Any] = []
        self.pg_coalesce_state: dict[Any, Any] = {}

    @property
    def default_pg(self) -> ProcessGroup | None:
        """The group of all processes, or None."""
        return c10d._groups.world

    @default_pg.setter
    def default_pg(self, group: ProcessGroup | None) -> None:
        _update_default_pg(group)

    @property
    def group_count(self) -> int:
        """How many groups were made, and the number of the next one."""
        return c10d.get_pg_count()

    @property
    def tags_to_pg(self) -> dict[str, list[ProcessGroup]]:
        """The groups of each tag; all of them have the empty one."""
        every = c10d._groups.every()
        return {"": every, **{_get_group_tag(group): [group] for group in every}} if every else {}

    @property
    def pg_config_info(self) -> list[dict[str, Any]]:
        """What logs say of each group; ranks are left out where they are all."""
        told = []
        for group in c10d._groups.every():
            some = group.size() != c10d.get_world_size()
            told.append({
                "pg_name": group.group_name, "pg_desc": group.group_desc,
                "backend_config": c10d.get_backend_config(group), "ranks": list(group.ranks) if some else [],
                "group_size": group.size(), "group_count": self.group_count,
            })  # fmt: skip
        return told


_world = _World()


def _update_default_pg(pg: ProcessGroup | None) -> None:
    """Let another group be that of all processes."""
    groups = c10d._groups
    with groups.lock:
        before, groups.world = groups.world, pg
        groups.others = [g for g in groups.others if g is not pg]
        if before is not None and pg is not None and before is not pg:
            groups.others.append(before)


def _get_process_group_name(pg: ProcessGroup) -> str:
    """The name of a group, by which ``_resolve_process_group`` finds it."""
    return found(pg).group_name


def _get_group_size(group: ProcessGroup | None) -> int:
    """How many processes are in a group."""
    return found(group).size()


def _get_group_size_by_name(group_name: str) -> int:
    """How many processes are in the group of a name."""
    return c10d._resolve_process_group(group_name).size()


def _get_process_group_store(pg: ProcessGroup) -> Any:
    """The store of a group."""
    return store_of(found(pg))


def _get_pg_default_device(group: ProcessGroup | None = None) -> Device:
    """The type of the devices of a group's objects: the CPU, where they are pickled."""
    found(group)
    return Device("cpu")


def _get_object_coll_device(group: ProcessGroup | None = None) -> str:
    """As :func:`_get_pg_default_device`, as text."""
    return _get_pg_default_device(group).type


def _get_pg_config(group: ProcessGroup | None = None) -> dict[str, Any]:
    """What logs say of a group."""
    pg = found(group)
    return {
        "pg_name": pg.group_name, "pg_desc": pg.group_desc, "backend_config": c10d.get_backend_config(pg),
        "pg_size": pg.size(), "ranks": list(pg.ranks),
    }  # fmt: skip


def _get_all_pg_configs() -> list[dict[str, Any]]:
    """:func:`_get_pg_config` of all."""
    return [_get_pg_config(group) for group in c10d._groups.every()]


def _get_default_timeout(backend: Any) -> timedelta:
    """How long a group of a backend waits, where nobody says it."""
    return c10d.default_pg_timeout


def _find_pg_by_ranks_and_tag(tag: str, ranks: list[int]) -> ProcessGroup | None:
    """The group of these ranks, of a tag if that is not empty; None where there is none."""
    tag = tag if not tag or tag.startswith(("ptd:", "user:")) else f"user:{tag}"
    return next((g for g in _world.tags_to_pg.get(tag, []) if list(g.ranks) == list(ranks)), None)


def _object_to_tensor(obj: Any, device: Any, group: Any = None) -> tuple[Tensor, Tensor]:
    """An object as bytes, and their number."""
    data = np.frombuffer(pickle.dumps(obj), np.uint8).copy()
    return from_numpy(data).to(device), tensor([len(data)]).to(device)


def _tensor_to_object(tensor: Tensor, tensor_size: Any, group: Any = None) -> Any:
    """The object of some bytes."""
    return pickle.loads(tensor.cpu().numpy().tobytes()[: int(tensor_size)])


def _canonicalize_group_rank(
    group: ProcessGroup, global_rank: int | None = None, group_rank: int | None = None, return_global: bool = False
) -> int:
    """The number of a rank within a group, or among all. ValueError where it is given neither way, or both."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return c10d.get_global_rank(group, group_rank) if return_global else group_rank
    if global_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    return global_rank if return_global else c10d.get_group_rank(group, global_rank)


def _check_single_tensor(param: Any, param_name: str) -> None:
    """TypeError for what is no tensor."""
    demand_tensor(param, param_name)


def _as_iterable(obj: Any) -> Any:
    """A list or tuple as it is, and anything else in a tuple."""
    return obj if isinstance(obj, list | tuple) else (obj,)
