"""Pipes that are read from the first item to the last."""

from torchlike.interop.alias import missing_names
from torchlike.utils.data.datapipes import combinatorics as combinatorics
from torchlike.utils.data.datapipes.combinatorics import Collator as Collator
from torchlike.utils.data.datapipes.combinatorics import Demultiplexer as Demultiplexer
from torchlike.utils.data.datapipes.combinatorics import Forker as Forker
from torchlike.utils.data.datapipes.combinatorics import Multiplexer as Multiplexer
from torchlike.utils.data.datapipes.combinatorics import SamplerIterDataPipe as Sampler
from torchlike.utils.data.datapipes.combinatorics import ShufflerIterDataPipe as Shuffler
from torchlike.utils.data.datapipes.combinatorics import ShufflerIterDataPipe as ShufflerIterDataPipe
from torchlike.utils.data.datapipes.combinatorics import UnBatcher as UnBatcher
from torchlike.utils.data.datapipes.iter._pipes import Batcher as Batcher
from torchlike.utils.data.datapipes.iter._pipes import Concater as Concater
from torchlike.utils.data.datapipes.iter._pipes import Filter as Filter
from torchlike.utils.data.datapipes.iter._pipes import IterableWrapper as IterableWrapper
from torchlike.utils.data.datapipes.iter._pipes import Mapper as Mapper
from torchlike.utils.data.datapipes.iter._pipes import Zipper as Zipper
from torchlike.utils.data.datapipes.iter.grouping import GrouperIterDataPipe as Grouper
from torchlike.utils.data.datapipes.iter.reading import FileListerIterDataPipe as FileLister
from torchlike.utils.data.datapipes.iter.reading import FileOpenerIterDataPipe as FileOpener
from torchlike.utils.data.datapipes.iter.reading import StreamReaderIterDataPipe as StreamReader
from torchlike.utils.data.datapipes.iter.sharding import ShardingFilterIterDataPipe as ShardingFilter

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "FileLister",
    "FileOpener",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "ShufflerIterDataPipe",
    "StreamReader",
    "UnBatcher",
    "Zipper",
    "combinatorics",
]

__getattr__ = missing_names(__name__)
