"""torch.fx.passes.fake_tensor_prop: shapes of values noted without computing them."""

from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike._subclasses.fake_tensor import FakeTensorMode
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.interpreter import Interpreter
from torchlike.fx.node import Node
from torchlike.interop.alias import missing_names
from torchlike.utils._pytree import tree_map_only

__all__ = ["FakeTensorProp"]

__getattr__ = missing_names(__name__)


class FakeTensorProp(Interpreter):
    """Runs a graph on fake tensors, and notes the values in ``node.meta["val"]``.

    Args:
        module: the module. mode: the FakeTensorMode to run in, by default a new one.

    Raises:
        AssertionError: a step takes a tensor with numbers, such as a parameter, unless the mode has
            ``allow_non_fake_inputs``.

    >>> import torchlike as torch
    >>> traced = torch.fx.symbolic_trace(lambda x: x @ x.T)
    >>> _ = torch.fx.passes.fake_tensor_prop.FakeTensorProp(traced).propagate(torch.ones(2, 3))
    >>> [tuple(node.meta["val"].shape) for node in traced.graph.nodes]
    [(2, 3), (3, 2), (2, 2), (2, 2)]
    """

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode

    def run_node(self, n: Node) -> Any:
        """The value of the step."""
        result = super().run_node(n)
        n.meta["val"] = result
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on fake tensors like these; its result."""
        return self.propagate_dont_convert_inputs(*[tree_map_only(Tensor, self._mode.from_tensor, a) for a in args])

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the graph on these, which are fake; its result."""
        with self._mode:
            return self.run(*args)
