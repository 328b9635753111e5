"""Help for training: gradients clipped, parameters as vectors or computed, sequences padded and packed."""

from torchlike.interop.alias import missing_names
from torchlike.nn.utils import clip_grad as clip_grad
from torchlike.nn.utils import convert_parameters as convert_parameters
from torchlike.nn.utils import fusion as fusion
from torchlike.nn.utils import init as init
from torchlike.nn.utils import memory_format as memory_format
from torchlike.nn.utils import parametrizations as parametrizations
from torchlike.nn.utils import parametrize as parametrize
from torchlike.nn.utils import prune as prune
from torchlike.nn.utils import rnn as rnn
from torchlike.nn.utils import stateless as stateless
from torchlike.nn.utils.clip_grad import clip_grad_norm as clip_grad_norm
from torchlike.nn.utils.clip_grad import clip_grad_norm_ as clip_grad_norm_
from torchlike.nn.utils.clip_grad import clip_grad_value_ as clip_grad_value_
from torchlike.nn.utils.clip_grad import clip_grads_with_norm_ as clip_grads_with_norm_
from torchlike.nn.utils.clip_grad import get_total_norm as get_total_norm
from torchlike.nn.utils.convert_parameters import parameters_to_vector as parameters_to_vector
from torchlike.nn.utils.convert_parameters import vector_to_parameters as vector_to_parameters
from torchlike.nn.utils.fusion import fuse_conv_bn_eval as fuse_conv_bn_eval
from torchlike.nn.utils.fusion import fuse_conv_bn_weights as fuse_conv_bn_weights
from torchlike.nn.utils.fusion import fuse_linear_bn_eval as fuse_linear_bn_eval
from torchlike.nn.utils.fusion import fuse_linear_bn_weights as fuse_linear_bn_weights
from torchlike.nn.utils.init import skip_init as skip_init
from torchlike.nn.utils.memory_format import convert_conv2d_weight_memory_format as convert_conv2d_weight_memory_format
from torchlike.nn.utils.memory_format import convert_conv3d_weight_memory_format as convert_conv3d_weight_memory_format
from torchlike.nn.utils.spectral_norm import remove_spectral_norm as remove_spectral_norm
from torchlike.nn.utils.spectral_norm import spectral_norm as spectral_norm
from torchlike.nn.utils.weight_norm import remove_weight_norm as remove_weight_norm
from torchlike.nn.utils.weight_norm import weight_norm as weight_norm

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format", "fuse_conv_bn_eval",
    "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights", "get_total_norm", "parameters_to_vector",
    "parametrizations", "parametrize", "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init",
    "spectral_norm", "stateless", "vector_to_parameters", "weight_norm",
]  # fmt: skip

__getattr__ = missing_names(__name__)
