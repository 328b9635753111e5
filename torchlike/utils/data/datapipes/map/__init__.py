"""Pipes whose items have indices."""

from torchlike.interop.alias import missing_names
from torchlike.utils.data.datapipes.combinatorics import ShufflerOfIndices as Shuffler
from torchlike.utils.data.datapipes.map._pipes import BatcherMapDataPipe as Batcher
from torchlike.utils.data.datapipes.map._pipes import ConcaterMapDataPipe as Concater
from torchlike.utils.data.datapipes.map._pipes import Mapper as Mapper
from torchlike.utils.data.datapipes.map._pipes import SequenceWrapper as SequenceWrapper
from torchlike.utils.data.datapipes.map._pipes import ZipperMapDataPipe as Zipper

__all__ = [
    "Batcher",
    "Concater",
    "Mapper",
    "SequenceWrapper",
    "Shuffler",
    "Zipper",
]

__getattr__ = missing_names(__name__)
