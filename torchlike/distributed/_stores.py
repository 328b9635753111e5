"""Stores: keys with bytes that several threads or processes share, by which they can find each other."""

import fcntl
import json
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from torchlike.distributed._runtime import DistNetworkError, DistStoreError, QueueEmptyError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

Data = Any  # a dict or what is used like one: bytes as latin-1, and lists of them for queues
_QUEUE = "\0"  # begins the key of a queue


# -- what can be done with the keys, by name: so that it can be done elsewhere -----------------------------------------
def _add(data: Data, key: str, amount: int) -> int:
    data[key] = str(int(data.get(key, "0")) + amount)
    return int(data[key])


def _compare_set(data: Data, key: str, expected: str, desired: str) -> str:
    if data.get(key, "") != expected:
        return data.get(key, expected)
    data[key] = desired
    return desired


def _append(data: Data, key: str, text: str) -> None:
    data[key] = data.get(key, "") + text


def _queue_push(data: Data, key: str, text: str) -> None:
    name = _QUEUE + key
    data[name] = [*data.get(name, []), text]


def _queue_pop(data: Data, key: str) -> str | None:
    name = _QUEUE + key
    first, *rest = data.get(name) or [None]
    data[name] = rest
    return first


OPERATIONS: dict[str, Callable[..., Any]] = {
    "set": lambda data, key, text: data.__setitem__(key, text),
    "get": lambda data, key: data.get(key),
    "add": _add,
    "append": _append,
    "compare_set": _compare_set,
    "delete": lambda data, key: data.pop(key, None) is not None,
    "missing": lambda data, *keys: [key for key in keys if key not in data and not data.get(_QUEUE + key)],
    "keys": lambda data: [key for key in data if not key.startswith(_QUEUE)],
    "queue_push": _queue_push,
    "queue_pop": _queue_pop,
    "queue_len": lambda data, key: len(data.get(_QUEUE + key, [])),
}


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str | bytes):
        kind = type(value).__name__
        raise TypeError(f"{name}(): incompatible function arguments: str or bytes are expected, not {kind}")
    return value if isinstance(value, str) else value.decode("latin-1")


class Store:
    """Keys with bytes: :class:`HashStore`, :class:`FileStore`, :class:`TCPStore` and :class:`PrefixStore`."""

    _pause = 0.002  # seconds between looks

    def __init__(self) -> None:
        self.timeout = timedelta(seconds=300)

    def _do(self, operation: str, *args: Any) -> Any:
        """Do something with the keys, alone. ``args``: keys first."""
        raise NotImplementedError(f"{type(self).__name__} keeps nothing: use HashStore, FileStore or TCPStore")

    def set_timeout(self, timeout: timedelta) -> None:
        """How long :meth:`get` and :meth:`wait` wait."""
        self.timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Set a key. TypeError for anything but text and bytes."""
        self._do("set", _text(key, "set"), _text(value, "set"))

    def get(self, key: str) -> bytes:
        """The bytes of a key, once it is set. DistStoreError if it is not set in time."""
        return self._once_there("get", key)

    def _once_there(self, operation: str, key: str) -> bytes:
        end = time.monotonic() + self.timeout.total_seconds()
        while (found := self._do(operation, key)) is None:
            if time.monotonic() > end:
                _refuse_late(self.timeout.total_seconds(), [key])
            time.sleep(self._pause)
        return found.encode("latin-1")

    def add(self, key: str, amount: int) -> int:
        """Add to the number of a key, at first 0, and give the sum. ValueError where the key holds no number."""
        return self._do("add", key, int(amount))

    def append(self, key: str, value: str | bytes) -> None:
        """Add bytes to the end of those of a key, at first none."""
        self._do("append", key, _text(value, "append"))

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Set a key if it holds what is expected, or is not set and nothing ("") is; gives what it holds then.

        A key that is not set, where something is expected, stays so; what was expected is given.
        """
        given = _text(expected_value, "compare_set"), _text(desired_value, "compare_set")
        return self._do("compare_set", key, *given).encode("latin-1")

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        """:meth:`set` of several keys."""
        if len(keys) != len(values):
            raise ValueError(f"multi_set(): {len(keys)} keys and {len(values)} values")
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """:meth:`get` of several keys."""
        return [self.get(key) for key in keys]

    def check(self, keys: list[str]) -> bool:
        """Whether all of these keys are set."""
        return not self._do("missing", *keys)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Wait until all of these keys are set. DistStoreError names those that are not in time."""
        limit = (self.timeout if timeout is None else timeout).total_seconds()
        end = time.monotonic() + limit
        while left := self._do("missing", *keys):
            if time.monotonic() > end:
                _refuse_late(limit, left)
            time.sleep(self._pause)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put bytes at the end of the queue of a key; it is another than what :meth:`set` gives the key."""
        self._do("queue_push", key, _text(value, "queue_push"))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first bytes of a queue, once there are some.

        DistStoreError if there are none in time; QueueEmptyError if there are none and ``block`` is False.
        """
        if block:
            return self._once_there("queue_pop", key)
        found = self._do("queue_pop", key)
        if found is None:
            raise QueueEmptyError("queue is empty")
        return found.encode("latin-1")

    def queue_len(self, key: str) -> int:
        """How many bytes there are in a queue."""
        return self._do("queue_len", key)

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until this was called ``world_size`` times with this key. DistStoreError: not in time."""
        number = self.add(f"{key}/arrived", 1)
        turn = (number - 1) // world_size
        if number % world_size == 0:
            self.set(f"{key}/gone{turn}", "")
        self.wait([f"{key}/gone{turn}"], timeout)

    def delete_key(self, key: str) -> bool:
        """Forget a key; whether it was set."""
        return self._do("delete", key)

    def list_keys(self) -> list[str]:
        """The keys that are set."""
        return self._do("keys")

    def num_keys(self) -> int:
        """How many keys are set."""
        return len(self.list_keys())

    def has_extended_api(self) -> bool:
        """True: there are ``append``, ``multi_get`` and ``multi_set``."""
        return True


def _refuse_late(seconds: float, keys: list[str]) -> NoReturn:
    raise DistStoreError(f"wait timeout after {seconds * 1000:g}ms, keys: {', '.join(f'/{key}' for key in keys)}")


class HashStore(Store):
    """A store in the memory of this process.

    >>> import torchlike as torch
    >>> store = torch.distributed.HashStore()
    >>> store.set("a", "1")
    >>> store.get("a"), store.add("n", 2), store.add("n", 3), store.compare_set("a", "1", "2")
    (b'1', 2, 5, b'2')
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock, self._data = threading.Lock(), {}

    def _do(self, operation: str, *args: Any) -> Any:
        with self._lock:
            return OPERATIONS[operation](self._data, *args)

    def clone(self) -> "HashStore":
        """This store."""
        return self


class FileStore(Store):
    """A store in a file that processes share; ``world_size`` is accepted. The file is left to whoever named it."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = file_name

    def has_extended_api(self) -> bool:
        """False, as programs ask before they use queues."""
        return False

    def num_keys(self) -> int:
        """How many keys are set; as PyTorch's, counting one of its own."""
        return len(self.list_keys()) + 1

    def delete_key(self, key: str) -> bool:
        """Forget a key: True, whether it was set or not."""
        super().delete_key(key)
        return True

    def _do(self, operation: str, *args: Any) -> Any:
        if operation.startswith("queue"):
            raise NotImplementedError("queue support is not implemented.")
        with Path(self.path).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            before = file.read()
            data = json.loads(before or "{}")
            result = OPERATIONS[operation](data, *args)
            after = json.dumps(data)
            if after != before:
                file.seek(0)
                file.truncate()
                file.write(after)
            return result

    def clone(self) -> "FileStore":
        """Another store of the same file."""
        return FileStore(self.path)


class PrefixStore(Store):
    """The keys of another store that begin with ``prefix/``.

    >>> import torchlike as torch
    >>> store = torch.distributed.HashStore()
    >>> torch.distributed.PrefixStore("mine", store).set("a", "1")
    >>> store.list_keys()
    ['mine/a']
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.timeout, self.prefix, self.underlying_store = store.timeout, prefix, store

    def _do(self, operation: str, *args: Any) -> Any:
        begin = f"{self.prefix}/"
        if operation == "missing":
            return [key[len(begin) :] for key in self.underlying_store._do(operation, *(begin + key for key in args))]
        if operation == "keys":
            return [key for key in self.underlying_store._do("keys") if key.startswith(begin)]
        return self.underlying_store._do(operation, begin + args[0], *args[1:])

    def num_keys(self) -> int:
        """How many keys are set in the other store."""
        return self.underlying_store.num_keys()

    def clone(self) -> "PrefixStore":
        """Another store of these keys."""
        return PrefixStore(self.prefix, self.underlying_store)


# -- over the network --------------------------------------------------------------------------------------------------
class _Answering(socketserver.StreamRequestHandler):
    """Answers each line, an operation with its arguments as JSON, by a line."""

    def handle(self) -> None:
        for line in self.rfile:
            try:
                operation, *args = json.loads(line)
                answer = [True, self.server.store._do(operation, *args)]  # type: ignore[attr-defined]
            except Exception as error:
                answer = [False, f"{type(error).__name__}: {error}"]
            self.wfile.write(json.dumps(answer).encode() + b"\n")


class _Server(socketserver.ThreadingTCPServer):
    """Keeps the keys of a TCPStore in this process."""

    allow_reuse_address, daemon_threads = True, True

    def __init__(self, port: int) -> None:
        self.store = HashStore()
        super().__init__(("", port), _Answering)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True, name="torchlike-store").start()


class TCPStore(Store):
    """A store that one process, the master, keeps, and that others reach over the network.

    Args:
        host_name, port: where the master is; it takes any free port for 0, which is then ``store.port``.
        world_size: how many stores there will be. is_master: whether this is the one that keeps the keys.
        timeout: of connecting, of :meth:`get` and of :meth:`wait`; 5 minutes by default.
        wait_for_workers: whether the master waits until all others have connected.
        multi_tenant, use_libuv: without effect. master_listen_fd: NotImplementedError.

    Raises:
        DistNetworkError: the master cannot be reached in time, or the port is in use.
        DistStoreError: not all stores are there in time.

    >>> import torchlike as torch
    >>> master = torch.distributed.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
    >>> other = torch.distributed.TCPStore("127.0.0.1", master.port, 2, False)
    >>> other.set("a", "1")
    >>> master.get("a")
    b'1'
    """

    _pause = 0.01
    _JOINED = "init/"

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300), wait_for_workers: bool = True, multi_tenant: bool = False,  # noqa: B008
        master_listen_fd: int | None = None, use_libuv: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if master_listen_fd is not None:
            raise NotImplementedError("TCPStore(master_listen_fd=) is not supported: give a port")
        self.host, self.timeout, self._lock = host_name, timeout, threading.Lock()
        self._server = _served(port) if is_master else None
        self.port = self._server.server_address[1] if self._server is not None else port
        self._socket = _reached(host_name, self.port, timeout.total_seconds())
        self._file = self._socket.makefile("rwb")
        here = self.add(self._JOINED, 1)
        if is_master and wait_for_workers and world_size is not None:
            self._await_all(world_size, here)

    def _await_all(self, world_size: int, here: int) -> None:
        end = time.monotonic() + self.timeout.total_seconds()
        while here < world_size:
            if time.monotonic() > end:
                raise DistStoreError(
                    f"Timed out after {self.timeout.total_seconds():g} seconds waiting for clients. "
                    f"{here}/{world_size} clients joined."
                )
            time.sleep(self._pause)
            here = self.add(self._JOINED, 0)

    def _do(self, operation: str, *args: Any) -> Any:
        with self._lock:
            try:
                self._file.write(json.dumps([operation, *args]).encode() + b"\n")
                self._file.flush()
                line = self._file.readline()
            except OSError as error:
                raise DistNetworkError(f"TCPStore: the master at {self.host}:{self.port} is gone ({error})") from error
        if not line:
            raise DistNetworkError(f"TCPStore: the master at {self.host}:{self.port} is gone")
        good, answer = json.loads(line)
        if not good:
            raise ValueError(f"TCPStore.{operation}: {answer}")
        return answer

    def list_keys(self) -> list[str]:
        """The keys that are set."""
        return [key for key in super().list_keys() if key != self._JOINED]

    def num_keys(self) -> int:
        """How many keys are set; as PyTorch's, counting one of its own."""
        return len(self.list_keys()) + 1

    def clone(self) -> "TCPStore":
        """Another connection to the same master."""
        return TCPStore(self.host, self.port, None, False, self.timeout)

    def __del__(self) -> None:
        if sys.is_finalizing():  # the thread of a server no longer runs, and modules that closing needs may be gone
            return
        if getattr(self, "_socket", None) is not None:
            self._file.close()
            self._socket.close()
        if getattr(self, "_server", None) is not None:
            self._server.shutdown()
            self._server.server_close()


def _served(port: int) -> _Server:
    try:
        return _Server(port)
    except OSError as error:
        raise DistNetworkError(
            f"The server socket has failed to listen on any local network address. port: {port} ({error})"
        ) from error


def _reached(host: str, port: int, seconds: float) -> socket.socket:
    end = time.monotonic() + seconds
    while True:
        try:
            found = socket.create_connection((host, port), max(0.05, end - time.monotonic()))
        except OSError as error:
            if time.monotonic() > end:
                raise DistNetworkError(
                    f"The client socket has timed out after {seconds * 1000:g}ms while trying to connect to "
                    f"({host}, {port}): {error}"
                ) from error
            time.sleep(0.05)
        else:
            found.settimeout(None)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return found
