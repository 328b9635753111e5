"""What programs took from functorch's ``_src.make_functional``."""

from torchlike._functorch.make_functional import _swap_state as _swap_state
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
