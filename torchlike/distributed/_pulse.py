"""Whether other processes still run: each listens, and whoever waits for one connects to it.

Nobody answers and no thread runs: the system completes a connection, and ends it with the process that listens.
"""

import contextlib
import json
import os
import socket
import threading
from pathlib import Path

_CONNECTING = 2.0  # seconds


class Pulse:
    """What others see of this process. ``place`` tells them where; empty where it cannot listen."""

    def __init__(self, address: str) -> None:
        self.place, self._lock = b"", threading.Lock()
        self._listening: socket.socket | None = None
        self._others: dict[bytes, socket.socket | None] = {}
        self._reached: set[str] = set()
        with contextlib.suppress(OSError):
            host = _own_host(address)
            self._listening = socket.create_server((host, 0), family=_family(host), backlog=socket.SOMAXCONN)
            self.place = json.dumps([host, self._listening.getsockname()[1], _machine()]).encode()
            os.register_at_fork(after_in_child=self._listening.close)  # a child would stand in for this process

    def has_ended(self, place: bytes) -> bool:
        """Whether the process of a place has; False where that cannot be seen from here."""
        with self._lock:
            if place not in self._others:
                host, _, machine = json.loads(place) if place else ("", 0, "")
                try:
                    self._others[place] = _connected(place)
                    self._reached.add(host)
                except ConnectionRefusedError:  # of a machine that has never answered it may be a firewall's
                    return machine == _machine() or host in self._reached
                except OSError:
                    self._others[place] = None
            other = self._others[place]
            return other is not None and _is_closed(other)

    def close(self) -> None:
        """Be as if this process had ended."""
        with self._lock:
            for one in (self._listening, *self._others.values()):
                if one is not None:
                    one.close()
            self._others.clear()


def _own_host(address: str) -> str:
    """The address of this machine on the way to another one, to which nothing is sent."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    found = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(found[0], found[1]) as probe:
        probe.connect(found[4])
        return str(probe.getsockname()[0])


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _machine() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + os.readlink("/proc/self/ns/net")
    except OSError:
        return socket.gethostname()


def _connected(place: bytes) -> socket.socket | None:
    """None where the address means another machine here."""
    host, port, machine = json.loads(place) if place else ("", 0, "")
    if not host or (machine != _machine() and (host.startswith("127.") or host == "::1")):
        return None
    found = socket.create_connection((host, port), _CONNECTING)
    found.setblocking(False)
    return found


def _is_closed(other: socket.socket) -> bool:
    try:
        return other.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
