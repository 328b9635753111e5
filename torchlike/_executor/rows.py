"""Kernels that treat rows apart, run for more rows than there are: one that is compiled serves many sizes.

A program whose tensors grow (text that is generated letter by letter) meets each shape once or twice, and would compile
each of its operators for each. From the third number of rows on that a kernel meets, small arrays are padded with rows
of zeros up to a power of two, and the results cut; what is called often is compiled for its own size, as any kernel.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from torchlike._executor import compiling
from torchlike._executor.pending import Array, as_numpy

FEW = 2  # numbers of rows that a kernel is compiled for before it pads
LEAST, MOST = 64, 1 << 16  # elements of the inputs: XLA multiplies smaller matrices in another order; larger ones cost
KNOWN = 256  # kinds of arguments whose numbers of rows are counted


class Rows:
    """Which inputs of a kernel have rows, and how many there have been.

    Args:
        places: of the values of a call, it gives the positions of the inputs whose last dimension but one are rows, or
            None.
    """

    def __init__(self, places: Callable[[Sequence[Any]], tuple[int, ...] | None]) -> None:
        self.places, self.met = places, {}
        self.kernel: Any = None  # a weak reference to what calls for the padded size

    def of(self, kernel: Any) -> None:
        """Note what the kernel is called by."""
        self.kernel = weakref.ref(kernel)

    def padded(self, call: Any, args: tuple[Any, ...]) -> Padded | None:
        """What runs a call, with more rows, if its kernel has met other numbers of rows before."""
        found = self.places(args)
        if not found:
            return None
        n = args[found[0]].shape[-2]
        if n < 2 or not LEAST <= sum([args[i].size for i in found]) <= MOST:
            return None
        if any(args[i].shape[-2] != n or args[i].__class__ is not Array for i in found):
            return None
        key = call.tree, call.committed, tuple([_rest(v, i in found) for i, v in enumerate(args)])
        met = self.met.pop(key, None) or set()
        while len(self.met) >= KNOWN:
            self.met.pop([*self.met][0], None)  # another thread may add one meanwhile
        self.met[key] = met
        if n in met or len(met) < FEW:
            met.add(n)
            return None
        size = max(16, 1 << (n - 1).bit_length())
        kernel = self.kernel()
        return None if size == n or kernel is None else Padded.made(kernel, found, n, size, call, args)


def _rest(v: Any, has_rows: bool) -> Any:
    if not hasattr(v, "shape"):
        return type(v)
    return v.dtype, (*v.shape[:-2], v.shape[-1]) if has_rows else v.shape


class Padded:
    """Runs calls of a kernel with ``n`` rows as ones with ``size``.

    Attributes:
        skeleton, outs: of the results, as kernels know them. calls: how often it was asked.
    """

    __slots__ = ("kernel", "places", "n", "size", "skeleton", "outs", "calls")
    cost = 1  # of a call, among those after which a kernel is compiled for its own arguments

    def __init__(self, kernel: Any, places: tuple[int, ...], n: int, size: int) -> None:
        self.kernel, self.places, self.n, self.size, self.calls = kernel, places, n, size, 0

    @classmethod
    def made(
        cls, kernel: Any, places: tuple[int, ...], n: int, size: int, call: Any, args: tuple[Any, ...]
    ) -> Padded | None:
        """One for calls like this, None if the results have no rows."""
        new = cls(kernel, places, n, size)
        try:
            leaves, tree = jax.tree.flatten(new._wide(args))
        except Exception:  # which names other shapes than the caller's
            return None
        if any(a.shape[:-1] != (*args[places[0]].shape[:-2], size) for a in leaves):
            return None
        new.skeleton = jax.tree.unflatten(tree, range(len(leaves)))
        shapes = [(*a.shape[:-2], n, a.shape[-1]) for a in leaves]
        new.outs = [a.aval.update(shape=shape) for a, shape in zip(leaves, shapes, strict=True)]
        return new

    def _wide(self, args: tuple[Any, ...]) -> Any:
        given = [_pad(v, self.size) if i in self.places else v for i, v in enumerate(args)]
        return self.kernel(*given)

    def run(self, call: Any, args: tuple[Any, ...]) -> Any:
        """The results of a call."""
        leaves = jax.tree.leaves(self._wide(args))
        arrays = compiling.put([as_numpy(a)[..., : self.n, :] for a in leaves], self.outs, call.committed)
        return arrays[0] if self.skeleton == 0 else jax.tree.unflatten(jax.tree.structure(self.skeleton), arrays)


def _pad(x: Any, size: int) -> jax.Array:
    """``x`` with rows of zeros behind its own."""
    wide = np.zeros((*x.shape[:-2], size, x.shape[-1]), x.dtype)
    wide[..., : x.shape[-2], :] = as_numpy(x)
    return compiling.put([wide], [x.aval.update(shape=wide.shape)], x._committed)[0]
