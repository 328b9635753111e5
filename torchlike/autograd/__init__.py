"""torch.autograd: gradients, grad modes and the graph."""

from torchlike._base.state import enable_grad as enable_grad
from torchlike._base.state import no_grad as no_grad
from torchlike._base.state import set_grad_enabled as set_grad_enabled
from torchlike._core.autograd import backward as backward
from torchlike._core.autograd import grad as grad
from torchlike._core.tensor import Tensor as Variable
from torchlike.autograd import grad_mode as grad_mode
from torchlike.autograd import graph as graph
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

__all__ = ["Variable", "backward", "enable_grad", "grad", "grad_mode", "graph", "no_grad", "set_grad_enabled"]
