"""What files hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchlike.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe


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
