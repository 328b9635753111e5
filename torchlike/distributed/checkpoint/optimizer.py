"""torch.distributed.checkpoint.optimizer: state of ShardedTensors, which there are not."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(
    __name__,
    "not supported; use torch.distributed.checkpoint.state_dict.get_optimizer_state_dict and set_optimizer_state_dict",
)
