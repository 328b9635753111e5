"""``torch.distributed.elastic.rendezvous.api``: what a rendezvous is asked for, and by what name it is made."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torchlike.distributed.elastic.utils.distributed import get_free_port, own_name

__all__ = [
    "RendezvousClosedError", "RendezvousConnectionError", "RendezvousError", "RendezvousGracefulExitError",
    "RendezvousHandler", "RendezvousHandlerCreator", "RendezvousHandlerRegistry", "RendezvousInfo",
    "RendezvousParameters", "RendezvousStateError", "RendezvousStoreInfo", "RendezvousTimeoutError",
    "rendezvous_handler_registry",
]  # fmt: skip


class RendezvousError(Exception):
    """What goes wrong where processes meet."""


class RendezvousClosedError(RendezvousError):
    """The rendezvous is over."""


class RendezvousTimeoutError(RendezvousError):
    """Not all came in time."""


class RendezvousConnectionError(RendezvousError):
    """The place of the rendezvous cannot be reached."""


class RendezvousStateError(RendezvousError):
    """The rendezvous is in no state that makes sense."""


class RendezvousGracefulExitError(RendezvousError):
    """This process is not needed, and may end."""


@dataclass
class RendezvousStoreInfo:
    """The address of the store that all processes meet at."""

    MASTER_ADDR_KEY: ClassVar[str] = "MASTER_ADDR"
    MASTER_PORT_KEY: ClassVar[str] = "MASTER_PORT"
    master_addr: str
    master_port: int

    @staticmethod
    def build(
        rank: int, store: Any, local_addr: str | None = None, server_port: int | None = None
    ) -> "RendezvousStoreInfo":
        """Let rank 0 choose an address, which others read in ``store``."""
        addr, port = RendezvousStoreInfo.MASTER_ADDR_KEY, RendezvousStoreInfo.MASTER_PORT_KEY
        if rank == 0:
            store.set(addr, (local_addr or own_name()).encode())
            store.set(port, str(server_port or get_free_port()).encode())
        return RendezvousStoreInfo(store.get(addr).decode(), int(store.get(port).decode()))


class RendezvousInfo:
    """What a rendezvous gives: a store, and this process's place among all."""

    def __init__(self, store: Any, rank: int, world_size: int, bootstrap_store_info: RendezvousStoreInfo) -> None:
        self._store, self._rank, self._world_size = store, rank, world_size
        self._bootstrap_store_info = bootstrap_store_info

    @property
    def store(self) -> Any:
        """Through which all talk."""
        return self._store

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many have met."""
        return self._world_size

    @property
    def bootstrap_store_info(self) -> RendezvousStoreInfo:
        """The address of the store that trainers meet at."""
        return self._bootstrap_store_info


class RendezvousHandler(abc.ABC):
    """The interface of a rendezvous of one's own."""

    @abc.abstractmethod
    def get_backend(self) -> str:
        """Its name."""

    @property
    def use_agent_store(self) -> bool:
        """Whether trainers may use the launcher's store."""
        return False

    @abc.abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for the others."""

    @abc.abstractmethod
    def is_closed(self) -> bool:
        """Whether it is over."""

    @abc.abstractmethod
    def set_closed(self) -> None:
        """End it."""

    @abc.abstractmethod
    def num_nodes_waiting(self) -> int:
        """How many came late."""

    @abc.abstractmethod
    def get_run_id(self) -> str:
        """The name of the run."""

    @abc.abstractmethod
    def shutdown(self) -> bool:
        """Free what it has."""


class RendezvousParameters:
    """What a rendezvous is made of. ValueError: the numbers of nodes are none.

    >>> from torchlike.distributed.elastic.rendezvous import RendezvousParameters
    >>> given = RendezvousParameters("c10d", "localhost:0", "run", 1, 2, timeout="30", is_host="yes")
    >>> given.get_as_int("timeout"), given.get_as_bool("is_host"), given.get("other", 1)
    (30, True, 1)
    """

    def __init__(
        self, backend: str, endpoint: str, run_id: str, min_nodes: int, max_nodes: int, local_addr: str | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(f"The minimum number of rendezvous nodes ({min_nodes}) must be greater than zero.")
        if max_nodes < min_nodes:
            raise ValueError(
                f"The maximum number of rendezvous nodes ({max_nodes}) must be greater than or equal to the minimum "
                f"number of rendezvous nodes ({min_nodes})."
            )
        self.backend, self.endpoint, self.run_id, self.config = backend, endpoint, run_id, kwargs
        self.min_nodes, self.max_nodes, self.local_addr = min_nodes, max_nodes, local_addr

    def get(self, key: str, default: Any = None) -> Any:
        """An option."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """An option that is yes or no. ValueError: it is neither."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        word = str(value).lower() if isinstance(value, str) else value
        if word in ("1", "true", "t", "yes", "y", 1):
            return True
        if word in ("0", "false", "f", "no", "n", 0):
            return False
        raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid boolean value.")

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """An option that is a number. ValueError: it is none."""
        value = self.get(key, default)
        try:
            return value if value is None else int(value)
        except ValueError as error:
            message = f"The rendezvous configuration option '{key}' does not represent a valid integer value."
            raise ValueError(message) from error


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """Which function makes the rendezvous of a name."""

    def __init__(self) -> None:
        self._registry: dict[str, RendezvousHandlerCreator] = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Let a function make it. ValueError: another one does."""
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if self._registry.get(backend, creator) is not creator:
            raise ValueError(
                f"The rendezvous backend '{backend}' cannot be registered with '{creator}' as it is already registered "
                f"with '{self._registry[backend]}'."
            )
        self._registry[backend] = creator

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """A rendezvous. ValueError: nobody makes it. RuntimeError: it has another name."""
        creator = self._registry.get(params.backend)
        if creator is None:
            raise ValueError(
                f"The rendezvous backend '{params.backend}' is not registered. Did you forget to call `register`?"
            )
        handler = creator(params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(
                f"The rendezvous backend '{handler.get_backend()}' does not match the requested backend "
                f"'{params.backend}'."
            )
        return handler


rendezvous_handler_registry = RendezvousHandlerRegistry()
