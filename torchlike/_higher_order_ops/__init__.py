"""Control flow over functions of tensors, under PyTorch's names; ``cond`` is ``torch.cond`` too."""

from torchlike._higher_order_ops._namespace import HigherOrderNamespace as HigherOrderNamespace
from torchlike._higher_order_ops.associative_scan import associative_scan as associative_scan
from torchlike._higher_order_ops.cond import cond as cond
from torchlike._higher_order_ops.map import map as map
from torchlike._higher_order_ops.scan import scan as scan
from torchlike._higher_order_ops.while_loop import while_loop as while_loop
