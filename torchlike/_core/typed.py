"""The types that signatures share; see ``torchlike._decl.typed``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from torchlike._base.device import device as Device
from torchlike._base.dtypes import dtype

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import MemoryLayout, Tensor

# Inputs of an operator: tensors, numbers, None for an argument that is left out.
Inputs: TypeAlias = tuple[Any, ...]
# (node, output number), where a gradient flows; None for an input without.
Edge: TypeAlias = tuple[Any, int] | None
# Gradients, None for zeros: values in a plain backward, tensors where they have history themselves.
Grads: TypeAlias = Sequence[Any]
# The steps of a view, (operator, static arguments, number of integers) each, and the integers of all of them.
Steps: TypeAlias = tuple[tuple[Any, ...], ...]
Ints: TypeAlias = tuple[Any, ...]
# Lengths of dimensions: ints, or symbols while shapes are unknown.
Shape: TypeAlias = tuple[int, ...]
# What stands for a device in a call, and other options of it that may be left out.
DeviceLike: TypeAlias = Device | str | int | None
OptDtype: TypeAlias = dtype | None
OptLayout: TypeAlias = "MemoryLayout | None"
OptTensor: TypeAlias = "Tensor | None"
Number: TypeAlias = bool | int | float | complex
# One tensor (or edge of the graph), or several.
TensorOrTensors: TypeAlias = Any
F = TypeVar("F", bound=Callable[..., Any])
