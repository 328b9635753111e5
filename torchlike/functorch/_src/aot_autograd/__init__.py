"""What programs took from functorch's ``_src.aot_autograd``."""

from torchlike._functorch.aot_autograd import aot_function as aot_function
from torchlike._functorch.aot_autograd import aot_module as aot_module
from torchlike._functorch.aot_autograd import make_boxed_compiler as make_boxed_compiler
from torchlike._functorch.aot_autograd import make_boxed_func as make_boxed_func
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
