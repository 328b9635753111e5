"""From a checkpoint of several processes to a file of ``torch.save``, and back; also on the command line."""

import argparse
import os
from enum import Enum
from typing import Any

from torchlike import serialization
from torchlike.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torchlike.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torchlike.distributed.checkpoint.state_dict_loader import _load_state_dict
from torchlike.distributed.checkpoint.state_dict_saver import save

__all__ = ["FormatMode", "dcp_to_torch_save", "main", "torch_save_to_dcp"]


class FormatMode(Enum):
    """Which way the command line converts."""

    TORCH_TO_DCP = "torch_to_dcp"
    DCP_TO_TORCH = "dcp_to_torch"


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike, torch_save_path: str | os.PathLike) -> None:
    """Write all of a checkpoint into one file for ``torch.load``.

    >>> import torchlike as torch, tempfile
    >>> import torchlike.distributed.checkpoint as dcp
    >>> from torchlike.distributed.checkpoint.format_utils import dcp_to_torch_save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dcp.save({"model": {"weight": torch.ones(2)}}, checkpoint_id=folder, no_dist=True)
    ...     dcp_to_torch_save(folder, f"{folder}/one.pt")
    ...     torch.load(f"{folder}/one.pt")
    {'model': {'weight': tensor([1., 1.])}}
    """
    state: dict[str, Any] = {}
    reader = FileSystemReader(dcp_checkpoint_dir)
    _load_state_dict(state, storage_reader=reader, planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    serialization.save(state, torch_save_path)


def torch_save_to_dcp(torch_save_path: str | os.PathLike, dcp_checkpoint_dir: str | os.PathLike) -> None:
    """Write a file of ``torch.save`` as a checkpoint. Only files that you trust: it is loaded with all its objects."""
    state = serialization.load(torch_save_path, weights_only=False)
    save(state, storage_writer=FileSystemWriter(dcp_checkpoint_dir), no_dist=True)


def main() -> None:
    """``python -m torch.distributed.checkpoint.format_utils MODE SRC DST``"""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=[mode.value for mode in FormatMode])
    parser.add_argument("src")
    parser.add_argument("dst")
    given = parser.parse_args()
    if not os.path.exists(given.src):
        parser.error(f"{given.src} does not exist")
    convert = torch_save_to_dcp if given.mode == FormatMode.TORCH_TO_DCP.value else dcp_to_torch_save
    convert(given.src, given.dst)


if __name__ == "__main__":
    main()
