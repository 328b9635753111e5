"""The paths of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torchlike.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from torchlike.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe
from torchlike.utils.data.datapipes.utils.common import get_file_pathnames_from_root


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe):
    """The paths of files, and of the files in folders, whose names fit ``masks``, sorted.

    Args:
        root: a folder or file, several, or a pipe of them. masks: a pattern as in a shell, or several; "" takes all.
        recursive: also those in folders within. abspath: absolute paths. non_deterministic: accepted. length: what
            ``len`` says.
    """

    def __init__(
        self, root: str | Sequence[str] | IterDataPipe = ".", masks: str | list[str] = "", *, recursive: bool = False,
        abspath: bool = False, non_deterministic: bool = False, length: int = -1,
    ) -> None:  # fmt: skip
        self.datapipe: Any = (
            root
            if isinstance(root, IterDataPipe)
            else IterableWrapperIterDataPipe([root] if isinstance(root, str) else root)
        )
        self.masks, self.recursive, self.abspath, self.length = masks, recursive, abspath, length
        self.non_deterministic = non_deterministic

    def __iter__(self) -> Iterator[str]:
        for root in self.datapipe:
            yield from get_file_pathnames_from_root(root, self.masks, self.recursive, self.abspath)

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length
