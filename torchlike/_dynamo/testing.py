"""``torch._dynamo.testing``: backends that count, or keep, the graphs that they are given."""

from collections.abc import Callable
from typing import Any

from torchlike.compiler._backends import lookup_backend
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


class CompileCounter:
    """A backend that runs graphs as they are and counts them (``frame_count``) and their calls (``op_count``).

    >>> import torchlike as torch
    >>> counter = CompileCounter()
    >>> layer = torch.compile(torch.nn.Linear(2, 2), backend=counter)
    >>> _ = layer(torch.ones(2)), layer(torch.ones(2))
    >>> counter.frame_count, counter.op_count
    (1, 1)
    """

    def __init__(self) -> None:
        self.clear()

    def __call__(self, gm: Any, example_inputs: list) -> Callable:
        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)
        return gm.forward

    def clear(self) -> None:
        """Count from 0."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """A :class:`CompileCounter` that keeps the graphs in ``graphs`` and lets another backend compile them."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend = backend

    def __call__(self, gm: Any, example_inputs: list) -> Callable:
        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self) -> None:
        """Count from 0, and keep none of the graphs."""
        super().clear()
        self.graphs: list = []


class EagerAndRecordGraphs:
    """A backend that runs graphs as they are and keeps them in ``graphs``."""

    def __init__(self) -> None:
        self.graphs: list = []

    def __call__(self, gm: Any, example_inputs: list) -> Callable:
        self.graphs.append(gm)
        return gm.forward
