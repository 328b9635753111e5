"""Checkpoints that several processes write and read together: ``torch.distributed.checkpoint``."""

from torchlike.distributed.checkpoint.api import CheckpointException as CheckpointException
from torchlike.distributed.checkpoint.default_planner import DefaultLoadPlanner as DefaultLoadPlanner
from torchlike.distributed.checkpoint.default_planner import DefaultSavePlanner as DefaultSavePlanner
from torchlike.distributed.checkpoint.filesystem import FileSystemReader as FileSystemReader
from torchlike.distributed.checkpoint.filesystem import FileSystemWriter as FileSystemWriter
from torchlike.distributed.checkpoint.hf_storage import HuggingFaceStorageReader as HuggingFaceStorageReader
from torchlike.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter as HuggingFaceStorageWriter
from torchlike.distributed.checkpoint.metadata import BytesStorageMetadata as BytesStorageMetadata
from torchlike.distributed.checkpoint.metadata import ChunkStorageMetadata as ChunkStorageMetadata
from torchlike.distributed.checkpoint.metadata import Metadata as Metadata
from torchlike.distributed.checkpoint.metadata import TensorStorageMetadata as TensorStorageMetadata
from torchlike.distributed.checkpoint.planner import LoadPlan as LoadPlan
from torchlike.distributed.checkpoint.planner import LoadPlanner as LoadPlanner
from torchlike.distributed.checkpoint.planner import ReadItem as ReadItem
from torchlike.distributed.checkpoint.planner import SavePlan as SavePlan
from torchlike.distributed.checkpoint.planner import SavePlanner as SavePlanner
from torchlike.distributed.checkpoint.planner import WriteItem as WriteItem
from torchlike.distributed.checkpoint.state_dict_loader import load as load
from torchlike.distributed.checkpoint.state_dict_loader import load_state_dict as load_state_dict
from torchlike.distributed.checkpoint.state_dict_saver import async_save as async_save
from torchlike.distributed.checkpoint.state_dict_saver import save as save
from torchlike.distributed.checkpoint.state_dict_saver import save_state_dict as save_state_dict
from torchlike.distributed.checkpoint.storage import StorageReader as StorageReader
from torchlike.distributed.checkpoint.storage import StorageWriter as StorageWriter
from torchlike.interop.lazy import on_first_use
from torchlike.interop.refusing import refusing

__getattr__, __dir__ = on_first_use(__name__, missing=refusing(__name__, "not supported"))
