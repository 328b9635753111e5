"""CommDebugMode: the collectives that ran."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import jax

from torchlike._aten.packets import ops
from torchlike._base.state import state
from torchlike._executor.hlo import collectives
from torchlike._executor.pending import settled
from torchlike._executor.spread import layout_of, told, watch_with
from torchlike._transforms.capture.compiled_function import Switch
from torchlike.distributed._calls import CHANGING, COUNTING

_FUNCTIONAL = {
    "all-reduce": "all_reduce", "all-gather": "all_gather_into_tensor", "reduce-scatter": "reduce_scatter_tensor",
    "all-to-all": "all_to_all_single", "ragged-all-to-all": "all_to_all_single", "collective-broadcast": "broadcast",
    "collective-permute": "permute_tensor",
}  # fmt: skip
# those that the library calls by other names, such as DistributedDataParallel's
_OWN = {
    "reduce": "allreduce_", "bucket": "allreduce_", "addends": "allreduce_", "broadcast": "broadcast_",
    "gather": "allgather_", "exchange": "alltoall_base_", "scatter_reduce": "reduce_scatter_",
}  # fmt: skip


class CommDebugMode:
    """A context that counts the collectives that run in it: of ``torch.distributed``, and those that XLA has put into
    operators on tensors that lie over several devices, ``redistribute()`` and ``fully_shard()``.

    XLA reduces what PyTorch leaves Partial until it is asked for, and on CPUs it has all_reduce for reduce_scatter, and
    all_to_all where gloo gathers; objects travel without collectives. All else is counted as PyTorch does. Compiled
    functions run as eager code in it; ``python -m torchlike plan`` lists the collectives of their programs.

    >>> import torchlike as torch
    >>> from torchlike.distributed.tensor.debug import CommDebugMode
    >>> with CommDebugMode() as mode:
    ...     y = torch.ones(2) + 1
    >>> mode.get_total_counts()
    0
    """

    def __init__(self) -> None:
        self.comm_counts: dict[Any, int] = defaultdict(int)
        self._programs: dict[Any, Counter[str]] = {}
        self._before: list[Any] = []

    def __enter__(self) -> CommDebugMode:
        recorder = state.recorder
        if recorder is not None and not isinstance(recorder, _AtOnce):
            recorder.cut()
        self.comm_counts = defaultdict(int)
        self._before.append((recorder, Switch.on))
        state.recorder, Switch.on = _AtOnce(), False
        watch_with(self._program, True)
        COUNTING.append(self._call)
        return self

    def __exit__(self, *exc: object) -> None:
        state.recorder, Switch.on = self._before.pop()
        watch_with(self._program, False)
        COUNTING.remove(self._call)

    def get_comm_counts(self) -> dict[Any, int]:
        """{operator: how often it ran}, as ``{torch.ops.c10d_functional.all_reduce: 1}``; 0 for others."""
        return self.comm_counts

    def get_total_counts(self) -> int:
        """How many ran."""
        return sum(self.comm_counts.values())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotImplementedError(f"CommDebugMode.{name} is not supported; it has get_comm_counts, get_total_counts")

    def _call(self, name: str, kind: str, functional: bool) -> None:
        if functional:
            self.comm_counts[getattr(ops.c10d_functional, name)] += 1
        else:
            self.comm_counts[getattr(ops.c10d, CHANGING.get(name) or _OWN[kind])] += 1

    def _program(self, program: Any, values: Sequence[Any]) -> None:
        shapes = tuple(map(_shape, values))
        key = program, tuple([(s.shape, s.dtype, s.sharding) if isinstance(s, _Shape) else type(s) for s in shapes])
        if key not in self._programs:
            found: Counter[str] = Counter()
            for one, n in collectives(program.lower(*shapes).compile().as_text(), {}).items():
                found[_FUNCTIONAL[one.kind]] += n
            self._programs[key] = found
        for name, n in self._programs[key].items():
            self.comm_counts[getattr(ops.c10d_functional, name)] += n


_Shape = jax.ShapeDtypeStruct


def _shape(value: Any) -> Any:
    if not isinstance(value, jax.Array):
        return value
    return _Shape(value.shape, value.dtype, sharding=layout_of(value), weak_type=getattr(value, "weak_type", False))


class _AtOnce:
    """Stands where a recorder does: kernels run at once, and who watches is told of those over several devices."""

    calls = ()
    inside = True

    def record(self, kernel: Callable[..., Any], values: Sequence[Any], name: str) -> Any:
        """``kernel(*values)``."""
        values = tuple([settled(v) for v in values])
        if any(layout_of(v) is not None for v in values):
            told(kernel, *values)
        return kernel(*values)

    def cut(self) -> None:
        """Nothing waits."""

    def examine(self, remark: str | None = None) -> None:
        """Nothing was left for later."""
