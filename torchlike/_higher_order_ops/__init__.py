"""Control flow over functions of tensors, under PyTorch's names; ``cond`` is ``torch.cond`` too."""

from torchlike._higher_order_ops._namespace import HigherOrderNamespace as HigherOrderNamespace
from torchlike._higher_order_ops.associative_scan import associative_scan as associative_scan
from torchlike._transforms.control.branches import cond as cond
from torchlike._transforms.control.branches import while_loop as while_loop
from torchlike._transforms.control.loops import map as map
from torchlike._transforms.control.loops import scan as scan
