"""torch.fx.experimental: graphs of aten calls, assertions as steps, and changes of networks for inference."""

from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
