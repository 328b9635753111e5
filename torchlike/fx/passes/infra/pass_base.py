"""torch.fx.passes.infra.pass_base."""

import abc
from typing import NamedTuple

from torchlike.fx.graph_module import GraphModule
from torchlike.interop.alias import missing_names

__all__ = ["PassBase", "PassResult"]

__getattr__ = missing_names(__name__)


class PassResult(NamedTuple):
    """The module after a pass, and whether the pass changed it."""

    graph_module: GraphModule
    modified: bool


class PassBase(abc.ABC):
    """A pass: subclasses define :meth:`call`, and may check before and after it.

    >>> import torchlike as torch
    >>> from torchlike.fx.passes.infra.pass_base import PassBase, PassResult
    >>> class Clean(PassBase):
    ...     def call(self, graph_module):
    ...         return PassResult(graph_module, graph_module.graph.eliminate_dead_code())
    >>> Clean()(torch.fx.symbolic_trace(lambda x: x)).modified
    False
    """

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Change the module."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027  (for subclasses)
        """Called before; to raise if the pass cannot work on this module."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027  (for subclasses)
        """Called afterwards; to raise if the result is not as it should be."""
