"""Process-wide settings that kernels read while they are traced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torchlike._base.dtypes as dtypes
from torchlike._decl.op import EXTENSIONS, REGISTRY

if TYPE_CHECKING:
    from torchlike._decl.derive import Kernel


COMPOSED: list[Kernel] = []  # functions of operators that are kernels of their own


def kernels() -> Iterator[Kernel]:
    """Every declared operator and its in-place form, and what is composed of them."""
    yield from COMPOSED
    for op in (*REGISTRY.values(), *EXTENSIONS.values()):
        yield op
        if op.inplace is not None:
            yield op.inplace


def set_default_dtype(d: dtypes.dtype) -> None:
    """Set the floating dtype of tensors made from Python floats, for the whole process.

    Raises TypeError unless ``d`` is a floating dtype.

    >>> import torchlike as torch
    >>> torch.set_default_dtype(torch.float64)
    >>> torch.tensor(1.5).dtype
    torch.float64
    >>> torch.set_default_dtype(torch.float32)
    """
    old = dtypes.get_default_dtype()
    dtypes.set_default_dtype(d)
    if d is not old:
        for kernel in kernels():
            kernel.select(old, d)


READ: dict[str, str] = {}  # the settings beside the default dtype that kernels read, where they are not the usual ones


def reset_kernels(setting: str, value: str, usual: str) -> None:
    """Forget every compiled kernel: a setting that kernels read is ``value`` from now on."""
    READ.pop(setting, None)
    if value != usual:
        READ[setting] = value
    for kernel in kernels():
        kernel.reset()
