"""Open files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torchlike.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from torchlike.utils.data.datapipes.utils.common import StreamWrapper


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

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        mode = self.mode if self.mode.startswith("r") else "r" + self.mode
        for path in self.datapipe:
            if not isinstance(path, str):
                raise TypeError(f"Expected string type for pathname, but got {type(path)}")
            yield path, StreamWrapper(open(path, mode, encoding=self.encoding))  # noqa: SIM115  (who holds it closes it)

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length
