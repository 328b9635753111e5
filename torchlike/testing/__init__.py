"""torch.testing: comparison of results, and tensors to try things on."""

from torchlike.interop.alias import missing_names
from torchlike.testing._comparison import assert_allclose as assert_allclose
from torchlike.testing._comparison import assert_close as assert_close
from torchlike.testing._creation import make_tensor as make_tensor

__getattr__ = missing_names(__name__)

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
