"""Pipes whose items have indices."""

from torchlike.interop.alias import missing_names
from torchlike.utils.data.datapipes.map import callable as callable
from torchlike.utils.data.datapipes.map import combinatorics as combinatorics
from torchlike.utils.data.datapipes.map import combining as combining
from torchlike.utils.data.datapipes.map import grouping as grouping
from torchlike.utils.data.datapipes.map import utils as utils
from torchlike.utils.data.datapipes.map.callable import MapperMapDataPipe as Mapper
from torchlike.utils.data.datapipes.map.combinatorics import ShufflerIterDataPipe as Shuffler
from torchlike.utils.data.datapipes.map.combining import ConcaterMapDataPipe as Concater
from torchlike.utils.data.datapipes.map.combining import ZipperMapDataPipe as Zipper
from torchlike.utils.data.datapipes.map.grouping import BatcherMapDataPipe as Batcher
from torchlike.utils.data.datapipes.map.utils import SequenceWrapperMapDataPipe as SequenceWrapper

__all__ = [
    "Batcher",
    "Concater",
    "Mapper",
    "SequenceWrapper",
    "Shuffler",
    "Zipper",
]

__getattr__ = missing_names(__name__)
