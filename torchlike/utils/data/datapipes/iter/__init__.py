"""Pipes that are read from the first item to the last."""

from torchlike.interop.alias import missing_names
from torchlike.utils.data.datapipes.iter import callable as callable
from torchlike.utils.data.datapipes.iter import combinatorics as combinatorics
from torchlike.utils.data.datapipes.iter import combining as combining
from torchlike.utils.data.datapipes.iter import filelister as filelister
from torchlike.utils.data.datapipes.iter import fileopener as fileopener
from torchlike.utils.data.datapipes.iter import grouping as grouping
from torchlike.utils.data.datapipes.iter import selecting as selecting
from torchlike.utils.data.datapipes.iter import sharding as sharding
from torchlike.utils.data.datapipes.iter import streamreader as streamreader
from torchlike.utils.data.datapipes.iter import utils as utils
from torchlike.utils.data.datapipes.iter.callable import CollatorIterDataPipe as Collator
from torchlike.utils.data.datapipes.iter.callable import MapperIterDataPipe as Mapper
from torchlike.utils.data.datapipes.iter.combinatorics import SamplerIterDataPipe as Sampler
from torchlike.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe as Shuffler
from torchlike.utils.data.datapipes.iter.combining import ConcaterIterDataPipe as Concater
from torchlike.utils.data.datapipes.iter.combining import DemultiplexerIterDataPipe as Demultiplexer
from torchlike.utils.data.datapipes.iter.combining import ForkerIterDataPipe as Forker
from torchlike.utils.data.datapipes.iter.combining import MultiplexerIterDataPipe as Multiplexer
from torchlike.utils.data.datapipes.iter.combining import ZipperIterDataPipe as Zipper
from torchlike.utils.data.datapipes.iter.filelister import FileListerIterDataPipe as FileLister
from torchlike.utils.data.datapipes.iter.fileopener import FileOpenerIterDataPipe as FileOpener
from torchlike.utils.data.datapipes.iter.grouping import BatcherIterDataPipe as Batcher
from torchlike.utils.data.datapipes.iter.grouping import GrouperIterDataPipe as Grouper
from torchlike.utils.data.datapipes.iter.grouping import UnBatcherIterDataPipe as UnBatcher
from torchlike.utils.data.datapipes.iter.selecting import FilterIterDataPipe as Filter
from torchlike.utils.data.datapipes.iter.sharding import ShardingFilterIterDataPipe as ShardingFilter
from torchlike.utils.data.datapipes.iter.streamreader import StreamReaderIterDataPipe as StreamReader
from torchlike.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe as IterableWrapper

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
    "StreamReader",
    "UnBatcher",
    "Zipper",
]

__getattr__ = missing_names(__name__)
