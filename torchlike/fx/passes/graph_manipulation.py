"""torch.fx.passes.graph_manipulation: steps replaced by their target, and the memory that values take."""

from typing import Any, NamedTuple

from torchlike._core.tensor.tensor import Tensor
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.node import Node, Target
from torchlike.fx.passes.shape_prop import ShapeProp, TensorMetadata
from torchlike.interop.alias import missing_names

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]

__getattr__ = missing_names(__name__)


class size_bytes(NamedTuple):
    """The bytes of a step's value, and those with the parameters that it uses."""

    output_size: int
    total_size: int


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Have all steps of one kind and target be of another, in a new graph."""
    made, copies = Graph(), {}  # type: ignore[var-annotated]
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            node.op, node.target = new_op, new_target
        copies[node] = made.node_copy(node, lambda n: copies[n])
    fx_module.graph = made


def get_tensor_meta(node: Node) -> Any:
    """What :class:`ShapeProp` noted of a step; RuntimeError if it did not."""
    found = node.meta.get("tensor_meta")
    if not found:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run"
        )
    return found


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Tensor] | None = None) -> None:
    """Note ``size_bytes`` of each step; run the module on ``args`` first, if they are given."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The bytes of one step."""
    numbers = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[str(node.target)]
        numbers = sum(p.numel() * p.element_size() for p in module.parameters())
    meta = get_tensor_meta(node)
    count = 1
    for size in meta.shape if isinstance(meta, TensorMetadata) else ():
        count *= size
    output = count * meta.dtype.itemsize
    return size_bytes(output, output + numbers)
