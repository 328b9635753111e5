"""torch.backends: switches of PyTorch's libraries, kept so that scripts can set them."""

from torchlike.backends import cudnn as cudnn
from torchlike.backends import mps as mps
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
