"""Compiled kernels on disk: one SQLite file for all processes, under keys that need no tracing.

Nothing that is wrong with the file is an error: what cannot be read, or does not bear the checksum and the whole key
that it was kept under, is not there; what cannot be written is not kept.
"""

from __future__ import annotations

import atexit
import hashlib
import marshal
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax

from torchlike._base import cache

NAME = "kernels.sqlite"
BYTES = 1 << 30  # of the file; beyond, the older half of the kernels is dropped
LOOK = 512  # after so many kernels, the size is looked at
PATIENCE = 0.2  # seconds that another process may hold the file

_SUM = 16  # bytes of a checksum


def folder() -> Path | None:
    """Where the file is: with jax's own cache, if that has a place and ``TORCHLIKE_CACHE`` says nothing else."""
    asked = cache.folder()
    if asked is None or os.environ.get("TORCHLIKE_CACHE") or not jax.config.jax_compilation_cache_dir:
        return asked
    return Path(jax.config.jax_compilation_cache_dir)


class Store:
    """The kernels kept in a folder; None keeps nothing. Threads may share it, and processes its file."""

    def __init__(self, place: Path | None) -> None:
        self.place: Any = place
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process: int | None = None
        self._written = 0

    def get(self, key: str) -> Any:
        """What was kept under ``key`` (a text), or None."""
        row = self._attempt(lambda c: c.execute("SELECT body FROM kept WHERE digest=?", (_digest(key),)).fetchone())
        return None if row is None else _opened(key, row[0])

    def put(self, key: str, value: Any) -> None:
        """Keep ``value``, made of numbers, texts, bytes, None, tuples, lists and dicts of them."""
        row = _digest(key), _closed(key, value)
        self._attempt(lambda c: c.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", row))
        self._written += 1
        if self._written % LOOK == 0:
            self._attempt(_shrink)

    def close(self) -> None:
        """Give the file back; it is opened again when it is needed."""
        with self._lock:
            connection, self._connection, owner, self._process = self._connection, None, self._process, None
            if connection is not None and owner == os.getpid():
                connection.close()
            elif connection is not None:
                _INHERITED.append(connection)

    __del__ = close

    def _attempt(self, action: Callable[[sqlite3.Connection], Any]) -> Any:
        """What ``action`` gives for the open file; None if something is wrong with it."""
        if self.place is None:
            return None
        with self._lock:
            try:
                return action(self._open())
            except sqlite3.OperationalError:  # held by others, read-only, no more room
                return None
            except (sqlite3.DatabaseError, OSError):
                self._set_aside()
                return None

    def _open(self) -> sqlite3.Connection:
        if self._process != os.getpid():  # a connection is not for the child of a fork, which may not close it either
            _INHERITED.append(self._connection)
            self._connection, self._process = _connect(Path(self.place)), os.getpid()
        if self._connection is None:
            raise sqlite3.OperationalError("it could not be opened")
        return self._connection

    def _set_aside(self) -> None:
        """A damaged file makes room for a new one, which the next process begins."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        try:
            file = Path(self.place) / NAME
            file.replace(file.with_suffix(".damaged"))
        except OSError:
            pass


_INHERITED: list = []  # of a parent process: a child that closed them could take its locks and its log away


def _connect(place: Path) -> sqlite3.Connection | None:
    """The open file, made if there is none; None if it can be neither written nor read."""
    file = place / NAME
    try:
        place.mkdir(parents=True, exist_ok=True)
        return _opened_by(_PREPARE, file, timeout=PATIENCE, isolation_level=None)
    except (sqlite3.OperationalError, OSError):
        pass
    try:
        return _opened_by(_LOOK, f"{file.absolute().as_uri()}?immutable=1", uri=True)
    except (sqlite3.OperationalError, OSError):
        return None


_LOOK = ("SELECT count(*) FROM sqlite_master",)
_PREPARE = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=OFF",
    "CREATE TABLE IF NOT EXISTS kept (digest BLOB PRIMARY KEY, body BLOB)",
)


def _opened_by(statements: Iterable[str], *place: Any, **options: Any) -> sqlite3.Connection:
    """The connection on which these statements have been run; it is closed where one of them raises."""
    found = sqlite3.connect(*place, check_same_thread=False, **options)  # type: ignore[call-overload]
    try:
        for statement in statements:
            found.execute(statement)
    except BaseException:
        found.close()
        raise
    return found


def _shrink(connection: sqlite3.Connection) -> None:
    """Drop the older half of what is kept, if that has grown too large."""
    names = "page_size", "page_count", "freelist_count"
    size, pages, free = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
    if (pages - free) * size > BYTES:
        oldest = "SELECT rowid FROM kept ORDER BY rowid LIMIT (SELECT count(*) / 2 FROM kept)"
        connection.execute(f"DELETE FROM kept WHERE rowid IN ({oldest})")


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=_SUM).digest()


def _closed(key: str, value: Any) -> bytes:
    body = zlib.compress(marshal.dumps((key, value)), 1)
    return hashlib.blake2b(body, digest_size=_SUM).digest() + body


def _opened(key: str, body: bytes) -> Any:
    """The value in a row of the file; None if it is damaged, or that of another key."""
    if not isinstance(body, bytes) or hashlib.blake2b(body[_SUM:], digest_size=_SUM).digest() != body[:_SUM]:
        return None
    found, value = marshal.loads(zlib.decompress(body[_SUM:]))
    return value if found == key else None


STORE = Store(folder())
atexit.register(STORE.close)
