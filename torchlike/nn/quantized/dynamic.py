"""torch.nn.quantized.dynamic: the former name of torch.ao.nn.quantized.dynamic."""

from torchlike.ao.nn.quantized.dynamic import GRU as GRU
from torchlike.ao.nn.quantized.dynamic import LSTM as LSTM
from torchlike.ao.nn.quantized.dynamic import GRUCell as GRUCell
from torchlike.ao.nn.quantized.dynamic import Linear as Linear
from torchlike.ao.nn.quantized.dynamic import LSTMCell as LSTMCell
from torchlike.ao.nn.quantized.dynamic import RNNCell as RNNCell
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "it is not supported, under its name in torch.ao.nn either")
