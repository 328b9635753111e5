"""The store of a process group: jax's keys and values, at which its processes have met."""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

from torchlike.distributed import _runtime
from torchlike.distributed._runtime import DistStoreError
from torchlike.distributed._stores import OPERATIONS, HashStore, Store


class _Keys:
    """What jax keeps for a store, as :data:`OPERATIONS` know keys. Names are quoted: jax takes a slash for a folder."""

    def __init__(self, prefix: str) -> None:
        self._prefix = f"{prefix}/keys"

    def _at(self, key: str) -> str:
        return f"{self._prefix}/{quote(key, safe='')}"

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key."""
        if key not in self:
            return default
        return json.loads(_runtime.client().key_value_try_get_bytes(self._at(key)))

    def __getitem__(self, key: str) -> Any:
        return self.get(key)

    def __setitem__(self, key: str, value: Any) -> None:
        _runtime.client().key_value_set_bytes(self._at(key), json.dumps(value).encode(), True)

    def pop(self, key: str, default: Any = None) -> Any:
        """The value of a key, which is forgotten."""
        found = self.get(key, default)
        _runtime.forget(self._at(key))
        return found

    def __contains__(self, key: str) -> bool:
        return _runtime.is_set(self._at(key))

    def __iter__(self) -> Iterator[str]:
        for key, _ in _runtime.client().key_value_dir_get_bytes(self._prefix):
            yield unquote(key.rpartition("/")[2])


class GroupStore(Store):
    """A store of what jax's service keeps; what changes a key is done by one process at a time."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix, self._kept = prefix, _Keys(prefix)

    def _do(self, operation: str, *args: Any) -> Any:
        if operation in ("get", "missing", "keys", "queue_len"):
            return OPERATIONS[operation](self._kept, *args)
        with self._alone(args[0]):
            return OPERATIONS[operation](self._kept, *args)

    @contextlib.contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """Hold a key. DistStoreError: another process held it until the timeout."""
        held, end = f"{self._prefix}/held/{quote(key, safe='')}", time.monotonic() + self.timeout.total_seconds()
        while not _taken(held):
            if time.monotonic() > end:
                raise DistStoreError(f"the store of a process group: another process holds the key {key!r}")
            time.sleep(self._pause)
        try:
            yield
        finally:
            _runtime.forget(held)

    def clone(self) -> "GroupStore":
        """Another store of these keys."""
        return GroupStore(self._prefix)


def _taken(held: str) -> bool:
    try:
        _runtime.client().key_value_set_bytes(held, b"1", False)
    except Exception as error:
        if "ALREADY_EXISTS" not in str(error):
            raise
        return False
    return True


def store_of(group: Any) -> Store:
    """The store of a process group, made where it is asked for first; in memory where there is but this process."""
    if group.store is None:
        group.store = GroupStore(group.key("store")) if _runtime.is_connected() else HashStore()
    return group.store
