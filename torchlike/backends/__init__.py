"""torch.backends: switches of PyTorch's libraries, kept so that scripts can set them."""

from torchlike.backends import cudnn as cudnn
from torchlike.backends import mps as mps
from torchlike.backends._flags import __allow_nonbracketed_mutation as __allow_nonbracketed_mutation
from torchlike.backends._flags import disable_global_flags as disable_global_flags
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
