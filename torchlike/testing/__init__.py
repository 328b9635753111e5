"""torch.testing: comparison of results, and tensors to try things on."""

from torchlike.interop.lazy import on_first_use
from torchlike.testing._comparison import assert_allclose as assert_allclose
from torchlike.testing._comparison import assert_close as assert_close
from torchlike.testing._creation import make_tensor as make_tensor
from torchlike.testing._file_check import FileCheck as FileCheck

__getattr__, __dir__ = on_first_use(__name__)

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]
