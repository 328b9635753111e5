"""How batches travel between processes: small ones through a socket, the memory of large ones shared."""

import io
import mmap
import os
import pickle
import socket
import struct
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

import torchlike._executor.immediate as immediate
from torchlike._base.bits import X64
from torchlike._base.device import of_host
from torchlike._core.conversion.processes import SENT
from torchlike._core.tensor.tensor import Tensor, fresh
from torchlike.utils.data._utils.collate import is_host_data

SHARED = 1 << 15  # bytes of arrays from which on memory is shared rather than copied through the socket
_ALIGNMENT = 64
_CAN_SHARE = hasattr(os, "memfd_create") and hasattr(socket, "send_fds")


class _Pickler(pickle.Pickler):
    """Pickles plain tensors as arrays, whose memory is kept apart; what else processes can pass on, as they do."""

    def __init__(self, out: io.BytesIO, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
        table = ForkingPickler(out).dispatch_table
        self.dispatch_table = {kind: table[kind] for kind in table if kind not in SENT}  # batches are copies

    def reducer_override(self, obj: Any) -> Any:  # pickle's name
        if not isinstance(obj, Tensor):
            return NotImplemented
        if obj.grad_fn is not None:
            raise RuntimeError(
                f"a worker cannot send a {type(obj).__name__} of shape {tuple(obj.shape)} that was computed from what "
                "requires grad: autograd does not cross processes; call detach() on it first"
            )
        if is_host_data(obj) and obj.is_contiguous():
            array = obj._host()
            return _rebuilt, (pickle.PickleBuffer(array.reshape(-1).view(np.uint8)), array.dtype.name, array.shape)
        return NotImplemented


def _rebuilt(memory: Any, dtype: str, shape: tuple[int, ...]) -> Tensor:
    array = np.frombuffer(memory, np.dtype(dtype)).reshape(shape)
    shared = X64 and array.nbytes and not isinstance(memory, bytes | bytearray)
    return fresh(immediate.adopted(array, of_host()) if shared else immediate.uploaded(array, of_host()))


def dumps(value: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """``value`` pickled, and the memory of its arrays."""
    out = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    _Pickler(out, buffers).dump(value)
    return out.getvalue(), buffers


def send(link: Connection, value: Any) -> None:
    """Send what :func:`receive` receives at the other end. Nothing is sent where ``value`` cannot be pickled."""
    data, buffers = dumps(value)
    views = [b.raw() for b in buffers]
    total = sum(v.nbytes for v in views)
    if not _CAN_SHARE or total < SHARED:
        link.send_bytes(pickle.dumps((data, [v.tobytes() for v in views], None)))
        return
    starts, end = [], 0
    for view in views:
        starts.append((end, view.nbytes))
        end += -(-view.nbytes // _ALIGNMENT) * _ALIGNMENT
    memory = os.memfd_create("torchlike-batch")
    try:
        os.ftruncate(memory, end)
        with mmap.mmap(memory, end) as room:
            for (start, size), view in zip(starts, views, strict=True):
                room[start : start + size] = view
        link.send_bytes(pickle.dumps((data, starts, end)))
        with socket.socket(fileno=os.dup(link.fileno())) as line:
            socket.send_fds(line, [struct.pack("B", 0)], [memory])
    finally:
        os.close(memory)


def receive(link: Connection) -> Any:
    """What the other end has sent. EOFError where it has closed."""
    data, parts, end = pickle.loads(link.recv_bytes())
    if end is None:
        return pickle.loads(data, buffers=[bytearray(part) for part in parts])
    with socket.socket(fileno=os.dup(link.fileno())) as line:
        _, (memory,), _, _ = socket.recv_fds(line, 1, 1)
    try:
        room = memoryview(mmap.mmap(memory, end))
    finally:
        os.close(memory)
    return pickle.loads(data, buffers=[room[start : start + size] for start, size in parts])
