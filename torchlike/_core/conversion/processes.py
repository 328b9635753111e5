"""Tensors on their way to other processes of ``multiprocessing``: their memory goes, not a copy of it."""

from __future__ import annotations

from multiprocessing.reduction import DupFd, ForkingPickler
from typing import TYPE_CHECKING, Any

import torchlike._core.tensor.process_memory as process_memory
from torchlike._base.dtypes import uint8
from torchlike._core.conversion.loaded import LoadedStorage, loaded_bytes
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.shared_memory import adopt
from torchlike._core.tensor.tensor import Tensor, fresh
from torchlike._core.tensor.untyped_storage import TypedStorage, UntypedStorage, untyped_storage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from torchlike._core.typed import Shape

_PROTOCOL = 5


def _received(sent: Any, shape: Shape, dtype: np.dtype, strides: Sequence[int] | None) -> UntypedStorage:
    """The storage over what another process has sent: that of this process, if there is one over this memory."""
    file = sent.detach()
    cell = process_memory.known(file)
    if cell is None:
        stand, memory = process_memory.mapped(file, shape, dtype)
        base = fresh(stand)
        adopt(base._storage, memory)
        if strides is not None:
            restride(base, tuple(strides))
        process_memory.remember(base._storage)
    else:
        base = fresh(cell.form)
        base._storage = base._vc = cell
    return untyped_storage(base)


def _copied(data: bytes, device: str) -> UntypedStorage:
    return loaded_bytes(data, uint8, device).untyped()


def _reduce_storage(storage: UntypedStorage) -> tuple[Any, ...]:
    cell = storage._storage
    file = process_memory.file_of(cell) if process_memory.share(cell) else None
    if file is None:
        return _copied, (storage._bytes().tobytes(), str(storage.device))
    form = cell.form
    return _received, (DupFd(file), tuple(form.shape), form.dtype, cell.strides)


def _typed(untyped: UntypedStorage, dtype: Any) -> TypedStorage:
    return TypedStorage(wrap_storage=untyped, dtype=dtype)


def _reduce_typed(storage: TypedStorage) -> tuple[Any, ...]:
    return _typed, (storage.untyped(), storage.dtype)


def _reduce_tensor(t: Tensor) -> tuple[Any, ...]:
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError(
            f"Cowardly refusing to serialize non-leaf tensor which requires_grad, of shape {tuple(t.shape)}, since "
            "autograd does not support crossing process boundaries; call detach() on it before it is sent"
        )
    return t.__reduce_ex__(_PROTOCOL)  # type: ignore[return-value]


SENT: dict[type, Any] = {
    Tensor: _reduce_tensor,
    TypedStorage: _reduce_typed,
    UntypedStorage: _reduce_storage,
    LoadedStorage: _reduce_storage,
}
"""How a process is sent objects of a class."""


def install() -> None:
    """Let processes of ``multiprocessing`` be sent memory of tensors rather than copies."""
    for kind, reduce in SENT.items():
        ForkingPickler.register(kind, reduce)
