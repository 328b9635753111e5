"""The mode of ``functionalize``: what calls change in place becomes a new tensor, as those below it see."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torchlike._aten.packets import OpOverload, ops
from torchlike._aten.python_dispatch import kernel, modes_set_to
from torchlike._aten.tags import Tag
from torchlike._base.layout import contiguous_strides
from torchlike._base.promotion import can_cast
from torchlike._base.state import state
from torchlike._core.tensor.tensor import Tensor, wrap
from torchlike.func._view_inverses import Views
from torchlike.utils._pytree import tree_map

aten = ops.aten


_SHARED = (
    "functionalize: a tensor is changed in place that shares its memory with another one from outside of the function; "
    "pass one of them, and make the other within"
)


class _Base:
    """What a storage holds: a tensor that nothing changes, and how often it was another one."""

    def __init__(self, value: Tensor) -> None:
        self.origin = self.value = value
        self.generation = 0


class _Alias:
    """A tensor as a view of what its storage holds, and the tensor that stands for it."""

    def __init__(self, tensor: Tensor, base: _Base, chain: tuple, value: Tensor, generation: int = 0) -> None:
        self.tensor, self.place, self.base, self.chain = tensor, (tensor._storage, tensor._view), base, chain
        self.value, self.generation = value, generation
        self.moved = False  # whether a call that is under way changes its strides


class FunctionalMode:
    """Shows each aten call to the modes below without changes in place.

    The tensors themselves are changed, as without the mode, behind the backs of those. A tensor stands for itself
    until its storage is changed; from then on the result of the functional call does.

    Args:
        copies: whether views are shown as copies.
    """

    def __init__(self, copies: bool) -> None:
        self.views = Views(copies)
        self.bases: dict[int, tuple[Any, list[_Base]]] = {}  # by identity of the storage, which is kept
        self.aliases: dict[Any, _Alias] = {}  # by identity of the tensor, and of its storage and view
        self.arrays: dict[int, tuple[Any, Tensor]] = {}  # what stands for a tensor that is made of an array
        self.own: dict[int, Any] = {}  # storages that came to be within, by identity

    # -- what stands for a tensor -----------------------------------------------------------------------------------

    def _alias(self, t: Tensor) -> _Alias:
        found = self.aliases.get(id(t))
        if found is not None and found.moved and found.place[0] is t._storage:
            found = self._note(t, found.base, found.chain, found.value, found.generation)
        if found is None or found.place[0] is not t._storage or found.place[1] is not t._view:
            found = self.aliases.get((id(t._storage), id(t._view)))
        if found is None:
            _, bases = self.bases.setdefault(id(t._storage), (t._storage, []))
            if any(base.generation for base in bases):
                raise NotImplementedError(_SHARED)
            bases.append(_Base(t))
            found = self._note(t, bases[-1], (), t)
        return found

    def _note(self, t: Tensor, *more: Any) -> _Alias:
        alias = _Alias(t, *more)
        self.aliases[id(t)] = self.aliases[id(t._storage), id(t._view)] = alias
        return alias

    def stand(self, t: Any) -> Any:
        """What stands for a tensor now; itself for everything else."""
        if not isinstance(t, Tensor):
            return t
        if id(t) not in self.aliases and (id(t._storage), id(t._view)) not in self.aliases:
            _, bases = self.bases.get(id(t._storage), (None, []))
            if not bases and t._view is None and id(t._storage.form) in self.arrays:
                return self.arrays[id(t._storage.form)][1]
            if not any(base.generation for base in bases):
                return t
        alias = self._alias(t)
        if alias.generation != alias.base.generation:
            alias.value, alias.generation = self._read(alias.base.value, alias.chain), alias.base.generation
        return alias.value

    def _read(self, value: Any, chain: tuple) -> Tensor:
        for func, args, item in chain:
            value = self.views.call(func, value, *args)
            value = value if item is None else value[item]
        return value

    def replace(self, t: Tensor, new: Tensor) -> None:
        """Have ``new`` stand for ``t``, and what follows for what its storage holds."""
        alias = self._alias(t)
        if len(self.bases[id(t._storage)][1]) > 1:
            raise NotImplementedError(_SHARED)
        values = []
        for i in range(len(alias.chain)):
            values.append(self._read(values[-1], (alias.chain[i - 1],)) if i else alias.base.value)
        for (func, args, item), value in zip(reversed(alias.chain), reversed(values), strict=True):
            new = self.views.base_of(func, args, item, value, new)
        alias.base.value = new
        alias.base.generation += 1
        self.stand(t)

    # -- calls ------------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func is aten.lift_fresh.default:
            return self._made(func(*args))
        if func.is_view:
            return self._viewed(func, args, kwargs)
        if not func._schema.is_mutable:
            return self._made(func(*tree_map(self.stand, args), **tree_map(self.stand, kwargs)))
        if Tag.inplace_view in func.tags or func.overloadpacket is aten.set_:
            return self._reshaped(func, args)
        return self._changed(func, args, kwargs)

    def _made(self, out: Any) -> Any:
        for t in _flat(out):
            if isinstance(t, Tensor):
                self.own[id(t._storage)] = t._storage
        return out

    def hand_over(self, trace: Any) -> None:
        """Tell ``trace`` what stands for tensors and arrays that a backward may read later."""
        for alias in {id(a): a for a in self.aliases.values()}.values():
            t = alias.tensor
            if id(t._storage) in self.own and alias.value is not t and alias.generation == alias.base.generation:
                trace.same(t, alias.value)
        outside = [id(storage.form) for storage, _ in self.bases.values() if id(storage) not in self.own]
        for array, value in self.arrays.values():
            if id(array) not in outside:
                trace.same(wrap(array), value)

    def changed(self) -> Iterator[Tensor]:
        """The tensors from outside whose storages were changed."""
        for storage, bases in list(self.bases.values()):
            origin = bases[0].origin
            if id(storage) not in self.own and (bases[0].generation or self._alias(origin).chain):
                yield origin

    def _viewed(self, func: OpOverload, args: tuple, kwargs: dict) -> Any:
        t, more = args[0], (*args[1:], *kwargs.values())
        known = id(t) in self.aliases or id(t._storage) in self.bases
        alias = self._alias(t)
        value = alias.value  # though it may be of before a change: who reads the view has it made anew
        shown = self.views.call(func, value, *more)
        same = not known and value is t and not self.views.copies
        out = shown if same else kernel(func, args, kwargs)
        for i, (o, s) in enumerate([(out, shown)] if isinstance(out, Tensor) else zip(out, shown, strict=True)):
            step = func, more, None if isinstance(out, Tensor) else i
            if o is t:
                continue
            if o._storage is not t._storage:  # a view in PyTorch, of which a copy was made here
                base = self._note(self._made(o), _Base(s), (), s).base
                self.bases[id(o._storage)] = o._storage, [base]
            else:
                self._note(o, alias.base, (*alias.chain, step), s, alias.generation)
        return out

    def _reshaped(self, func: OpOverload, args: tuple) -> Tensor:
        """A call that changes shape and strides of a tensor: it is a view of what it was."""
        t, alias = args[0], self._alias(args[0])
        name = func.overloadpacket.__name__[:-1]
        if name == "detach":
            return kernel(func, args, {})
        if func is aten.set_.source_Tensor and id(t._storage) in self.own:
            self._alias(args[1])  # by whose storage and view it is found from now on
            self.aliases.pop(id(t), None)
            return t
        if name == "resize" and not alias.chain and t.is_contiguous() and math.prod(args[1]) <= t.numel():
            view, more = aten.as_strided.default, (list(args[1]), list(contiguous_strides(args[1])))
        elif name in ("resize", "set"):
            raise NotImplementedError(f"functionalize: {func} has no functional form here; make a new tensor instead")
        else:
            view, more = getattr(getattr(aten, name), func._overloadname), args[1:]
        value = self.views.call(view, alias.value, *more)
        kernel(func, args, {})
        chain = (*alias.chain, (view, more, None))
        self._note(t, alias.base, chain, value, alias.generation).moved = True
        return t

    def _changed(self, func: OpOverload, args: tuple, kwargs: dict) -> Any:
        pure, outs = functional(func)
        named = dict(zip([a.name for a in func._schema.arguments], args, strict=False)) | kwargs
        targets = [named[a.name] for a in func._schema.arguments if _written(a) and named.get(a.name) is not None]
        defaults = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
        needed = {
            a.name: defaults[a.name] for a in pure._schema.arguments if not a.has_default_value() and a.name in defaults
        }
        given = {name: tree_map(self.stand, x) for name, x in (needed | named).items() if name not in outs}
        by_position = [a.name for a in pure._schema.arguments if not a.kwarg_only and a.name in given]
        results = pure(*[given.pop(name) for name in by_position], **given)
        for target, new in zip(_flat(targets), _flat(results), strict=True):
            self._write(target, new, bool(outs))
        if not func._schema.returns:
            return None
        return targets[0] if len(func._schema.returns) == 1 else tuple(targets)

    def _write(self, t: Tensor, new: Tensor, out: bool) -> None:
        if new.dtype is not t.dtype:
            if not can_cast(new.dtype, t.dtype):
                raise RuntimeError(f"result type {new.dtype} can't be cast to the desired output type {t.dtype}")
            new = aten._to_copy.default(new, dtype=t.dtype, layout=t.layout)
        grown = new.shape != t.shape
        if grown and (not out or t._view is not None):
            raise NotImplementedError("functionalize: the shape of a tensor changes with its values; make a new one")
        self.replace(t, new)
        with modes_set_to(()):
            if grown:
                t.resize_(new.shape)
            t.copy_(new)
        if t._view is None:
            array = t._storage.value
            self.arrays[id(array)] = array, self.stand(t)


def _written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _flat(tree: Any) -> list:
    found: list = []
    tree_map(found.append, tree)
    return found


def functional(func: OpOverload) -> tuple[OpOverload, list[str]]:
    """The overload that computes what ``func`` writes, and those arguments of ``func`` that it does not take.

    Raises NotImplementedError where there is none.
    """
    name = func.overloadpacket.__name__
    outs = [a.name for a in func._schema.arguments if a.is_out]
    wanted = [a.name for a in func._schema.arguments if a.name not in outs]
    stem = name if outs else name.removesuffix("_")
    for packet in (stem, f"{stem}_functional", f"{name}_functional"):
        for o in getattr(getattr(aten, packet, None), "op_overloads", ()):
            if not o._schema.is_mutable and [a.name for a in o._schema.arguments] == wanted:
                return o, outs
    raise NotImplementedError(f"functionalize: {func} has no functional form here; write it out of place")


# -- the trace around it --------------------------------------------------------------------------------------------


class _Told:
    """What a trace is told of storages and values, in terms of the tensors that it has seen."""

    def __init__(self, trace: Any, mode: FunctionalMode) -> None:
        self._trace, self._mode = trace, mode

    def __getattr__(self, name: str) -> Callable:
        return getattr(self._trace, name)

    def made(self, storage: Any) -> None:
        self._mode.own[id(storage)] = storage
        self._trace.made(storage)

    def read(self, t: Tensor) -> None:
        self._trace.read(self._mode.stand(t))

    def kept(self, copy: Tensor, t: Tensor) -> None:
        self._mode.arrays[id(copy._storage.value)] = copy._storage.value, self._mode.stand(t)
        self._trace.kept(copy, self._mode.stand(t))

    @contextmanager
    def recalling(self) -> Iterator[None]:
        with self._trace.recalling(), modes_set_to((*state.dispatch_modes, self._mode)):
            yield


@contextmanager
def functional_calls(copies: bool) -> Iterator[FunctionalMode]:
    """A context in which the active dispatch modes see no change in place."""
    mode, before = FunctionalMode(copies), state.trace
    if before is not None:
        state.trace = _Told(before, mode)
    try:
        with modes_set_to((*state.dispatch_modes, mode)):
            yield mode
    finally:
        state.trace = before
