"""A profile of operators: how often each runs, how long, and how many bytes it gives."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike._executor.pending import settled
from torchlike.utils._python_dispatch import TorchDispatchMode
from torchlike.utils._pytree import tree_flatten


class OpRecord:
    """What was measured of one operator.

    Attributes:
        calls: how many. seconds: of wall time on the host, in all. bytes: of all results together.
    """

    __slots__ = ("name", "calls", "seconds", "bytes")

    def __init__(self, name: str) -> None:
        self.name, self.calls, self.seconds, self.bytes = name, 0, 0.0, 0

    def __repr__(self) -> str:
        return f"OpRecord({self.name}: {self.calls} calls, {self.seconds * 1e3:.3f} ms, {self.bytes} bytes)"


class OperatorProfile(TorchDispatchMode):
    """A mode that measures every operator that runs within, by its name in ``torch.ops``.

    Args:
        synchronize: wait for the results of each call, so that its time is that of the computation too; else it
            is that of the dispatch alone where the device computes later.

    Operators run one by one under a mode: the profile tells their shares, not the speed of a program that is
    recorded or compiled.

    >>> import torchlike as torch
    >>> with OperatorProfile() as profile:
    ...     y = torch.ones(2, 3) * 2 + torch.ones(3)
    >>> [(r.name, r.calls, r.bytes) for r in profile.records()]
    [('aten.add.Tensor', 1, 24), ('aten.mul.Tensor', 1, 24), ('aten.ones.default', 2, 36)]
    """

    def __init__(self, *, synchronize: bool = True) -> None:
        super().__init__()
        self.synchronize = synchronize
        self._records: dict[str, OpRecord] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        record = self._records.get(str(func))
        if record is None:
            record = self._records[str(func)] = OpRecord(str(func))
        with self._timed(record):
            out = func(*args, **(kwargs or {}))
            results = [t for t in tree_flatten(out)[0] if isinstance(t, Tensor)]
            if self.synchronize:
                _wait(results)
        record.calls += 1
        record.bytes += sum(t.nbytes for t in results)
        return out

    @staticmethod
    @contextmanager
    def _timed(record: OpRecord) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            record.seconds += time.perf_counter() - start

    def records(self, sort_by: str = "name") -> list[OpRecord]:
        """What was measured, by name, or with the largest ``calls``, ``seconds`` or ``bytes`` first.

        Raises:
            ValueError: ``sort_by`` is something else.
        """
        if sort_by == "name":
            return sorted(self._records.values(), key=lambda r: r.name)
        if sort_by not in ("calls", "seconds", "bytes"):
            raise ValueError(f"OperatorProfile: sort_by must be name, calls, seconds or bytes, not {sort_by!r}")
        return sorted(self._records.values(), key=lambda r: -getattr(r, sort_by))

    def total_seconds(self) -> float:
        """The time of all calls."""
        return sum(r.seconds for r in self._records.values())

    def table(self, sort_by: str = "seconds", row_limit: int | None = None) -> str:
        """The records as text, a row for each operator."""
        total = self.total_seconds() or 1.0
        rows = [("Operator", "Calls", "Time (ms)", "Share", "Bytes")]
        for r in self.records(sort_by)[:row_limit]:
            rows.append((r.name, str(r.calls), f"{r.seconds * 1e3:.3f}", f"{r.seconds / total:.1%}", str(r.bytes)))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *[c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)]])
            for row in rows
        ]
        return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])

    def __str__(self) -> str:
        return self.table()


def _wait(results: list[Tensor]) -> None:
    """Until the results are computed."""
    for t in results:
        value = settled(t._storage.value)
        wait = getattr(value, "block_until_ready", None)
        if callable(wait):
            wait()


__all__ = ["OpRecord", "OperatorProfile"]
