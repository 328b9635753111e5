"""torch.jit.annotations: names of types that programs import from here."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035

from torchlike._core.tensor.tensor import Tensor
from torchlike._jit_internal import (
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
    Future,
    is_dict,
    is_future,
    is_list,
    is_optional,
    is_tuple,
    is_union,
)
from torchlike.interop.alias import missing_names

__all__ = [
    "Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "Future", "List", "Optional",
    "Tensor", "Tuple", "Union", "is_dict", "is_future", "is_list", "is_optional", "is_tuple", "is_union",
]  # fmt: skip

__getattr__ = missing_names(__name__)
