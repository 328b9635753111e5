"""The tensors and storages that exist: noted before a function is traced, compared and put back after it."""

import collections
import gc
import sys
import threading
import weakref
from types import FrameType

import jax

from torchlike._core.storage import UNTRACKED, Storage, Version
from torchlike._core.tensor import Tensor
from torchlike._executor.pending import lost, settled

Tracer = jax.core.Tracer
LOCK = threading.RLock()  # a trace changes storages for a while, and programs donate them: one at a time
ANY = object()  # stands for any ``.grad`` but None
_HERE = 2  # references to a variable's value: of the variable, and of the call of getrefcount
_FEW = 16  # types for which asking the collector is faster


def _subclasses(cls):
    found = {cls}
    for sub in cls.__subclasses__():
        found |= _subclasses(sub)
    return found


class _Hidden:
    """Our objects that the collector does not see, because ``gc.freeze()`` was called.

    Attributes:
        objects: weak references to them. mark: an object made after the last call that we know of; another call
            hides it too.
    """

    objects: list = []
    mark = [Storage]


def _seen(kinds):
    """(the objects of these types that the collector sees, whether it sees all but those in ``_Hidden``)."""
    # an object refers to its type, which the collector finds faster than Python
    found = gc.get_referrers(*kinds, Storage) if len(kinds) < _FEW else gc.get_objects()
    return [o for o in found if type(o) in kinds], any([o is _Hidden.mark for o in found])


def _living(kinds):
    """The objects of these types."""
    found, complete = _seen(kinds)
    if not complete:
        gc.collect()
        gc.unfreeze()
        _Hidden.objects = [weakref.ref(o) for o in _seen(_subclasses(Tensor) | {Storage, Version})[0]]
        gc.freeze()
        _Hidden.mark = [Storage]
        found = []
    known = {id(o): o for o in found}
    for reference in _Hidden.objects:
        o = reference()
        if type(o) in kinds:
            known[id(o)] = o
    return list(known.values())


def _holders(tensors, ids):
    """What refers to one of the tensors; ``gc.freeze()`` hides nothing of it."""
    found = gc.get_referrers(*tensors)
    if gc.get_freeze_count():
        counts = collections.Counter([id(x) for holder in found for x in gc.get_referents(holder) if id(x) in ids])
        if any(sys.getrefcount(t) > counts[id(t)] + _HERE for t in tensors):
            gc.unfreeze()
            found = gc.get_referrers(*tensors)
    return found


def _collections():
    return [generation["collections"] for generation in gc.get_stats()]


class collection_paused:
    """The context in which no garbage is collected, so that what is made stays in the youngest generation."""

    def __enter__(self):
        self._on = gc.isenabled()
        gc.disable()

    def __exit__(self, *exc):
        if self._on:
            gc.enable()


class World:
    """What every storage and tensor holds.

    Attributes:
        storages: {id of a storage: (storage, value, strides)}. owners: {id of a value: its storages}.
        tensors: (tensor, its fields) of each tensor. counters: (counter, version) of each version counter.
    """

    GRAD = 5  # the position of ``.grad`` among the fields
    _FIELDS = ("_storage", "_vc", "_view", "_rg", "_edge", "_grad", "_diff", "_ex")

    def __init__(self):
        tensor_kinds = _subclasses(Tensor)
        self.storages, self.owners, self.tensors = {}, {}, []
        self.hooks, self.sinks, counters = [], [], {}
        for o in _living(tensor_kinds | {Storage, Version}):
            if type(o) is Storage:
                o.value = o.value if lost(o.value) else settled(o.value)
                self.add(o)
                counters[id(o)] = o
            elif type(o) is Version:
                counters[id(o)] = o
            else:
                self.tensors.append((o, tuple(getattr(o, f, None) for f in self._FIELDS)))
                self.sinks.append((o, o._acc))
                o._cache = None  # what a view has read is no input of the program: let it read again
                if o._ex:
                    self.hooks.append((o._ex, _copied(o._ex)))
        self.counters = [(c, c.version) for c in counters.values()]
        self._collections = _collections()

    def add(self, storage):
        """Note a storage made since, whose value is an array."""
        self.storages[id(storage)] = storage, storage.value, storage.strides
        self.owners.setdefault(id(storage.value), []).append(storage)

    def traced(self):
        """The storages made since whose value is a tracer."""
        if _collections() != self._collections:
            return traced_storages()
        return [o for o in gc.get_objects(0) if type(o) is Storage and isinstance(o.value, Tracer)]

    def written(self):
        """The storages that hold something else now."""
        return [s for s, value, _ in self.storages.values() if s.value is not value]

    def bumped(self):
        """(counter, how often it was bumped) of the version counters that changed."""
        return [(c, c.version - version) for c, version in self.counters if c.version != version]

    def known_elsewhere(self, tensors, ours):
        """The ids of those tensors that something other than a leaf's ``.grad`` and the objects ``ours`` refers to."""
        if not tensors:
            return set()
        own = {id(x) for x in ours} | {id(x) for x in self.sinks}
        own |= {id(x) for entry in self.tensors for x in (entry, entry[1])}
        ids, known = {id(t) for t in tensors}, set()
        for holder in _holders(tensors, ids):
            if id(holder) not in own and not isinstance(holder, FrameType):
                known |= ids & {id(x) for x in gc.get_referents(holder)}
        return known

    def hooked(self):
        """Whether the hooks of a tensor changed in place."""
        return any(_copied(extras) != before for extras, before in self.hooks)

    def changed(self):
        """(tensor, {field: value before}) of the tensors of which a field changed."""
        found = []
        for t, before in self.tensors:
            now = {f: old for f, old in zip(self._FIELDS, before, strict=True) if getattr(t, f, None) is not old}
            if now:
                found.append((t, now))
        return found

    def restore(self):
        """Give every storage, counter and tensor what it had."""
        for s, value, strides in self.storages.values():
            if s.value is not value:
                s.value, s.strides = value, strides
                s.epoch += 1
        for counter, version in self.counters:
            if counter is not UNTRACKED:
                counter.version = version
        for extras, before in self.hooks:
            _put_back(extras, before)
        for t, sink in self.sinks:  # one made while tracing has that time's hooks
            t._acc = sink
            t._cache = None
        for t, before in self.changed():
            for field, value in before.items():
                setattr(t, field, value)
            t._cache = None


def _copied(d):
    return {k: _copied(v) if isinstance(v, dict) else v for k, v in d.items()}


def _put_back(d, before):
    """Give nested dicts the entries that they had, in place."""
    for key in [k for k in d if k not in before]:
        del d[key]
    for key, value in before.items():
        if isinstance(value, dict):
            _put_back(d[key], value)
        else:
            d[key] = value


def traced_storages():
    """The living storages whose value is a tracer."""
    return [s for s in _living({Storage}) if isinstance(s.value, Tracer)]
