"""Help for training: gradients clipped, parameters as vectors, sequences padded and packed."""

from torchlike.nn.utils import clip_grad as clip_grad
from torchlike.nn.utils import convert_parameters as convert_parameters
from torchlike.nn.utils import fusion as fusion
from torchlike.nn.utils import init as init
from torchlike.nn.utils import rnn as rnn
from torchlike.nn.utils.clip_grad import clip_grad_norm as clip_grad_norm
from torchlike.nn.utils.clip_grad import clip_grad_norm_ as clip_grad_norm_
from torchlike.nn.utils.clip_grad import clip_grad_value_ as clip_grad_value_
from torchlike.nn.utils.clip_grad import clip_grads_with_norm_ as clip_grads_with_norm_
from torchlike.nn.utils.clip_grad import get_total_norm as get_total_norm
from torchlike.nn.utils.convert_parameters import parameters_to_vector as parameters_to_vector
from torchlike.nn.utils.convert_parameters import vector_to_parameters as vector_to_parameters
from torchlike.nn.utils.init import skip_init as skip_init
