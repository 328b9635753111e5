"""The store of a process group: jax's keys and values, at which its processes have met."""

from typing import Any

from torchlike.distributed import _runtime
from torchlike.distributed._stores import HashStore, Store


class GroupStore(Store):
    """Has ``set``, ``get``, ``add``, ``check``, ``wait``, ``barrier``, ``delete_key`` and what is made of them."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def _do(self, operation: str, *args: Any) -> Any:
        keys = [f"{self._prefix}/{key}" for key in (args if operation == "missing" else args[:1])]
        client = _runtime.client()
        match operation:
            case "set":
                return client.key_value_set_bytes(keys[0], args[1].encode("latin-1"), True)
            case "get":
                there = _runtime.is_set(keys[0])
                return client.key_value_try_get_bytes(keys[0]).decode("latin-1") if there else None
            case "add":
                return client.key_value_increment(keys[0], args[1])
            case "missing":
                return [name for name, key in zip(args, keys, strict=True) if not _runtime.is_set(key)]
            case "delete":
                there = _runtime.is_set(keys[0])
                _runtime.forget(keys[0])
                return there
        raise NotImplementedError(f"the store of a process group has no {operation}(); make a TCPStore for it")


def store_of(prefix: str) -> Store:
    """The store of a group whose keys begin so; one in memory where there is but this process."""
    return GroupStore(prefix) if _runtime.is_connected() else HashStore()
