"""torch.fx.passes.infra: passes in a row, and graphs in partitions."""

from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
