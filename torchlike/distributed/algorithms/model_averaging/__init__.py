"""``torch.distributed.algorithms.model_averaging``: means of parameters now and then, in the place of gradients."""

from torchlike.distributed.algorithms.model_averaging import averagers as averagers
from torchlike.distributed.algorithms.model_averaging import hierarchical_model_averager as hierarchical_model_averager
from torchlike.distributed.algorithms.model_averaging import utils as utils
