"""jax's coordination service in a process of its own, which lives as long as any process is connected to it.

jax ends every process that loses the service. Kept by rank 0 it would be lost with rank 0, and nobody could say who
died. This file is run as a program; it imports no other of ours, so that it starts at once.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from jaxlib import _jax

_LOOK = 0.5  # seconds between looks at who is connected
_LONELY = 60.0  # seconds that it stays where it cannot see that
_READY = b"ready"


class Keeper:
    """The process that keeps the service at ``address`` for ``size`` processes; OSError if it cannot be there."""

    def __init__(self, address: str, size: int) -> None:
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


def _serve(address: str, size: int) -> object:
    host, _, port = address.rpartition(":")
    near = host in ("127.0.0.1", "localhost", "[::1]", "::1")
    place = f"127.0.0.1:{port}" if near else f"[::]:{port}"
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


def _keep(port: int, starter: int) -> None:
    """Return once who started it, and all that were connected, are gone."""
    alone = 0.0
    while True:
        time.sleep(_LOOK)
        count = 1 if os.getppid() == starter else _connections(port)
        alone = 0.0 if count else alone + _LOOK
        if alone >= (_LONELY if count is None else 3 * _LOOK):
            return


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
    _keep(int(address.rpartition(":")[2]), int(starter))
    del service


if __name__ == "__main__":
    main()
