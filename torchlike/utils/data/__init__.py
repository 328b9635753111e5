"""Datasets, samplers and the loader of batches."""

from torchlike.interop.lazy import on_first_use
from torchlike.utils.data import dataloader as dataloader
from torchlike.utils.data import dataset as dataset
from torchlike.utils.data import distributed as distributed
from torchlike.utils.data import sampler as sampler
from torchlike.utils.data._utils.collate import default_collate as default_collate
from torchlike.utils.data._utils.collate import default_convert as default_convert
from torchlike.utils.data._utils.worker import get_worker_info as get_worker_info
from torchlike.utils.data.dataloader import DataLoader as DataLoader
from torchlike.utils.data.dataloader import _DatasetKind as _DatasetKind
from torchlike.utils.data.datapipes import iter as _pipes_of_items  # noqa: F401  (their methods)
from torchlike.utils.data.datapipes import map as _pipes_of_indices  # noqa: F401
from torchlike.utils.data.datapipes.datapipe import DataChunk as DataChunk
from torchlike.utils.data.datapipes.datapipe import IterDataPipe as IterDataPipe
from torchlike.utils.data.datapipes.datapipe import MapDataPipe as MapDataPipe
from torchlike.utils.data.datapipes.datapipe import functional_datapipe as functional_datapipe
from torchlike.utils.data.dataset import ChainDataset as ChainDataset
from torchlike.utils.data.dataset import ConcatDataset as ConcatDataset
from torchlike.utils.data.dataset import Dataset as Dataset
from torchlike.utils.data.dataset import IterableDataset as IterableDataset
from torchlike.utils.data.dataset import StackDataset as StackDataset
from torchlike.utils.data.dataset import Subset as Subset
from torchlike.utils.data.dataset import TensorDataset as TensorDataset
from torchlike.utils.data.dataset import random_split as random_split
from torchlike.utils.data.distributed import DistributedSampler as DistributedSampler
from torchlike.utils.data.sampler import BatchSampler as BatchSampler
from torchlike.utils.data.sampler import RandomSampler as RandomSampler
from torchlike.utils.data.sampler import Sampler as Sampler
from torchlike.utils.data.sampler import SequentialSampler as SequentialSampler
from torchlike.utils.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from torchlike.utils.data.sampler import WeightedRandomSampler as WeightedRandomSampler

__getattr__, __dir__ = on_first_use(__name__)
