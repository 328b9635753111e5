"""Operators of one's own: declared from Python functions or schemas, in every way that operators are used.

``custom_op`` makes a function an operator; ``Library`` and the functions below register kernels, fake
implementations, derivatives and rules by name; ``jax_op`` makes one from a function of jax arrays or a Pallas kernel.
"""

from torchlike._library.custom_ops import CustomOpDef, custom_op
from torchlike._library.fake_impl import get_ctx
from torchlike._library.functions import (
    define,
    get_kernel,
    impl,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
    triton_op,
    wrap_triton,
)
from torchlike._library.infer_schema import infer_schema
from torchlike._library.jax_op import jax_op
from torchlike._library.library import Library, _scoped_library
from torchlike._library.opcheck import opcheck
from torchlike._library.operator import fallthrough_kernel

__all__ = [
    "CustomOpDef", "Library", "_scoped_library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "get_kernel",
    "impl", "impl_abstract", "infer_schema", "jax_op", "opcheck", "register_autocast", "register_autograd",
    "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip
