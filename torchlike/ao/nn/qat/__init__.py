"""torch.ao.nn.qat: layers whose weights are rounded as quantization will, while they are trained."""

from torchlike.ao.nn.qat.layers import Conv1d as Conv1d
from torchlike.ao.nn.qat.layers import Conv2d as Conv2d
from torchlike.ao.nn.qat.layers import Conv3d as Conv3d
from torchlike.ao.nn.qat.layers import Embedding as Embedding
from torchlike.ao.nn.qat.layers import EmbeddingBag as EmbeddingBag
from torchlike.ao.nn.qat.layers import Linear as Linear
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "it is not supported; Linear, convolutions and embeddings are")
