"""Tensors over storages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlike._base.layout import Layout, numel
from torchlike._core.tensor.tensor import wrap
from torchlike._core.tensor.untyped_storage import TypedStorage, UntypedStorage
from torchlike._core.tensor.views import View

if TYPE_CHECKING:
    from torchlike._base.dtypes import dtype
    from torchlike._core.tensor.tensor import Tensor


def of_storage(source: UntypedStorage | TypedStorage, dtype: dtype) -> Tensor:
    """A tensor of one dimension over all elements of a storage. RuntimeError for elements of another dtype."""
    if isinstance(source, TypedStorage) and source.dtype is not dtype:
        raise RuntimeError(
            f"Expected a Storage of type {dtype.scalar_name} or an UntypedStorage, but got type "
            f"{source.dtype.scalar_name} for argument 1 'storage'"
        )
    cell = source.untyped().whole()._storage
    t = wrap(cell.form)
    t._storage = t._vc = cell
    if cell.strides is not None:
        t._view = View((), (), Layout(cell.form.shape, cell.strides, 0))
    t = t.as_strided((numel(cell.form.shape),), (1,), 0)
    return t if t.dtype is dtype else t.view(dtype)
