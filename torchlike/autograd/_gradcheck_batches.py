"""The same derivatives at less cost where nobody can tell: elements set by a kernel, one backward for many rows.

Only this library's own operators run for many rows at once. Where a function of the user takes part in the backward
(a hook, a custom Function, a mode), :func:`is_plain` says no and every row has a backward of its own.
"""

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from torchlike._base.state import state
from torchlike._core.autograd import anomaly
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd.backward import grad
from torchlike._core.autograd.operator_node import OpNode
from torchlike._core.autograd.saved_tensors import Packed
from torchlike._core.conversion.convert import host
from torchlike._core.conversion.factories import as_tensor
from torchlike._core.tensor import mutation
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.derive import Derived
from torchlike._executor import immediate
from torchlike._executor.pending import Array

FEWEST = 128  # rows: below, kernels for many rows cost more to compile than the rows one by one
_LARGE = 1 << 15  # elements of Jacobians of fewer rows
_MOST = 1 << 21  # elements of the widest tensor for all rows of a batch


# -- Perturbed inputs --------------------------------------------------------------------------------------
def _both(values: Any, at: Any, less: Any, more: Any) -> tuple[Any, Any]:
    flat = values.ravel()
    return flat.at[at].set(less).reshape(values.shape), flat.at[at].set(more).reshape(values.shape)


_BOTH = Derived("copy_", "", _both, ("gradcheck", "both"))


class Elements:
    """The elements of ``x``, each of which is elsewhere for a while: ``for _ in elements.moved(...)``.

    A kernel makes the perturbed values, and the old ones are put back: of a tensor that is no view, and that nothing
    follows. Of any other, elements are written by indexing.
    """

    def __init__(self, x: Tensor):
        self.data = data = x.data
        self.quick = data.__class__ in KIND and data._view is None and not state.active and not CAPTURES
        self.value: Any = None
        self.numbers: np.ndarray = np.empty(0)
        self.number: Any = float

    def moved(self, at: int, index: tuple[int, ...], by: complex) -> Generator:
        """Twice: with the element number ``at``, which ``index`` finds, moved by ``-by``, then by ``by``."""
        value = self.data._storage.value
        if not self.quick or value.__class__ is not Array:
            for step in (-by, by):
                yield from self._written(index, step)
            return
        if value is not self.value:
            self.value, self.numbers = value, host(self.data).ravel()
            self.number = self.numbers.dtype.type
        old = self.numbers[at]
        for step, new in zip(
            (-by, by), immediate.run(_BOTH, (), (value, at, self.number(old - by), self.number(old + by))), strict=True
        ):
            if self.data._storage.value is not value:  # the function has changed its input
                yield from self._written(index, step)
                continue
            mutation.write(self.data, new)
            try:
                yield
            finally:
                if self.data._storage.value is new:
                    mutation.write(self.data, value)
                else:
                    self.data[index] = old.item()

    def _written(self, index: tuple[int, ...], by: complex) -> Generator:
        old = self.data[index].item()
        self.data[index] = old + by
        try:
            yield
        finally:
            self.data[index] = old


# -- Many rows of a Jacobian ---------------------------------------------------------------------------------
def is_worth(out: Tensor, inputs: Sequence[Tensor]) -> bool:
    """Whether many rows at once save more than their kernels cost."""
    rows = out.numel()
    return rows >= FEWEST or rows > 1 and rows * sum([x.numel() for x in inputs]) >= _LARGE


def is_plain(out: Tensor) -> bool:
    """Whether the backward of ``out`` runs operators only, watched by nobody: nobody can tell many rows at once."""
    if state.active or state.levels or CAPTURES or anomaly.current.enabled or out.__class__ not in KIND:
        return False
    edge = nodes.edge_of(out)
    stack, seen = [edge[0]] if edge else [], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if not _is_own(node):
            return False
        stack += [e[0] for e in node._edges if e is not None and e[0] is not None]
    return True


def _is_own(node: nodes.Node) -> bool:
    """Whether applying the node is this library's affair alone."""
    if node._ex is not None:
        return False
    if node.__class__ is nodes.AccumulateGrad:
        return node.variable._ex is None and node.variable.__class__ in KIND
    return isinstance(node, OpNode) and not any(kept.__class__ is Packed for kept in node._kept or ())


def rows(out: Tensor, inputs: Sequence[Tensor]) -> list[Any]:
    """For each input, the tensors of shape (rows, *input.shape) that together are its Jacobian, or None."""
    n = out.numel()
    size = min(n, max(1, _MOST // max(n, *[x.numel() for x in inputs])))
    found: list[list[Tensor]] | None = None
    for start in range(0, n, size):
        units = np.zeros((size, n))  # each batch of the same size: the kernels of the first serve all
        here = np.arange(min(size, n - start))
        units[here, start + here] = 1
        seeds = as_tensor(units, dtype=out.dtype, device=out.device).reshape(size, *out.shape)
        got = grad(out, inputs, seeds, retain_graph=True, allow_unused=True, is_grads_batched=True)
        found = [[] for _ in inputs] if found is None else found
        for batches, g in zip(found, got, strict=True):
            batches += [] if g is None else [g[: len(here)]]
    return [batches or None for batches in found or [[] for _ in inputs]]
