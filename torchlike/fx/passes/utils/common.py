"""torch.fx.passes.utils.common."""

from collections.abc import Mapping

from torchlike.fx._qualified import type_text
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule, _get_attr
from torchlike.fx.passes.utils.matcher_utils import SubgraphMatcher
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]

__getattr__ = missing_names(__name__)


class HolderModule(Module):
    """A module that only has submodules, given as a dict."""

    def __init__(self, d: Mapping[str, Module]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """A module of its own for a graph that is a part of another.

    Args:
        gm: the module that the names in ``subgraph`` are of. comp_name: the path that the part will have.
        class_name: what the part says that it is.

    Returns:
        the module, and for each path in it (behind ``comp_name``) the one in ``gm``.
    """
    paths: dict[str, str] = {}
    held = HolderModule({})
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = str(node.target)
        *way, field = target.split(".")
        here: Module = held
        for part in way:
            if not hasattr(here, part):
                here.add_module(part, HolderModule({}))
            here = getattr(here, part)
        paths[f"{comp_name}.{target}"] = target
        setattr(here, field, _get_attr(gm, target))
    return GraphModule(held, subgraph, class_name), paths


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs are the same but for the names of their steps."""
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return bool(matcher.match(right)) and [type_text(n.type) for n in left.nodes] == [
        type_text(n.type) for n in right.nodes
    ]
