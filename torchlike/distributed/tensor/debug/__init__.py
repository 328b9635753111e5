"""torch.distributed.tensor.debug: XLA puts collectives into programs, where nothing counts them call by call."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(
    __name__, "XLA puts the collectives into its programs; `python -m torchlike plan` lists those of compiled functions"
)
