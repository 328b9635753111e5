"""Files as items."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from typing import IO, Any

from torchlike.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe


def _demand_length(pipe: Any, length: int) -> int:
    if length == -1:
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
    return length


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe):
    """The paths of the files in folders whose names fit ``masks``, sorted.

    Args:
        root: a folder, several, or a pipe of them. masks: a pattern as in a shell, or several; "" takes all.
        recursive: also those in folders within. abspath: absolute paths. non_deterministic: accepted. length: what
            ``len`` says.
    """

    def __init__(
        self, root: str | Sequence[str] | IterDataPipe = ".", masks: str | list[str] = "", *, recursive: bool = False,
        abspath: bool = False, non_deterministic: bool = False, length: int = -1,
    ) -> None:  # fmt: skip
        self.datapipe: Any = [root] if isinstance(root, str) else root
        self.masks, self.recursive, self.abspath, self.length = masks, recursive, abspath, length
        self.non_deterministic = non_deterministic

    def __iter__(self) -> Iterator[str]:
        masks = [self.masks] if isinstance(self.masks, str) else self.masks
        for root in self.datapipe:
            top = os.path.abspath(root) if self.abspath else root
            for folder, within, names in os.walk(top):
                within[:] = sorted(within) if self.recursive else []
                for name in sorted(names):
                    if masks == [""] or any(fnmatch(name, mask) for mask in masks):
                        yield os.path.join(folder, name)

    def __len__(self) -> int:
        return _demand_length(self, self.length)


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe):
    """Pairs of each path and the file, opened. ValueError for a ``mode`` other than those that read.

    Each file is closed when the next item is asked for and nobody else holds it.
    """

    def __init__(self, datapipe: Iterable[str], mode: str = "r", encoding: str | None = None, length: int = -1) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode, encoding, length

    def __iter__(self) -> Iterator[tuple[str, IO]]:
        mode = self.mode if self.mode.startswith("r") else "r" + self.mode
        for path in self.datapipe:
            if not isinstance(path, str):
                raise TypeError(f"Expected string type for pathname, but got {type(path)}")
            yield path, open(path, mode, encoding=self.encoding)  # noqa: SIM115  (who takes it closes it)

    def __len__(self) -> int:
        return _demand_length(self, self.length)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe):
    """Pairs of a path and what its open file holds, in pieces of ``chunk`` characters or bytes if that is given."""

    def __init__(self, datapipe: Any, chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, stream in self.datapipe:
            with stream:
                while found := stream.read(self.chunk):
                    yield path, found
