"""torch.fx.passes.fake_tensor_prop: shapes of values noted without computing them."""

from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.interpreter import Interpreter
from torchlike.fx.node import Node
from torchlike.interop.alias import missing_names
from torchlike.utils._pytree import tree_map_only

__all__ = ["FakeTensorProp"]

__getattr__ = missing_names(__name__)


class FakeTensorProp(Interpreter):
    """Runs a graph on tensors on "meta", and notes the values in ``node.meta["val"]``.

    Args:
        module: the module; its parameters are taken without their numbers. mode: refused, NotImplementedError.

    A step that needs numbers raises as it does on "meta".

    >>> import torchlike as torch
    >>> traced = torch.fx.symbolic_trace(lambda x: x @ x.T)
    >>> _ = torch.fx.passes.fake_tensor_prop.FakeTensorProp(traced).propagate(torch.ones(2, 3))
    >>> [tuple(node.meta["val"].shape) for node in traced.graph.nodes]
    [(2, 3), (3, 2), (2, 2), (2, 2)]
    """

    def __init__(self, module: GraphModule, mode: Any = None) -> None:
        if mode is not None:
            raise NotImplementedError(
                "torch.fx.passes.fake_tensor_prop.FakeTensorProp(mode=...): there are no fake modes"
            )
        super().__init__(module)

    def run_node(self, n: Node) -> Any:
        """The value of the step, on "meta"."""
        result = tree_map_only(Tensor, lambda t: t.to("meta"), super().run_node(n))
        n.meta["val"] = result
        return result

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Refused, NotImplementedError: the parameters are elsewhere; trace with a tracer without leaves."""
        module = self.fetch_attr(str(target))
        if next(iter(module.parameters()), None) is not None:
            raise NotImplementedError(
                f"FakeTensorProp: {target} has parameters; move the module to 'meta' and run that"
            )
        return super().call_module(target, args, kwargs)

    def propagate(self, *args: Any) -> Any:
        """Run the graph on tensors like these on "meta"; its result."""
        return self.run(*[tree_map_only(Tensor, lambda t: t.to("meta"), a) for a in args])
