"""The points at which derivatives are compared, and arguments for an operator read off its schema."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from torchlike._decl.op import Op

INF, NAN = float("inf"), float("nan")
ALONE = (-INF, -6.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 6.0, INF, NAN)
PAIRED = (-INF, -1.0, 0.0, 0.5, 1.0, 2.0, INF, NAN)
GROUPED = (-1.0, 0.0, 1.0, NAN)
COMPLEX = (0j, 1 + 0j, -1 + 0j, complex(-1, -0.0), 1j, -1j, 2 + 0j, complex(NAN, 0), complex(INF, 0))
VECTORS = ((0, 0, 0), (1, 1, 0), (0, 0, 2), (NAN, 1, 2), (INF, 1, 2), (INF, INF, 1), (-INF, -INF, -INF))
MATRICES = (((0, 0), (0, 0)), ((1, 0), (0, 1)), ((1, 1), (1, 1)), ((2, 0), (0, 1)))
IMAGES = (((1, 1, 0, 0),), ((0, 0, 0, 0),), ((NAN, 1, 1, 1),))
NUMBERS = (0.0, 0.5, 1.0, 2.0)
_NORMED = ("p", "ord")
NORMS = (0.0, 0.5, 1.0, 2.0, 3.0, INF)

Case = tuple[dict[str, Any], tuple, dict[str, Any]]  # runtime arguments by name, static ones in order, chosen ones


def groups(op: Op) -> Iterator[list[Case]]:
    """Calls of an operator at singular points, in groups by the rank of the tensors (as numpy arrays).

    An operator that takes one group has been asked enough.
    """
    tensors = [a.name for a in op.dynamic if a.is_tensor and not a.optional]
    names, choices = [a.name for a in op.static], [_static(a) for a in op.static]
    numbers = [a for a in op.dynamic if not a.is_tensor]
    named = [[(a.name, v) for v in _numbers(a, i)] for i, a in enumerate(numbers)]
    for arrays in _arrays(op, tensors):
        yield [
            (dict(chosen) | array, static, {n: s for n, s in zip(names, static, strict=True) if n in _NORMED})
            for static in product(*choices)
            for chosen in product(*named)
            for array in arrays
        ]


def _static(arg: Any) -> tuple:
    """Values for an argument that selects a kernel; none where the schema does not suggest any."""
    if arg.name in _NORMED:
        return NORMS
    if arg.name == "reduction":
        return (0,)
    if arg.has_default and not (arg.name == "dim" and arg.default == []):
        return (tuple(arg.default) if isinstance(arg.default, list) else arg.default,)
    if arg.optional:
        return (None,)
    if arg.kind in ("int", "SymInt"):
        value = {"kernel_size": 2, "k": 1}.get(arg.name, 0)
        return ((value,) if arg.is_list else value,)
    return ()


def _numbers(arg: Any, position: int) -> tuple:
    """Values for a number: norms, bounds at -1 and 1, or the default."""
    if arg.name in _NORMED:
        return NORMS
    if arg.optional or (arg.has_default and arg.default is None):
        return (None, 1.0 if position else -1.0)
    return (None,) if arg.has_default else NUMBERS


def _arrays(op: Op, tensors: list[str]) -> Iterator[list[dict[str, np.ndarray]]]:
    if op.pointwise:
        yield [
            _grid(tensors, (ALONE, PAIRED, GROUPED)[min(len(tensors), 3) - 1]),
            _grid(tensors, COMPLEX if len(tensors) < 3 else COMPLEX[:4]),
        ]
        return
    for samples in (VECTORS, MATRICES, IMAGES):
        yield [dict.fromkeys(tensors, np.array(values, np.float64)) for values in samples]


def _grid(tensors: list[str], values: tuple) -> dict[str, np.ndarray]:
    """Every combination of the values, one array for each argument."""
    meshes = np.meshgrid(*[np.array(values)] * len(tensors), indexing="ij")
    return {name: mesh.ravel() for name, mesh in zip(tensors, meshes, strict=True)}
