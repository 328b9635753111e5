"""torch.fx._lazy_graph_module: modules whose code PyTorch makes late; here it is made at once."""

import contextlib
from collections.abc import Iterator
from typing import Any

from torchlike.fx.graph_module import GraphModule
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

_LazyGraphModule = GraphModule


def _make_graph_module(*args: Any, graph_module_cls: type | None = None, **kwargs: Any) -> GraphModule:
    """A GraphModule of these arguments."""
    return (graph_module_cls or GraphModule)(*args, **kwargs)


@contextlib.contextmanager
def _use_lazy_graph_module(should_use: bool) -> Iterator[None]:
    """A context that changes nothing."""
    yield
