"""torch.nn.qat: the former name of torch.ao.nn.qat."""

from torchlike.ao.nn.qat import Conv1d as Conv1d
from torchlike.ao.nn.qat import Conv2d as Conv2d
from torchlike.ao.nn.qat import Conv3d as Conv3d
from torchlike.ao.nn.qat import Embedding as Embedding
from torchlike.ao.nn.qat import EmbeddingBag as EmbeddingBag
from torchlike.ao.nn.qat import Linear as Linear
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "it is not supported, under its name in torch.ao.nn either")
