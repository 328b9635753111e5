"""jax's coordination service in a process of its own, which lives as long as any process is connected to it.

jax ends every process that loses the service. Kept by rank 0 it would be lost with rank 0, and nobody could say who
died. This file is run as a program; it imports no other of ours, so that it starts at once.
"""

import errno
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from jaxlib import _jax

_LOOK = 0.05  # seconds between looks at who is connected
_LATE = 1.5  # seconds that it stays for those that never came
_LONELY = 60.0  # seconds that it stays where it cannot see who is connected
_LEAVING = 5.0  # seconds for the keeper of a run before to go
_READY = b"ready"


class Keeper:
    """The process that keeps the service at ``address`` for ``size`` processes; OSError if it cannot be there."""

    def __init__(self, address: str, size: int) -> None:
        _demand_free(address)
        path = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, address, str(size), str(os.getpid())],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=path,
            start_new_session=True,  # a Ctrl-C is not meant for it
        )  # fmt: skip
        assert self._process.stdout is not None
        with self._process.stdout as told:
            said = told.read()
        if said != _READY:
            self._process.wait()
            raise OSError(f"jax's coordination service does not start at {address}: {said.decode()[:300]}")

    def end(self) -> None:
        """End it now, whoever is connected."""
        self._process.kill()
        self._process.wait()


def _place(address: str) -> tuple[str, int]:
    """Where the service listens."""
    host, _, port = address.rpartition(":")
    return "127.0.0.1" if host in ("127.0.0.1", "localhost", "[::1]", "::1") else "::", int(port)


def _demand_free(address: str) -> None:
    """OSError if another program listens there: gRPC would share the port, and clients meet either of both."""
    host, port = _place(address)
    end = time.monotonic() + _LEAVING
    while True:
        try:
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as guard:
                guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                guard.bind((host, port))
            return
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return  # gRPC says it better
            if time.monotonic() > end:
                raise OSError(f"the address {address} is in use by another program (EADDRINUSE)") from error
        time.sleep(_LOOK)


def _serve(address: str, size: int) -> object:
    host, port = _place(address)
    place = f"[::]:{port}" if host == "::" else f"{host}:{port}"
    return _jax.get_distributed_runtime_service(
        place, size, heartbeat_timeout=100, shutdown_timeout=5, recoverable=True
    )


def _connections(port: int) -> int | None:
    """How many are connected to a port of this machine; None where the system does not say."""
    count, end = 0, f":{port:04X}"
    try:
        for family in ("tcp", "tcp6"):
            rows = [line.split() for line in Path("/proc/self/net", family).read_text().splitlines()[1:]]
            count += sum(row[1].endswith(end) and row[3] == "01" for row in rows)
    except OSError:
        return None
    return count


def _keep(port: int, size: int, starter: int) -> None:
    """Return once who started it, and all that were connected, are gone.

    If all were there it ends at once: the next run may use this port, and must not meet this one.
    """
    most, looks = 0, 0
    while os.getppid() == starter:
        time.sleep(_LOOK)
        if most < size and looks % 10 == 0:
            most = max(most, _connections(port) or 0)
        looks += 1
    begun = time.monotonic()
    while True:
        count = _connections(port)
        most = max(most, count or 0)
        patience = _LONELY if count is None else _LATE if most < size else 0.0
        if not count and time.monotonic() - begun >= patience:
            return
        time.sleep(_LOOK)


def main() -> None:
    """``_keeper.py ADDRESS SIZE PID``: says on stdout when the service is there, or why it is not."""
    address, size, starter = sys.argv[1:]
    try:
        service = _serve(address, int(size))
    except Exception as error:
        os.write(1, str(error).partition("\n")[0].encode() or b"?")
        sys.exit(1)
    os.write(1, _READY)
    os.dup2(0, 1)  # who reads it has read all
    _keep(int(address.rpartition(":")[2]), int(size), int(starter))
    del service


if __name__ == "__main__":
    main()
