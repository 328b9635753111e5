"""torch.fx.passes.infra.partitioner: the steps that a backend supports, in groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchlike.fx.graph_module import GraphModule
from torchlike.fx.node import Node
from torchlike.fx.passes.operator_support import OperatorSupportBase
from torchlike.fx.passes.utils.fuser_utils import fuse_by_partitions, validate_partition
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


class Partition:
    """A group of steps."""

    def __init__(self, id: int | None = None, nodes: Iterable[Node] | None = None) -> None:
        self.id = id
        self.nodes: dict[Node, int | None] = dict.fromkeys(nodes or ())

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node) -> None:
        """Add a step."""
        self.nodes[node] = None

    def remove_node(self, node: Node) -> None:
        """Take a step out."""
        del self.nodes[node]

    def size(self) -> int:
        """The number of steps."""
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Groups the steps that are supported, into as few groups as it finds.

    Args:
        graph_module: the module. operator_support: says which steps are.
        allows_single_node_partition: keep groups of one step. non_compute_ops: names of functions that do not count.
        allowed_single_node_partition_ops: names of functions that may be a group by themselves.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
    ) -> None:
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = list(non_compute_ops or ())
        self.allowed_single_node_partition_ops = list(allowed_single_node_partition_ops or ())

    def propose_partitions(self) -> list[Partition]:
        """The groups; the last steps come first."""
        modules = dict(self.graph_module.named_modules())
        found: list[Partition] = []
        for node in reversed(self.graph_module.graph.nodes):
            if not self.operator_support.is_node_supported(modules, node):
                continue
            current = Partition(len(found), [node])
            for other in list(found):
                if validate_partition([*current.nodes, *other.nodes]):
                    other.nodes = {**current.nodes, **other.nodes}
                    if current in found:
                        found.remove(current)
                    current = other
            if current not in found:
                found.append(current)
        return [p for p in found if self._counts(p)]

    def _counts(self, partition: Partition) -> bool:
        if self.allows_single_node_partition:
            return True
        names = [n._pretty_print_target(n.target) for n in partition.nodes if n.op == "call_function"]
        if any(name in self.allowed_single_node_partition_ops for name in names):
            return True
        others = [n for n in partition.nodes if n.op != "call_function"]
        return len(others) + len([name for name in names if name not in self.non_compute_ops]) > 1

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """The module with each group as one step, which calls a module."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """:meth:`fuse_partitions` of :meth:`propose_partitions`."""
        return self.fuse_partitions(self.propose_partitions(), prefix)
