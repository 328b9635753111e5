"""torch.distributed.tensor._ops: rules of single operators, of which there are none."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(
    __name__,
    "there is no table of rules for operators of DTensors: XLA finds how their results lie; "
    "torch.distributed.tensor.experimental.local_map runs a function on the pieces",
)
