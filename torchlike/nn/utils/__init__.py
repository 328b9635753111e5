"""Help around modules and their parameters."""

from torchlike.nn.utils import rnn as rnn
