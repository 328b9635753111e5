"""Sums of sparse tensors over processes: the elements that each of them has, brought together."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor, array_of, wrap
from torchlike._functions.sparse import sparse_coo_tensor
from torchlike.distributed._calls import demand_eager, start
from torchlike.distributed.distributed_c10d import ProcessGroup


def summed(t: Tensor, group: ProcessGroup, name: str) -> Tensor:
    """The sum of the COO matrices of all processes, coalesced. RuntimeError where their shapes differ."""
    demand_eager(f"{name} of sparse tensors")
    with no_grad():
        own = t.detach().coalesce()
        places, numbers = array_of(own._indices()), array_of(own._values())
    told = _gathered(jnp.array([own._nnz(), own.sparse_dim(), own.dim(), *own.shape]), group, name)
    if (told[:, 1:] != told[0, 1:]).any():
        shapes = [row[3 : 3 + row[2]].tolist() for row in told]
        raise RuntimeError(f"{name}: the sparse tensors of the ranks {list(group.ranks)} have the shapes {shapes}")
    counts = told[:, 0].tolist()
    longest = max(counts)
    if longest == 0:
        return own
    lengthened = [(0, longest - own._nnz())]
    rest = [(0, 0)] * (numbers.ndim - 1)
    every = _gathered(jnp.pad(places, [(0, 0), *lengthened]), group, name)
    values = _gathered(jnp.pad(numbers, lengthened + rest), group, name)
    parts = [(e[:, :n], v[:n]) for e, v, n in zip(every, values, counts, strict=True)]
    indices, numbers = np.concatenate([e for e, _ in parts], 1), np.concatenate([v for _, v in parts])
    with no_grad():
        return sparse_coo_tensor(wrap(jnp.asarray(indices)), wrap(jnp.asarray(numbers)), tuple(t.shape)).coalesce()


def _gathered(array: Any, group: ProcessGroup, name: str) -> np.ndarray:
    """The arrays of all processes, in a new first dimension."""
    found: list[np.ndarray] = []
    start(group, name, "gather", (), [array], lambda outs: found.append(np.asarray(outs[0]))).wait()
    return found[0]
