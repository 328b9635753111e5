"""torch.ao.nn.quantized.dynamic: layers of floats whose inputs are quantized by their own ranges."""

from torchlike.ao.nn.quantized.dynamic.linear import Linear as Linear
from torchlike.ao.nn.quantized.dynamic.recurrent import GRU as GRU
from torchlike.ao.nn.quantized.dynamic.recurrent import LSTM as LSTM
from torchlike.ao.nn.quantized.dynamic.recurrent import GRUCell as GRUCell
from torchlike.ao.nn.quantized.dynamic.recurrent import LSTMCell as LSTMCell
from torchlike.ao.nn.quantized.dynamic.recurrent import RNNCell as RNNCell
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "it is not supported; Linear, LSTM, GRU and their cells are")
