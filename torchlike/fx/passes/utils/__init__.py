"""torch.fx.passes.utils: parts of graphs as modules, and found by a pattern."""

from torchlike.fx.passes.utils.common import HolderModule as HolderModule
from torchlike.fx.passes.utils.common import compare_graphs as compare_graphs
from torchlike.fx.passes.utils.common import lift_subgraph_as_module as lift_subgraph_as_module
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
