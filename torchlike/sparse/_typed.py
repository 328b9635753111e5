"""``torch.sparse.FloatTensor(indices, values, size)``: the constructors of old."""

from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike._base.once import warn_once
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor, sparse_coo


class _SparseMeta(type):
    """``isinstance(x, torch.sparse.FloatTensor)`` asks for the layout and the dtype of a tensor on the CPU."""

    dtype: dtypes.dtype

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.layout is sparse_coo and x.dtype is cls.dtype and x.device.type == "cpu"

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        made_of = "indices, values, size" if args and isinstance(args[0], Tensor) else "size"
        warn_once(f"torch.sparse.{cls.__name__} is deprecated; use torch.sparse_coo_tensor({made_of}, dtype=).")
        make = FUNCTIONS["sparse_coo_tensor"]
        if len(args) in (2, 3) and isinstance(args[0], Tensor):
            return make(*args, device=device)  # in the dtype of the values, whatever the name says
        if len(args) == 1 and isinstance(args[0], list | tuple):
            args = tuple(args[0])
        return make(tuple(args) or (0,), dtype=cls.dtype, device=device)


_NAMES = "BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor ShortTensor"
TYPED = {
    name: _SparseMeta(
        name,
        (),
        {
            "dtype": dtypes.TENSOR_TYPES[name],
            "__module__": "torch.sparse",
            "__doc__": f"Makes tensors of {dtypes.TENSOR_TYPES[name]} and layout torch.sparse_coo.",
        },
    )
    for name in _NAMES.split()
}
