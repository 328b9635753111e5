"""One collective: its number, its comparison between ranks, its start, and the wait for it with an end.

Note [One at a time]
~~~~~~~~~~~~~~~~~~~~
Collectives run in a thread of their own, programs over several processes where they are called: eager operators of
DTensors, compiled steps. XLA's transport takes the bytes of one for those of another where two ranks run them in
different orders, which threads of one process do by chance. So in a process that has values over several processes one
of them runs at a time: a collective begins when all is done that its caller has launched before, and the call, with
``async_op=True`` too, returns when the collective is done.
"""

import functools
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import jax
import numpy as np

from torchlike._base.state import inference_mode, no_grad, state
from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.tensor import Tensor, array_of, wrap
from torchlike._executor.immediate import uploaded
from torchlike._executor.spread import SPANNING, before_spanning, copy_here
from torchlike._transforms.capture.recording import Unsupported
from torchlike.distributed import _runtime, _xla
from torchlike.distributed._peek import Board
from torchlike.distributed._runtime import DistBackendError
from torchlike.distributed._watch import waiting
from torchlike.distributed.distributed_c10d import ProcessGroup, compares
from torchlike.futures import Future

COMING = 2.0  # seconds in which others are asked what they do, where that is new
SILENT = 1.0  # seconds of a wait after which a rank says where it waits
PATIENCE = 2.0  # seconds for others to say so, once something went wrong


class Work:
    """What ``async_op=True`` returns: a collective that has begun. Its tensors change when it is done.

    ``finish(seconds)`` waits for it, with a limit or its group's; ``ready()`` says whether that would not wait.
    """

    def __init__(self, finish: Callable[[float | None], Any] | None = None, ready: Callable[[], bool] | None = None):
        self._finish, self._ready = finish, ready
        self._lock = threading.Lock()  # who has it waits for all
        self._result: Any = None
        self._error: Exception | None = None
        self._source = -1

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done: True. DistBackendError: a rank died, or did not come in time."""
        if self._finish is not None:
            self._end(None if timeout is None else timeout.total_seconds())
        if self._error is not None:
            raise self._error
        return True

    def _end(self, seconds: float | None) -> None:
        if not self._lock.acquire(timeout=-1 if seconds is None else seconds):
            raise DistBackendError(f"Work.wait(): not done within {seconds:g} seconds, for which another thread waits")
        try:
            if self._finish is not None:
                self._result = self._finish(seconds)
        except Exception as error:
            self._error = error
        finally:
            self._finish = None
            self._lock.release()

    def is_completed(self) -> bool:
        """Whether it is done; its tensors have changed then."""
        if self._finish is not None and self._ready is not None and self._ready():
            self._end(None)
        return self._finish is None

    def is_success(self) -> bool:
        """Whether it is done and went well."""
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        """What went wrong."""
        return self._error

    def result(self) -> Any:
        """The tensors it wrote."""
        return self._result

    def source_rank(self) -> int:
        """The rank that a message came from."""
        return self._source

    _source_rank = source_rank

    def synchronize(self) -> None:
        """As :meth:`wait`."""
        self.wait()

    def block_current_stream(self) -> None:
        """As :meth:`wait`: what is computed next has the tensors."""
        self.wait()

    def get_future(self) -> Future:
        """A future of the tensors, which is complete when the collective is done.

        Its callbacks run in a thread of their own, which may wait for further collectives.
        """
        future: Future = Future()

        def complete() -> None:
            try:
                self.wait()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(self._result)

        if self.is_completed():
            complete()
        else:
            threading.Thread(target=complete, daemon=True, name="torchlike-future").start()
        return future


def concluded(work: Work, async_op: bool) -> Work | None:
    """``work`` if it is asked for; else nothing, once it is done."""
    if async_op:
        return work
    work.wait()
    return None


def demand_processes(name: str) -> None:
    """NotImplementedError where what is done now is written down for later, by one process."""
    maker = next((m.writes for m in state.dispatch_modes if hasattr(m, "writes")), None)
    capture = state.capture
    while capture is not None:
        maker, capture = "torch.export" if capture.portable else maker, capture.outer
    if maker is not None:
        raise NotImplementedError(
            f"{name} between processes under {maker}: what it makes runs in one process and would keep this process's "
            "result; keep the collective outside, or use torch.compile, whose programs have collectives"
        )


def demand_eager(name: str) -> None:
    """End a program that is being traced, before anything has changed."""
    demand_processes(name)
    if state.capture is not None:
        raise Unsupported(f"uses {name} between processes, which is no part of a program")


def values(tensors: Sequence[Tensor]) -> list[Any]:
    """The arrays of tensors; in a function that is being compiled they stand for those of its calls."""
    arrays = [array_of(t) for t in tensors]
    for i, array in enumerate(arrays):
        if isinstance(array, jax.core.Tracer):
            if state.capture is not None:
                continue
            raise jax.errors.TracerArrayConversionError(array)
        if not isinstance(array, jax.Array):
            raise NotImplementedError(
                "torch.distributed: a collective of sparse tensors, on 'meta' or inside torch.func transforms is not "
                "supported: give a dense one, or call it outside of them"
            )
        if not array.is_fully_addressable:
            arrays[i] = _copy_here(array)
    return arrays


def _copy_here(array: jax.Array) -> jax.Array:
    if not array.is_fully_replicated:
        raise ValueError(
            f"torch.distributed: a collective takes a tensor that lies in this process, got one of shape {array.shape} "
            "that is cut over several: give its part, DTensor.to_local(), or all of it, DTensor.full_tensor()"
        )
    return copy_here(array)


def assign(t: Tensor, array: Any) -> None:
    """Let ``t`` have these numbers, of numpy or jax."""
    array = uploaded(array) if isinstance(array, np.ndarray) else array
    if t._view is None and not state.active and array.shape == t.shape:
        write(t, array)
        return
    with inference_mode() if t.is_inference() else no_grad():  # it may be another thread than the caller's
        t.detach().copy_(wrap(array))


# the operators by which PyTorch's functions change their tensors
CHANGING = {
    "all_reduce": "allreduce_", "all_reduce_coalesced": "allreduce_coalesced_", "reduce": "reduce_",
    "reduce_scatter_tensor": "_reduce_scatter_base_", "reduce_scatter": "reduce_scatter_", "broadcast": "broadcast_",
    "all_gather": "allgather_", "all_gather_into_tensor": "_allgather_base_", "gather": "gather_",
    "scatter": "scatter_", "all_to_all_single": "alltoall_base_", "all_to_all": "alltoall_",
}  # fmt: skip
# Who is told of each collective: its name, its kind, and whether the name is a functional one's.
COUNTING: list[Callable[[str, str, bool], None]] = []
_NAMED: list[str] = []
LENGTHS = "lengths"  # the note of what only tells how long things are


def functional(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: what the function calls counts by this name."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            if not COUNTING:
                return function(*args, **kwargs)
            _NAMED.append(name)
            try:
                return function(*args, **kwargs)
            finally:
                _NAMED.pop()

        return named

    return decorated


def start(
    group: ProcessGroup, name: str, kind: str, static: tuple, arrays: Sequence[Any], finish: Callable[[list], Any],
    note: str = "", launch: Callable[[], list] | None = None,
) -> Work:  # fmt: skip
    """Begin a collective of XLA, or ``launch``, which does the same; ``finish(arrays)`` takes its results then."""
    if state.capture is not None or state.dispatch_modes:
        demand_processes(name)
    if group.is_fake:
        given = finish(_xla.alone(kind, group.rank(), group.size(), arrays))
        return Work(lambda _: given)
    if state.capture is not None:
        return _part_of_a_program(group, name, kind, static, arrays, finish)
    if note != LENGTHS:
        for count in COUNTING:
            count(_NAMED[-1] if _NAMED else name, kind, bool(_NAMED))
    facts = [f"{kind}{static}", note, *(_kind(a) for a in arrays)]
    return begun(group, name, facts, launch or (lambda: _xla.launch(kind, group.ranks, static, arrays)), finish)


def begun(
    group: ProcessGroup, name: str, facts: list[str], launch: Callable[[], list[Any]], finish: Callable[[list], Any]
) -> Work:
    """Begin what all ranks of a group do together. ``facts``: what must be the same on all of them.

    ``finish(arrays)`` takes what came, in the thread of collectives.
    """
    said = " ".join([name, *filter(None, facts)])
    with group.lock:
        number = next(group.calls)
        title = f"{name} (number {number} of {_title(group)})"
        if _runtime.connection.broken:
            raise DistBackendError(f"{title}: {_runtime.connection.broken}")
        if group.size() > 1:
            board = _board(group)
            if board is not None:
                board.say(number, said)
            if compares() or (name, *facts) not in group.agreed:
                _compare(group, number, name, facts)
                group.agreed.add((name, *facts))
            else:
                _demand_alike(group, number, said, False)
        arrival = _xla.Arrival(_after_all(launch) if SPANNING else launch, finish)

        def settle(seconds: float) -> None:
            if not (arrival.timed_out and arrival.is_here()):
                _await(group, number, title, arrival, seconds, said)

        group.latest = settle

    def arrive(seconds: float | None) -> Any:
        if failed:
            raise failed[0]
        _await(group, number, title, arrival, group.seconds() if seconds is None else seconds, said)
        result, arrival.result = arrival.result, None  # which the group would keep
        return result

    failed: list[Exception] = []
    if SPANNING:  # see Note [One at a time]
        try:
            _await(group, number, title, arrival, group.seconds(), said)
        except Exception as error:  # which its wait() tells
            failed.append(error)
    return Work(arrive, arrival.is_here)


def _after_all(launch: Callable[[], list[Any]]) -> Callable[[], list[Any]]:
    """``launch``, once all is done that this thread has launched until now."""
    before = _xla.launched()

    def launch_then() -> list[Any]:
        jax.block_until_ready(before)
        return launch()

    return launch_then


def _end_of_collectives() -> None:
    """Wait for those that have begun: from now on one runs at a time."""
    if _runtime.connection.broken:
        raise DistBackendError(f"tensors over several processes: {_runtime.connection.broken}")
    with waiting():
        _xla.Arrival(list).wait(None)


before_spanning(_end_of_collectives)


def _board(group: ProcessGroup) -> Board | None:
    """What the ranks of a group on this machine begin; None where they cannot share memory."""
    if group.board is None:
        boards = _runtime.connection.boards
        boards[group.group_name] += 1
        name = f"{_runtime.connection.run}-{group.group_name}-{boards[group.group_name]}"
        try:
            group.board = Board(name, group.rank(), group.size())
        except OSError:
            group.board = False
    return group.board or None


def _demand_alike(group: ProcessGroup, number: int, text: str, begun: bool) -> None:
    """RuntimeError names a rank that has begun something else. ``begun``: whether this one has sent something."""
    found = group.board.other(number, text) if group.board else None
    if found is None:
        return
    (place, theirs), me = found, group.ranks[group.rank()]
    rank, own = group.ranks[place], group.key("compare", number, me)
    if not _runtime.is_set(own):
        _runtime.put(own, text.encode())
    told = None if theirs else _runtime.soon(group.key("compare", number, rank), 1.0)
    error = (
        f"Detected mismatch between collectives on ranks. Rank {me} is running collective {number}: {text}, but rank "
        f"{rank} is running: {theirs or (told or b'another one').decode()}."
    )
    if begun or theirs:  # one of both has sent what nobody takes
        _runtime.connection.broken = f"an earlier collective failed: {error}"
    raise RuntimeError(error)


def _part_of_a_program(
    group: ProcessGroup, name: str, kind: str, static: tuple, arrays: Sequence[Any], finish: Callable[[list], Any]
) -> Work:
    """A collective in a function that is being compiled: it is done where it stands."""
    if group.size() == 1:
        outs = [_xla.trivial(kind, 1, x) for x in arrays]
    else:
        capture = state.capture
        axes = _axes.setdefault(capture, group.ranks)
        if axes != group.ranks:
            raise Unsupported(f"has collectives of two groups of processes, of which {name} is the second")
        outs = _PART[0](group, kind, static, arrays)
    found = finish(outs)
    work = Work()
    work._result = found
    return work


_axes: weakref.WeakKeyDictionary[Any, tuple[int, ...]] = weakref.WeakKeyDictionary()
_PART: list[Callable[..., list[Any]]] = []  # installed by _programs.py


def _title(group: ProcessGroup) -> str:
    return f"the group of {_runtime.named(group.ranks)}"


def _kind(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _await(
    group: ProcessGroup, number: int, title: str, arrival: _xla.Arrival, seconds: float, text: str
) -> None:  # fmt: skip
    """Wait for a collective. DistBackendError names the ranks that did not take part."""
    begun, place = time.monotonic(), group.key("waits", number)
    patience = min(PATIENCE, seconds / 4)
    quiet = min(SILENT, seconds / 3)
    if not arrival.wait(quiet):
        _arrived(place, group)
        while time.monotonic() - begun < seconds - patience:
            _demand_alike(group, number, text, True)
            if arrival.wait(max(0.01, min(SILENT, seconds - patience - (time.monotonic() - begun)))):
                break
    elif _is_of_transport(arrival):
        _arrived(place, group)
    here = arrival.is_here()
    if here and arrival.error is None:
        if group.board:
            group.board.met()
        return
    if arrival.error is not None and not _is_of_transport(arrival):
        raise arrival.error
    _demand_alike(group, number, text, True)
    missing = _runtime.absent(place, group.ranks, patience)
    spent = time.monotonic() - begun
    reason = f" ({str(arrival.error).partition('%')[0][:200]})" if arrival.error is not None else ""
    who = f"{_runtime.named(missing)} died or did not take part" if missing else "the connection between ranks failed"
    who += "".join(_elsewhere(group, number, rank) for rank in missing)
    text = f"{title}: after {spent:.1f} of {seconds:g} seconds {who}{reason}"
    _runtime.connection.broken = f"an earlier collective failed: {text}"
    raise DistBackendError(text) from arrival.error


def _is_of_transport(arrival: _xla.Arrival) -> bool:
    """Whether the connection failed: jax says so by one of two types, shared memory by a third."""
    error = None if arrival.timed_out else arrival.error
    lost = isinstance(error, (jax.errors.JaxRuntimeError, ConnectionError))
    return lost or isinstance(error, ValueError) and "Gloo" in str(error)


def _elsewhere(group: ProcessGroup, number: int, rank: int) -> str:
    key = group.key("compare", number, rank)
    return f"; rank {rank} is running: {_runtime.get(key, 1.0, key).decode()}" if _runtime.is_set(key) else ""


def _arrived(place: str, group: ProcessGroup) -> None:
    """Let the others see that this process is at a collective."""
    if group.size() > 1:
        _runtime.put(f"{place}/{group.ranks[group.rank()]}", b"")


def _compare(group: ProcessGroup, number: int, name: str, facts: list[str]) -> None:
    """Let the ranks of a group tell each other what they are about to do. RuntimeError names two that differ.

    XLA would take one's bytes for the other's. What all have done before is compared where TORCH_DISTRIBUTED_DEBUG
    says so; else nobody waits long here, since only the collective itself notices soon that a rank has died.
    """
    me, text = group.ranks[group.rank()], " ".join([name, *filter(None, facts)])
    _runtime.put(group.key("compare", number, me), text.encode())
    end = time.monotonic() + min(COMING, group.seconds() / 4)
    for rank in group.ranks:
        theirs = _told_by(rank, group, number, name, end)
        if theirs is not None and theirs != text:
            raise RuntimeError(
                f"Detected mismatch between collectives on ranks. Rank {me} is running collective {number}: {text}, "
                f"but rank {rank} is running: {theirs}."
            )
    if group.compared:
        _runtime.forget(group.key("compare", group.compared, me))
    group.compared = number


def _told_by(rank: int, group: ProcessGroup, number: int, name: str, end: float) -> str | None:
    """What a rank says that it is about to do; None where it has not come by then."""
    key = group.key("compare", number, rank)
    if compares():
        late = f"{name} (number {number} of {_title(group)}): rank {rank} died or did not take part"
        return _runtime.get(key, group.seconds(), late).decode()
    found = _runtime.soon(key, max(0.01, end - time.monotonic()))
    if found is None and _runtime.is_set(f"{group.key('waits', number)}/{rank}"):
        return "another one, which it has run before"
    return None if found is None else found.decode()
