"""What a capture sees and changes of what there was before it: only its thread sees the new state.

Note [Captures]
~~~~~~~~~~~~~~~
While a function is captured, in order to be compiled or exported, nothing outside may notice. Nothing is searched for:
the functions that read and change tensors (``_core.mutation``, ``value_of``, the layer below) tell the capture of their
thread what they touch, and from then on

* a storage or version counter from outside has a :class:`Cell` in the capture, with the value, strides and version that
  the function sees. The storage itself is of class :class:`Overlaid` meanwhile, whose fields are those of the cell for
  the thread that captures and its own for all others. The first value in a cell is a tracer: what is computed from
  it, on the host or not, cannot become a constant of the program;
* ``.grad`` of a tensor from outside is an entry of ``grads``, with what it was and whether the function asked;
* other fields of a tensor (its view, history, hooks) are changed in place, and put back from ``fields`` at the end.

Storages, counters and aliases that are made meanwhile tell the capture too (``made``): they are its own, and are as
they are. Those that outlive the capture are found so (``survivors``).
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import jax

from torchlike._base.device import of_array
from torchlike._base.jaxprs import Primitive
from torchlike._base.state import CAPTURE as BIT
from torchlike._base.state import state
from torchlike._core.autocast.settings import autocast_state, set_autocast_state
from torchlike._core.dispatch.layers import CAPTURE
from torchlike._core.tensor.host_memory import LOCK
from torchlike._core.tensor.mutation import CHANGED
from torchlike._core.tensor.shared_memory import Shared
from torchlike._core.tensor.storage import CAPTURES, SHARING, Storage, Version
from torchlike._core.tensor.tensor import Tensor
from torchlike._executor.pending import Pending, lost, settled
from torchlike._executor.references import VARIABLE
from torchlike._executor.sparse import SparseValue
from torchlike._executor.spread import Abstract, layout_of

if TYPE_CHECKING:
    from torchlike._base.device import device as Device
    from torchlike._core.dispatch.layers import Call

Tracer = jax.core.Tracer
# A context in which jax computes at once although it traces; constants in traces that begin within are none of its.
untraced = getattr(jax.core, "eval_context", jax.ensure_compile_time_eval)

# The value that storage number ``number`` of a capture has when the program is called: no array, but a place for one.
read_p = Primitive("read_storage")
read_p.def_abstract_eval(lambda *, number, aval: aval)


def cell_of(cell: Any) -> Any:
    """What the captures of this thread have for a storage or counter, None if it is as it is."""
    capture = state.capture
    while capture is not None:
        found = capture.cells.get(id(cell))
        if found is not None:
            return found
        capture = capture.outer
    return None


def overlaid(cls: type, name: str, theirs: str = "") -> property:
    """A field of ``cls``, for this thread that of the cell if there is one, there called ``theirs``."""
    own, name = getattr(cls, name), theirs or name

    def read(self: Any) -> Any:
        found = cell_of(self)
        return own.__get__(self) if found is None else getattr(found, name)

    def write(self: Any, value: Any) -> None:
        found = cell_of(self)
        if found is None:
            own.__set__(self, value)
        else:
            setattr(found, name, value)

    return property(read, write)


_OF_CELL = ("value", "version", "epoch", "strides")


def _plain(storage: Storage) -> Any:
    """The class that it has untouched. Not ``super()``: another thread may have made it plain again meanwhile."""
    cls = type(storage)
    return PLAIN.get(cls, cls)


class Overlaid(Storage):
    """A storage that a capture has touched."""

    __slots__ = ()
    value, version, epoch, strides = [overlaid(Storage, name) for name in _OF_CELL]
    form = value

    def kept(self, t: Tensor) -> tuple[int, Any] | None:
        found = cell_of(self)
        if found is None:
            return _plain(self).kept(self, t)
        _, read = found.reads.get(id(t), (None, None))
        return read if read is not None and read[0] == found.epoch else found.first(t)

    def keep(self, t: Tensor, epoch: int, value: Any) -> tuple[int, Any]:
        found = cell_of(self)
        if found is None:
            return _plain(self).keep(self, t, epoch, value)
        found.reads[id(t)] = t, (epoch, value)
        return epoch, value


class OverlaidShared(Overlaid, Shared):
    """A storage that a capture has touched, and whose memory numpy sees."""

    __slots__ = ()
    value, version, epoch, strides = [overlaid(Shared, name) for name in _OF_CELL]
    form = overlaid(Shared, "form", "value")

    def written(self, t: Tensor, new: Any) -> bool:
        return cell_of(self) is None and Shared.written(self, t, new)


class OverlaidVersion(Version):
    """A version counter that a capture has touched."""

    __slots__ = ()
    version = overlaid(Version, "version")


SHARING[Overlaid] = OverlaidShared
OVERLAID: dict[type, type] = {Storage: Overlaid, Shared: OverlaidShared, Version: OverlaidVersion}
PLAIN = {overlaid: plain for plain, overlaid in OVERLAID.items()}
_held: dict[int, int] = {}  # {id of an overlaid object: by how many captures}


def _hold(cell: Any) -> None:
    with LOCK.held:  # under which memory is shared, and no longer
        _held[id(cell)] = held = _held.get(id(cell), 0) + 1
        if held == 1:
            cell.__class__ = OVERLAID[cell.__class__]


def _release(cell: Any) -> None:
    with LOCK.held:  # under which memory is shared, and no longer
        _held[id(cell)] -= 1
        if not _held[id(cell)]:
            del _held[id(cell)]
            cell.__class__ = PLAIN[cell.__class__]


class Cell:
    """A storage from outside as a capture sees it.

    Attributes:
        before: the value at first, a tracer if there are numbers. start: the version at first. epoch: of the reads,
            never that of a storage. reads: {id of a view: (it, (epoch, what it read))}.
    """

    __slots__ = ("storage", "value", "before", "version", "start", "epoch", "strides", "reads")

    def __init__(self, storage: Storage) -> None:
        self.storage, self.version, self.start = storage, storage.version, storage.version
        self.value = self.before = None
        self.epoch, self.strides, self.reads = -1 << 62, storage.strides, {}

    def write(self, value: Any) -> None:
        """Let the value at first be ``value``."""
        self.value = self.before = value

    def first(self, t: Tensor) -> tuple[int, Any] | None:
        """The (epoch, value) of a view that is read for the first time, where it is not to be read from the value."""
        return None


class Counter:
    """A version counter from outside as a capture sees it."""

    __slots__ = ("storage", "version", "start")

    def __init__(self, counter: Any) -> None:
        self.storage, self.version, self.start = counter, counter.version, counter.version


class Grad:
    """``.grad`` of a tensor from outside.

    Attributes:
        before, now: what it was and is. asked: whether the function asked for it before it set it. known: whether
            something beside the tensor refers to what it was.
    """

    __slots__ = ("tensor", "before", "now", "asked", "known")

    def __init__(self, tensor: Tensor, before: Tensor | None, asked: bool, known: bool) -> None:
        self.tensor, self.before, self.now, self.asked, self.known = tensor, before, before, asked, known


class Fields:
    """The fields of a tensor from outside before they changed."""

    NAMES = ("_storage", "_vc", "_view", "_rg", "_edge", "_diff")
    __slots__ = ("tensor", "before", "extras", "copy", "sink", "version")

    def __init__(self, t: Tensor) -> None:
        self.tensor, self.before = t, [getattr(t, name) for name in self.NAMES]
        self.extras, self.copy, self.sink = t._ex, _copied(t._ex), t._acc
        self.version: Any = None if t._diff is None else t._diff.version

    def changed(self) -> list[str]:
        """The names of the fields that changed, and "_ex" for hooks."""
        pairs = zip(self.NAMES, self.before, strict=True)
        names = [name for name, old in pairs if getattr(self.tensor, name) is not old]
        return names if _meaning(self.tensor._ex) == _meaning(self.copy) else [*names, "_ex"]

    def restore(self) -> None:
        """Put everything back."""
        t = self.tensor
        if t._storage is not self.before[0] or t._view is not self.before[2]:
            t._cache = None
        for name, old in zip(self.NAMES, self.before, strict=True):
            setattr(t, name, old)
        if t._diff is not None:
            t._diff.version = self.version
        if t._ex is not None:
            _put_back(t._ex, self.copy or {})
        t._ex, t._acc = self.extras, self.sink
        CHANGED.mark = []


def _copied(d: dict[Any, Any] | None) -> dict[Any, Any] | None:
    return None if d is None else {k: _copied(v) if isinstance(v, dict) else v for k, v in d.items()}


def _meaning(d: dict[Any, Any] | None) -> dict[Any, Any]:
    """Nested dicts without those that are empty."""
    found = {k: _meaning(v) if isinstance(v, dict) else v for k, v in (d or {}).items()}
    return {k: v for k, v in found.items() if v != {}}


def _put_back(d: dict[Any, Any], before: dict[Any, Any]) -> None:
    """Give nested dicts the entries that they had, in place: nodes refer to them."""
    for key in [k for k in d if k not in before]:
        if isinstance(d[key], dict):
            _put_back(d[key], {})
        del d[key]
    for key, value in before.items():
        if isinstance(value, dict):
            _put_back(d[key], value)
        else:
            d[key] = value


UNCOMPILED = "that could not be compiled; the function was run again in eager code, which made another one in its place"


class Abandoned:
    """Stands for the value of a tensor made in a capture that came to nothing."""

    __slots__ = ("shape", "dtype", "sharding", "why")

    def __init__(self, tracer: Any, why: str = UNCOMPILED) -> None:
        self.shape, self.dtype, self.sharding, self.why = tracer.shape, tracer.dtype, None, why

    @property
    def __jax_array__(self) -> Any:
        raise RuntimeError(f"this tensor of shape {list(self.shape)} was made while a function was traced {self.why}")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.__jax_array__


def _computed(value: Any) -> Any:
    """The array of a value; what another thread has recorded is computed outside of the trace."""
    if value.__class__ is not Pending or value.array is not None:
        return settled(value)
    with untraced():
        return settled(value)


_ALONE = VARIABLE + 1  # references to a ``.grad`` that its tensor and a variable hold


class Overlay:
    """The state that a capture sees; see Note [Captures].

    Attributes:
        outer: the capture within which this one began, or None. trace: jax's trace of the function.
        sources: the storages that were read, whose numbers are those in ``read_storage``.
        readers: {id of a storage: a tensor by which it was read}. together: pairs of storages that are one input.
        repeats: whether something else decides if the function runs, and how often.
        place: the device of what the function reads, once known; tracers have none. home: its type.
        portable: whether its program may be run elsewhere, by one process.
        spread: whether it was given, or has read, what several devices hold.
        copies: (storage, value) of tensors that are to share memory with an array of numpy, while nobody writes there.
        abstract: whether tensors on meta from outside stand for others of their shapes, as inputs of a program.
    """

    repeats = abstract = portable = spread = False
    place: Device | None = None
    home = property(lambda self: None if self.place is None else self.place.type)

    def __init__(self) -> None:
        self.outer, self.trace = None, None
        self.cells, self.grads, self.fields, self.readers, self.sources = {}, {}, {}, {}, []
        self.together = []
        self.copies: list[tuple[Storage, Any]] = []
        self.own = weakref.WeakValueDictionary()

    def begin(self) -> None:
        """Note jax's trace, which has just begun."""
        self.trace = read_p.bind(number=-1, aval=jax.core.ShapedArray((), "bool"))._trace

    # -- what the thread tells -------------------------------------------------------------------
    def made(self, what: Any) -> None:
        """A storage, counter or alias was made."""
        self.own[id(what)] = what
        if self.outer is not None:
            self.outer.made(what)

    def enter(self, cell: Any) -> None:
        """A storage or counter is going to be read or written."""
        key = id(cell)
        if key in self.cells or key in self.own:
            return
        if isinstance(cell, Version):
            self._add(cell, self._outside(Counter, cell))
        elif cell.__class__ in OVERLAID or cell.__class__ in PLAIN:
            self._add(cell, self._outside(self._read, cell))

    def read_by(self, t: Tensor) -> None:
        """The storage of ``t`` is going to be read."""
        storage = t._storage
        self.enter(storage)
        if id(storage) in self.cells and not self.owns(t):
            known = self.readers.setdefault(id(storage), t)
            if known._view is not None and t._view is None:
                self.readers[id(storage)] = t

    def placed(self, t: Tensor) -> None:
        """The memory around ``t`` is asked for."""
        if self.outer is not None:
            self.outer.placed(t)

    def marks_asked(self, t: Tensor) -> None:
        """It is asked whether ``t`` is a lazy conjugate or negative."""
        if self.outer is not None:
            self.outer.marks_asked(t)

    def retained(self, t: Tensor) -> None:
        """A leaf, as what stands for an argument always is, is to keep its gradient."""
        if self.outer is not None:
            self.outer.retained(t)

    def change(self, t: Tensor) -> None:
        """Fields of ``t`` are going to change."""
        key = id(t)
        if key in self.fields or key in self.own:
            return
        if id(t._storage) in self.own:
            self.own[key] = t  # it stays ours, whatever it will show
        else:
            self.fields[key] = Fields(t)

    def grad_of(self, t: Tensor) -> Tensor | None:
        """What ``t.grad`` is."""
        found = self.grads.get(id(t))
        if found is None:
            if self.owns(t):
                return t._grad
            found = self._note_grad(t, asked=True)
        return found.now

    def set_grad(self, t: Tensor, grad: Tensor | None) -> None:
        """Let ``t.grad`` be ``grad``."""
        found = self.grads.get(id(t))
        if found is None:
            if self.owns(t):
                t._grad = grad
                return
            found = self._note_grad(t, asked=False)
        found.now = grad

    def owns(self, t: Tensor) -> bool:
        """Whether the tensor was made in this capture."""
        key = id(t)
        return key in self.own or (key not in self.fields and id(t._storage) in self.own)

    def others_show(self, t: Tensor) -> bool:
        """Whether other tensors may show the storage of ``t``: those of this capture are known."""
        mine = [x for x in self.own.values() if isinstance(x, Tensor) and x._storage is t._storage]
        return id(t._storage) not in self.own or any([x is not t for x in mine])

    def _note_grad(self, t: Tensor, asked: bool) -> Grad:
        before = t._grad if self.outer is None else self.outer.grad_of(t)
        known = sys.getrefcount(before) > _ALONE  # in a line of its own: arguments of a call count too
        found = self.grads[id(t)] = Grad(t, before, asked, known)
        return found

    def _outside(self, make: Callable[..., Any], cell: Any) -> Any:
        """``make(cell)`` for one that is still as it was before this capture."""
        before, state.capture = state.capture, self.outer
        try:
            if self.outer is not None:
                self.outer.enter(cell)
            return make(cell)
        finally:
            state.capture = before

    def begin_with(self, storage: Storage, tracer: Any) -> None:
        """Let a storage from outside hold the tracer, an input of its own, from the start."""
        self._add(storage, self._outside(self.cell, storage))
        self.cells[id(storage)].write(tracer)

    def cell(self, storage: Storage) -> Cell:
        """The cell of a storage from outside."""
        return Cell(storage)

    def _read(self, storage: Storage) -> Cell:
        cell, value = self.cell(storage), storage.value
        if isinstance(value, SparseValue):
            self.refuse("uses a sparse tensor")
        value = value if lost(value) else _computed(value)
        if self.place is None and isinstance(value, jax.Array) and not isinstance(value, Tracer):
            self.place = of_array(value)
        self.spread = self.spread or layout_of(value) is not None
        if isinstance(value, jax.Array):
            cell.write(self.reading(storage, value.aval))
        else:
            cell.write(self.reading(storage, value) if self.abstract and value.__class__ is Abstract else value)
        return cell

    def reading(self, source: Any, like: Any) -> Any:
        """A tracer like an aval, which stands for what the source holds when the program is called."""
        aval = jax.core.ShapedArray(like.shape, like.dtype, weak_type=like.weak_type)
        self.sources.append(source)
        return self.trace.process_primitive(read_p, (), {"number": len(self.sources) - 1, "aval": aval})

    def _add(self, cell: Any, found: Any) -> None:
        self.cells[id(cell)] = found
        _hold(cell)

    def unite(self, storages: Iterable[Storage]) -> None:
        """Let storages of equal numbers be one input, of programs that are called while they hold one array."""
        first: dict = {}
        for storage in storages:
            self.enter(storage)
            cell = self.cells.get(id(storage))
            if cell is None or cell.value is not cell.before or not isinstance(cell.value, Tracer):
                continue
            value = self._outside(lambda s: _computed(s.value), storage)
            if isinstance(value, Tracer):
                continue
            known = first.setdefault((float(value), value.dtype, tuple(value.devices())), storage)
            if known is not storage:
                cell.write(self.cells[id(known)].before)
                self.together.append((known, storage))

    # -- what came of it -------------------------------------------------------------------------
    def written(self) -> list[Storage]:
        """The storages from outside that hold something else now."""
        return [c.storage for c in self.cells.values() if c.__class__ is Cell and c.value is not c.before]

    def bumped(self) -> list[tuple[Storage, int]]:
        """(counter, how often it was bumped) of the version counters from outside that changed."""
        return [(c.storage, c.version - c.start) for c in self.cells.values() if c.version != c.start]

    def changed(self) -> list[tuple[Tensor, list[str]]]:
        """(tensor, names of the fields that changed) of tensors from outside."""
        found = [(f.tensor, f.changed()) for f in self.fields.values()]
        return [(t, names) for t, names in found if names]

    def survivors(self) -> list[Storage]:
        """The storages made meanwhile whose value is a tracer."""
        return [s for s in list(self.own.values()) if isinstance(s, Storage) and isinstance(s.value, Tracer)]

    def close(self, failed: bool = False, why: str = UNCOMPILED) -> None:
        """Everything outside is as it was; what was made in a capture that failed can no longer be read."""
        for f in self.fields.values():
            f.restore()
        for cell in self.cells.values():
            _release(cell.storage)
        for storage in self.survivors() if failed else ():
            storage.value = Abandoned(storage.value, why)
        self.cells, self.fields, self.grads, self.readers, self.trace = {}, {}, {}, {}, None


class capturing:
    """The context in which ``state.capture`` is ``capture``; in the end autocast is as it was."""

    def __init__(self, capture: Any) -> None:
        self.capture = capture

    def __enter__(self) -> Any:
        self._before = state.capture, state.recorder, state.active & BIT
        self._autocast = autocast_state()
        state.autocast_casts = None
        self.capture.outer = state.capture
        state.capture, state.recorder = self.capture, None
        state.active |= BIT
        CAPTURES.append(self.capture)
        return self.capture

    def __exit__(self, *exc: object) -> None:
        CAPTURES.remove(self.capture)
        state.capture, state.recorder, bit = self._before
        state.active = (state.active & ~BIT) | bit
        set_autocast_state(self._autocast)


@CAPTURE.install
def _layer(call: Call) -> Any:
    """Let the capture know which storages a call reads."""
    capture = state.capture
    if capture is not None:
        if capture.repeats and call.form.writes:
            capture.demand_own(call.op.name, call.inputs[0])
        for x in call.inputs:
            if isinstance(x, Tensor):
                capture.read_by(x)
    return call.run()
