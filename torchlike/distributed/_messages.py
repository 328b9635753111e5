"""Objects between processes, and messages from one to another, through jax's key-value store."""

import json
import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from torchlike._core.overrides.torch_function import publish as _publish
from torchlike._core.tensor.tensor import Tensor
from torchlike._executor.pending import as_numpy
from torchlike.distributed import _runtime
from torchlike.distributed._calls import SILENT, Work, assign, demand_eager, values
from torchlike.distributed._collectives import demand_tensor, root_of
from torchlike.distributed._runtime import DistBackendError
from torchlike.distributed.distributed_c10d import (
    ProcessGroup,
    _demand_member,
    found,
    get_global_rank,
    get_group_rank,
    is_member,
    takes_part,
)  # fmt: skip

__all__ = [
    "P2POp", "all_gather_object", "batch_isend_irecv", "broadcast_object_list", "gather_object", "irecv", "isend",
    "recv", "recv_object_list", "scatter_object_list", "send", "send_object_list",
]  # fmt: skip


# -- objects -----------------------------------------------------------------------------------------------------------


def _say(group: ProcessGroup, number: int, obj: Any, to: Any = "all") -> None:
    key = group.key("object", number, group.rank(), to)
    _runtime.put(key, pickle.dumps(obj))
    group.unread.append(key)


def _hear(group: ProcessGroup, number: int, rank: int, what: str, to: Any = "all") -> Any:
    source = group.ranks[rank]
    late = f"{what} (number {number}): rank {source} gave nothing"
    return pickle.loads(_runtime.awaited(group.key("object", number, rank, to), group.seconds(), [source], late))


def _number(group: ProcessGroup) -> int:
    demand_eager("an object")
    with group.lock:
        return next(group.calls)


def everybody(group: ProcessGroup, obj: Any, what: str) -> list[Any]:
    """The objects of all; whoever has them all knows that what was said before has been read."""
    number, old = _number(group), list(group.unread)
    if group.is_fake:
        return [obj] * group.size()
    _say(group, number, obj)
    heard = [obj if rank == group.rank() else _hear(group, number, rank, what) for rank in range(group.size())]
    for key in old:
        _runtime.forget(key)
    group.unread[: len(old)] = []
    return heard


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Let the objects of a list be those of all processes, which are pickled. IndexError: the list is too short."""
    if not takes_part(group, "all_gather_object"):
        return
    found_ = found(group)
    if found_.size() == 1:
        object_list[0] = obj
        return
    for i, one in enumerate(everybody(found_, obj, "all_gather_object")):
        object_list[i] = one


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Let the objects of a list on the process ``dst`` be those of all processes."""
    if not takes_part(group, "gather_object"):
        return
    found_ = found(group)
    root = root_of("gather_object", found_, dst, group_dst, "dst")
    if (found_.rank() == root) != bool(object_gather_list):
        must = "must NOT be specified on non-destination" if object_gather_list else "must be specified on destination"
        raise ValueError(f"Argument ``object_gather_list`` {must} rank.")
    every = [obj] if found_.size() == 1 else everybody(found_, obj, "gather_object")
    if object_gather_list:
        for i, one in enumerate(every):
            object_gather_list[i] = one


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Let the objects of a list be those of the process ``src``; the lists have one length."""
    if not takes_part(group, "broadcast_object_list"):
        return
    found_ = found(group)
    root = root_of("broadcast_object_list", found_, src, group_src, "src")
    if found_.size() == 1:
        return
    number = _number(found_)
    if found_.rank() == root:
        _say(found_, number, list(object_list))
        return
    heard = _hear(found_, number, root, "broadcast_object_list")
    if len(heard) != len(object_list):
        raise RuntimeError(
            f"broadcast_object_list: rank {found_.ranks[root]} sends {len(heard)} objects, this list has "
            f"{len(object_list)}"
        )
    object_list[:] = heard


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None, src: int | None = None,
    group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Let the first of a list be the object for this process in the list that the process ``src`` gives."""
    if not takes_part(group, "scatter_object_list"):
        return
    found_ = found(group)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root, number = root_of("scatter_object_list", found_, src, group_src, "src"), _number(found_)
    if found_.rank() != root:
        scatter_object_output_list[0] = _hear(found_, number, root, "scatter_object_list", found_.rank())
        return
    if scatter_object_input_list is None or len(scatter_object_input_list) != found_.size():
        raise ValueError(f"scatter_object_list: the source gives one object for each of {found_.size()} ranks")
    scatter_object_output_list[0] = scatter_object_input_list[root]
    for rank, obj in enumerate(scatter_object_input_list):
        if rank != root:
            _say(found_, number, obj, rank)


# -- messages ----------------------------------------------------------------------------------------------------------


def _numbered(group: ProcessGroup, source: int, target: int, tag: Any) -> str:
    """The key of the next message of these."""
    demand_eager("a message")
    with group.lock:
        number = group.sent.get((source, target, tag), 0)
        group.sent[source, target, tag] = number + 1
    return group.key("message", source, target, tag, number)


def _peer(name: str, group: ProcessGroup, rank: int | None, group_rank: int | None) -> int:
    if (rank is None) == (group_rank is None):
        raise ValueError(f"{name}: give either a rank or a group_rank")
    chosen = get_group_rank(group, rank) if group_rank is None and rank is not None else group_rank
    assert chosen is not None
    if not 0 <= chosen < group.size():
        raise ValueError(f"{name}: there is no rank {chosen} in a group of {group.size()}")
    if chosen == group.rank():
        raise ValueError(f"Invalid {name} peer: the rank should not be the same as the rank of the current process.")
    return chosen


def _packed(t: Tensor) -> bytes:
    (array,) = values([t])
    head = json.dumps([str(array.dtype), list(array.shape)]).encode()
    return len(head).to_bytes(4, "little") + head + as_numpy(array).tobytes()


def _unpacked(t: Tensor, data: bytes, what: str) -> Any:
    """The array of a message for ``t``. RuntimeError where it is another."""
    length = int.from_bytes(data[:4], "little")
    kind, shape = json.loads(data[4 : 4 + length])
    (own,) = values([t])
    if kind != str(own.dtype) or int(np.prod(shape)) != own.size:
        raise RuntimeError(f"{what} a message of {kind}{shape} for a tensor of {own.dtype}{list(own.shape)}")
    return np.frombuffer(data, np.dtype(own.dtype), own.size, 4 + length).reshape(own.shape)


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to the process ``dst``, which calls :func:`recv`; nobody is waited for. ValueError: to itself."""
    demand_tensor(tensor, "tensor")
    _demand_member(group)
    isend(tensor, dst, group, tag, group_dst)


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """As :func:`send`; the work is done at once."""
    demand_tensor(tensor, "tensor")
    if not takes_part(group, "isend"):
        return None
    found_ = found(group)
    target = _peer("destination", found_, dst, group_dst)
    if not found_.is_fake:
        _runtime.put(_numbered(found_, found_.rank(), target, tag), _packed(tensor))
    return Work()


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Let ``tensor`` be what the process ``src`` sends, or whoever sends first; gives that rank, -1 outside the group.

    DistBackendError: nothing came in time. RuntimeError: it has another dtype or number of elements.
    """
    demand_tensor(tensor, "tensor")
    if not takes_part(group, "irecv"):
        return -1
    found_ = found(group)
    if found_.is_fake:
        return -1 if src is None else src
    if src is None and group_src is None:
        source, key = _first_of_any(found_, tag)
    else:
        source = _peer("source", found_, src, group_src)
        key = _numbered(found_, source, found_.rank(), tag)
    _receive(found_, tensor, source, key, None)
    return found_.ranks[source]


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """As :func:`recv`; the tensor changes where the work is waited for, or seen to be done."""
    demand_tensor(tensor, "tensor")
    if not takes_part(group, "irecv"):
        return None
    found_ = found(group)
    if found_.is_fake:
        return Work()
    if src is None and group_src is None:
        return _of_any(found_, tensor, tag)
    source = _peer("source", found_, src, group_src)
    key = _numbered(found_, source, found_.rank(), tag)
    work = Work(lambda seconds: _receive(found_, tensor, source, key, seconds), lambda: _runtime.is_set(key))
    work._source = found_.ranks[source]
    return work


def _of_any(group: ProcessGroup, tensor: Tensor, tag: int) -> Work:
    def finish(seconds: float | None) -> list[Tensor]:
        source, key = _first_of_any(group, tag)
        work._source = group.ranks[source]
        return _receive(group, tensor, source, key, seconds)

    work = Work(finish, lambda: _sender(group, tag) is not None)
    return work


def _receive(group: ProcessGroup, tensor: Tensor, source: int, key: str, seconds: float | None) -> list[Tensor]:
    limit = group.seconds() if seconds is None else seconds
    rank = group.ranks[source]
    data = sent_by(rank, key, limit, f"recv: rank {rank} sent nothing")
    assign(tensor, _unpacked(tensor, data, f"recv: rank {rank} sent"))
    return [tensor]


def sent_by(source: int, key: str, limit: float, late: str) -> bytes:
    """What a rank has sent. DistBackendError: it has ended, or is late; says whom it waits for itself."""
    quiet = min(SILENT, limit)
    data = _runtime.soon(key, quiet)
    if data is None:
        own = f"{_AWAITED}/{_runtime.connection.world.rank}"
        _runtime.put(own, str(source).encode())  # it stays where nothing comes: others may ask later
        try:
            data = _runtime.awaited(key, limit, [source], late, quiet)
        except DistBackendError as error:
            raise DistBackendError(f"{error}{_whom(source)}") from error
        _runtime.forget(own)
    _runtime.forget(key)
    return data


_AWAITED = "torchlike/awaited"


def _whom(rank: int) -> str:
    """In words: for which rank another one waits, and that one, and so on."""
    text, seen = "", {rank}
    while (told := _runtime.soon(f"{_AWAITED}/{rank}", 0.01)) is not None:
        text, rank = f"{text}; rank {rank} waits for rank {int(told)}", int(told)
        if rank in seen:
            break
        seen.add(rank)
    return text


def _first_of_any(group: ProcessGroup, tag: Any) -> tuple[int, str]:
    """Who has sent the next message, and its key."""
    demand_eager("a message")
    me, begun = group.rank(), time.monotonic()
    others = [rank for i, rank in enumerate(group.ranks) if i != me]
    look, gone = begun + SILENT, False
    while time.monotonic() < begun + group.seconds():
        source = _sender(group, tag)
        if source is not None:
            return source, _numbered(group, source, me, tag)
        if gone:
            break
        if time.monotonic() > look:
            gone, look = _runtime.ended(others) == others, time.monotonic() + SILENT
        time.sleep(0.002)
    when = "before they ended" if gone else f"within {group.seconds():g} seconds"
    raise DistBackendError(f"recv: {_runtime.named(others)} sent nothing {when}")


def _sender(group: ProcessGroup, tag: Any) -> int | None:
    """A rank whose message is here."""
    me = group.rank()
    for source in range(group.size()):
        key = group.key("message", source, me, tag, group.sent.get((source, me, tag), 0))
        if source != me and _runtime.is_set(key):
            return source
    return None


class P2POp:
    """A message for :func:`batch_isend_irecv`: ``op`` is :func:`isend` or :func:`irecv`."""

    def __init__(
        self, op: Callable, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``irecv``.")
        if (peer is None) == (group_peer is None):
            raise ValueError("P2POp: give either a peer or a group_peer")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer, self.group_peer = peer, group_peer
        if is_member(group):  # each tells the other
            self.peer = get_global_rank(found(group), group_peer) if group_peer is not None else peer
            self.group_peer = get_group_rank(found(group), peer) if peer is not None else group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin all of these messages; gives their works."""
    if not p2p_op_list:
        raise IndexError("batch_isend_irecv(): the list of operations is empty")
    if not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to be of type ``torch.distributed.P2POp``.")
    works = [op.op(op.tensor, None, op.group, op.tag, op.group_peer) for op in p2p_op_list]
    return [work for work in works if work is not None]


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None, group_dst: int | None = None,
    use_batch: bool = False,
) -> None:  # fmt: skip
    """Send the objects of a list to the process ``dst``, which calls :func:`recv_object_list`."""
    _demand_member(group)
    found_ = found(group)
    target = _peer("destination", found_, dst, group_dst)
    _runtime.put(_numbered(found_, found_.rank(), target, "objects"), pickle.dumps(list(object_list)))


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None,
    use_batch: bool = False,
) -> int:  # fmt: skip
    """Let the objects of a list be what the process ``src`` sends, or whoever sends first; gives that rank."""
    _demand_member(group)
    found_ = found(group)
    if src is None and group_src is None:
        source, key = _first_of_any(found_, "objects")
    else:
        source = _peer("source", found_, src, group_src)
        key = _numbered(found_, source, found_.rank(), "objects")
    who = found_.ranks[source]
    data = sent_by(who, key, found_.seconds(), f"recv_object_list: rank {who} sent nothing")
    object_list[:] = pickle.loads(data)
    return who


_OVERRIDABLE = ("irecv", "isend", "recv", "send")
globals().update(_publish("torch.distributed.distributed_c10d", {name: globals()[name] for name in _OVERRIDABLE}))
