"""Stores: keys with bytes that several threads or processes share, by which they can find each other."""

import fcntl
import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from torchlike.distributed._runtime import DistStoreError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

Data = dict[str, str]  # bytes as latin-1


class Store:
    """Keys with bytes. :class:`HashStore`, :class:`FileStore` and :class:`PrefixStore` are stores."""

    def __init__(self) -> None:
        self.timeout = timedelta(seconds=300)

    def _change(self, change: Callable[[Data], Any]) -> Any:
        raise NotImplementedError(f"{type(self).__name__} keeps nothing: use HashStore or FileStore")

    def set_timeout(self, timeout: timedelta) -> None:
        """How long :meth:`get` and :meth:`wait` wait."""
        self.timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Set a key."""
        text = value if isinstance(value, str) else value.decode("latin-1")
        self._change(lambda data: data.__setitem__(key, text))

    def get(self, key: str) -> bytes:
        """The bytes of a key, once it is set. DistStoreError if it is not set in time."""
        self.wait([key])
        return self._change(lambda data: data[key]).encode("latin-1")

    def add(self, key: str, amount: int) -> int:
        """Add to the number of a key, at first 0, and give the sum."""

        def added(data: Data) -> int:
            data[key] = str(int(data.get(key, "0")) + amount)
            return int(data[key])

        return self._change(added)

    def check(self, keys: list[str]) -> bool:
        """Whether all of these keys are set."""
        return self._change(lambda data: all(key in data for key in keys))

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Wait until all of these keys are set. DistStoreError names those that are not in time."""
        limit = (self.timeout if timeout is None else timeout).total_seconds()
        end = time.monotonic() + limit
        while not self.check(keys):
            if time.monotonic() > end:
                left = [key for key in keys if not self.check([key])]
                raise DistStoreError(f"wait timeout after {limit:g} seconds, keys: {', '.join(left)}")
            time.sleep(0.002)

    def delete_key(self, key: str) -> bool:
        """Forget a key; whether it was set."""
        return self._change(lambda data: data.pop(key, None) is not None)

    def num_keys(self) -> int:
        """How many keys are set."""
        return self._change(len)


class HashStore(Store):
    """A store in the memory of this process.

    >>> import torchlike as torch
    >>> store = torch.distributed.HashStore()
    >>> store.set("a", "1")
    >>> store.get("a"), store.add("n", 2), store.add("n", 3)
    (b'1', 2, 5)
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock, self._data = threading.Lock(), {}

    def _change(self, change: Callable[[Data], Any]) -> Any:
        with self._lock:
            return change(self._data)


class FileStore(Store):
    """A store in a file that processes share; ``world_size`` is accepted. The file is left to whoever named it."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = file_name

    def _change(self, change: Callable[[Data], Any]) -> Any:
        with Path(self.path).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            before = file.read()
            data = json.loads(before or "{}")
            result = change(data)
            after = json.dumps(data)
            if after != before:
                file.seek(0)
                file.truncate()
                file.write(after)
            return result


class PrefixStore(Store):
    """The keys of another store that begin with ``prefix/``."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.timeout, self.prefix, self.underlying_store = store.timeout, prefix, store

    def _change(self, change: Callable[[Data], Any]) -> Any:
        begin = f"{self.prefix}/"

        def within(data: Data) -> Any:
            own = {key[len(begin) :]: value for key, value in data.items() if key.startswith(begin)}
            before = set(own)
            result = change(own)
            for key in before - set(own):
                del data[begin + key]
            data.update({begin + key: value for key, value in own.items()})
            return result

        return self.underlying_store._change(within)


class TCPStore(Store):
    """Not supported: NotImplementedError. ``init_process_group`` finds the others by env://, tcp:// and file://."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse()


def _refuse() -> NoReturn:
    raise NotImplementedError(
        "torch.distributed.TCPStore is not supported: use FileStore, or init_process_group with env:// or tcp://"
    )
