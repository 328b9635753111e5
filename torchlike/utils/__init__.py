"""torch.utils: data loading and helpers."""

from torchlike.interop.alias import missing_names
from torchlike.utils import _python_dispatch as _python_dispatch
from torchlike.utils import _pytree as _pytree
from torchlike.utils import checkpoint as checkpoint
from torchlike.utils import data as data
from torchlike.utils import dlpack as dlpack
from torchlike.utils import hooks as hooks

__getattr__ = missing_names(__name__)
