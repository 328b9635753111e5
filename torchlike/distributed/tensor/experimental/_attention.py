"""torch.distributed.tensor.experimental._attention: attention over sequences that are cut refuses by name."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(
    __name__, "context parallelism is not supported; torchlike.sharding.shard cuts a sequence, which XLA then gathers"
)
