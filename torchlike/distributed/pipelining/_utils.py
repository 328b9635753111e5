"""What a cut model tells of itself."""

from dataclasses import dataclass

from torchlike.fx.graph import Graph

__all__ = ["PipeInfo"]


@dataclass
class PipeInfo:
    """The graph of the stages, how many there are, and whether losses and gradients are part of it (never)."""

    graph: Graph
    num_stages: int
    has_loss_and_backward: bool
