"""Graphs of CUDA, of which XLA makes its own."""

from typing import Any, NoReturn

from torchlike.cuda._devices import is_available
from torchlike.cuda.streams import CUDAGraph as CUDAGraph
from torchlike.cuda.streams import graph as graph
from torchlike.interop.alias import missing_names

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

__getattr__ = missing_names(__name__)


def is_current_stream_capturing() -> bool:
    """False: no graph of CUDA is made by hand."""
    return False


def graph_pool_handle() -> NoReturn:
    """RuntimeError without a GPU, NotImplementedError with one."""
    if not is_available():
        raise RuntimeError("Tried to instantiate dummy base class _graph_pool_handle: jax has no GPU in this process")
    raise NotImplementedError("torch.cuda.graph_pool_handle: torch.compile makes one program of a step")


def make_graphed_callables(callables: Any, sample_args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError without a GPU, NotImplementedError with one."""
    CUDAGraph()
    raise NotImplementedError("torch.cuda.make_graphed_callables: torch.compile makes one program of a step")
