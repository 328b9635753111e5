"""Results take the memory order of their inputs; which tensors lie apart in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlike._base.layout import Layout, contiguous_strides
from torchlike._core.tensor.tensor import Tensor
from torchlike._core.tensor.views import View
from torchlike._executor.level import LevelValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlike._core.typed import Inputs
    from torchlike._decl.derive import Kernel
    from torchlike._decl.typed import Static


_NUMBER = Layout((), ())
_ruled: dict[Any, Any] = {}  # what rules said: {(operator, static, shapes or geometries of inputs, shape): strides}
RULED = 8192


def inherit_strides(op: Kernel, inputs: Inputs, static: Static, out: Any) -> None:
    """Give the results of a call the strides that PyTorch gives them, by the rule of its operator."""
    outs = out if out.__class__ is tuple else (out,)
    geometries = tuple([_geometry(x) for x in inputs])
    for t in [outs[i] for i in op.columns] if op.columns else outs:
        key = op, static, geometries, t._storage.form.shape
        strides = _ruled.get(key, _ruled)
        if strides is _ruled:
            if len(_ruled) >= RULED:
                _ruled.clear()
            strides = _ruled[key] = _by_rule(op, inputs, static, key[3])
        if strides is not None:
            restride(t, strides)


def _geometry(x: Any) -> Any:
    """What a rule sees of an input, which is the same wherever it begins in memory."""
    if isinstance(x, Tensor):
        return x._storage.form.shape if x._view is None else x._view.layout[:2]
    return None if x is None else 0


def _by_rule(op: Kernel, inputs: Inputs, static: Static, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides of a result of this shape where they are not the contiguous ones, else None."""
    rule: Any = op.layout
    slots: Any = () if op.declaration.lists else op.declaration.dynamic
    layouts = [x._layout if isinstance(x, Tensor) else None for x in inputs]
    for i, slot in enumerate(slots):  # a number where a tensor could be is an operand without dimensions
        if layouts[i] is None and slot.is_tensor and inputs[i] is not None:
            layouts[i] = _NUMBER
    strides = rule(layouts, shape, static)
    return None if strides == contiguous_strides(shape) else strides


def restride(t: Tensor, strides: tuple[int, ...]) -> None:
    """Give a fresh dense tensor other strides: its values stay, its memory order changes."""
    storage = t._storage
    if storage.stands and storage.inner is not None:  # views of it are made at the same places below
        restride(storage.inner, strides)
    elif isinstance(storage.form, LevelValue):
        storage.value.restride(strides)
    storage.strides = strides
    t._view = View((), (), Layout(storage.form.shape, strides, 0))


def apart(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """The tensors in lists, in order, within which none overlaps another: what is written together."""
    if len({id(t._storage) for t in tensors}) == len(tensors) and not met([(i, t) for i, t in enumerate(tensors)]):
        return [[*tensors]]
    parts: list[list[Tensor]] = [[]]
    taken: dict[int, list[tuple[int, int]]] = {}
    for t in tensors:
        memory, start, end = _extent(t)
        spans = taken.setdefault(memory, [])
        if any([start < other_end and other < end for other, other_end in spans]):
            parts.append([])
            taken = {memory: (spans := [])}
        parts[-1].append(t)
        spans.append((start, end))
    return parts


def met(users: Sequence[tuple[int, Tensor]]) -> bool:
    """Whether memory that numpy sees too is used by two: storages of their own may lie over one array."""
    spans = sorted([(*_extent(t)[1:], user) for user, t in users if t._storage.shared])
    reached, last = 0, -1
    for start, end, user in spans:
        if start < reached and user != last:
            return True
        if end > reached:
            reached, last = end, user
    return False


def _extent(t: Tensor) -> tuple[int, int, int]:
    """What names the memory of ``t``, the first byte there that it shows, and the one after the last."""
    layout, size, storage = t._layout, t.itemsize, t._storage
    last = sum([(n - 1) * stride for n, stride in zip(layout.shape, layout.strides, strict=True)])
    memory, first = (0, storage.host.address) if storage.shared else (id(storage), 0)
    return memory, first + layout.offset * size, first + (layout.offset + last + 1) * size
