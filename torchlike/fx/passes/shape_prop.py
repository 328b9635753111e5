"""torch.fx.passes.shape_prop: the shapes of values noted in graphs."""

import traceback
from typing import Any, NamedTuple

from torchlike._base.dtypes import dtype
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import MemoryFormat, Tensor, channels_last, channels_last_3d, contiguous_format
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.interpreter import Interpreter
from torchlike.fx.node import Node, map_aggregate
from torchlike.interop.alias import missing_names

__all__ = ["ShapeProp", "TensorMetadata"]

__getattr__ = missing_names(__name__)


class TensorMetadata(NamedTuple):
    """What a graph knows of a tensor."""

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: MemoryFormat | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """What a graph is to know of a tensor."""
    formats = [contiguous_format, channels_last, channels_last_3d] if include_contiguity else []
    found = None
    for memory_format in formats:
        if result.dim() == {channels_last: 4, channels_last_3d: 5}.get(memory_format, result.dim()) and (
            result.is_contiguous(memory_format=memory_format)
        ):
            found = memory_format
            break
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), found, bool(result.is_quantized), {}
    )


class ShapeProp(Interpreter):
    """Runs a graph and notes shape, dtype and strides of each tensor in ``node.meta["tensor_meta"]``.

    Args:
        gm: the module. fake_mode: refused, NotImplementedError: there are no fake tensors; give tensors on "meta".

    >>> import torchlike as torch
    >>> traced = torch.fx.symbolic_trace(lambda x: x.sum(0))
    >>> _ = torch.fx.passes.shape_prop.ShapeProp(traced).propagate(torch.ones(2, 3))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes]
    [(2, 3), (3,), (3,)]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        if fake_mode is not None:
            raise NotImplementedError("torch.fx.passes.shape_prop.ShapeProp(fake_mode=...): give tensors on 'meta'")
        super().__init__(gm)
        self.module = gm

    def run_node(self, n: Node) -> Any:
        """The value of the step. Raises RuntimeError that names it where that fails."""
        try:
            result = super().run_node(n)
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        found = []

        def seen(x: Any) -> Any:
            if isinstance(x, Tensor):
                found.append(x)
                return _extract_tensor_metadata(x)
            return x

        meta = map_aggregate(result, seen)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph, and return its result."""
        return super().run(*args)
