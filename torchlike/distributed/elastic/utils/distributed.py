"""``torch.distributed.elastic.utils.distributed``: ports, and stores at them."""

import contextlib
import datetime
import socket
from typing import Any

from torchlike.distributed._stores import TCPStore

__all__ = ["create_c10d_store", "get_free_port", "get_socket_with_port"]


def own_name() -> str:
    """The name of this machine in its network."""
    return socket.getfqdn()


def get_socket_with_port() -> socket.socket:
    """A socket that listens at a port that was free."""
    for family, kind, proto, _, _ in socket.getaddrinfo("localhost", None, socket.AF_UNSPEC, socket.SOCK_STREAM):
        found = socket.socket(family, kind, proto)
        try:
            found.bind(("localhost", 0))
            found.listen(0)
            return found
        except OSError:
            found.close()
    raise RuntimeError("Failed to create a socket")


def get_free_port() -> int:
    """A port that is free now."""
    with contextlib.closing(get_socket_with_port()) as found:
        return found.getsockname()[1]


def create_c10d_store(
    is_server: bool, server_addr: str, server_port: int = -1, world_size: int = 1, timeout: float = 600,
    wait_for_workers: bool = True, retries: int = 3, use_libuv: bool | None = None,
) -> Any:  # fmt: skip
    """A TCPStore: where this is the server and no port is given, at one that is free."""
    if server_port == -1 and world_size > 1:
        raise ValueError(f"server_port must be specified when world_size > 1, got server_port={server_port}")
    port = get_free_port() if server_port == -1 else server_port
    limit = datetime.timedelta(seconds=timeout)
    return TCPStore(server_addr, port, world_size, is_server, limit, wait_for_workers)
