"""``torch.utils._foreach_utils``: how optimizers of others group tensors for ``torch._foreach_*``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]]:
    """The columns of several lists of tensors, by device and dtype of those in the first list.

    Returns {(device, dtype): (the lists, which have the columns of this kind alone; the numbers of these columns if
    ``with_indices``)}. RuntimeError for no list, lists of several lengths (an empty one stays so), a None in the first.

    >>> import torchlike as torch
    >>> from torchlike.utils._foreach_utils import _group_tensors_by_device_and_dtype
    >>> len(_group_tensors_by_device_and_dtype([[torch.ones(2), torch.ones(2).double()]]))
    2
    """
    if not tensorlistlist:
        raise RuntimeError("Expected !nested_tensorlist.empty() to be true: pass at least one list of tensors")
    first, *_ = tensorlistlist
    if any(len(column) not in (0, len(first)) for column in tensorlistlist):
        lengths = [len(column) for column in tensorlistlist]
        raise RuntimeError(f"Expected lists of tensors that are of one length, or empty, to be true, but got {lengths}")
    found: dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]] = {}
    for i, t in enumerate(first):
        if t is None:
            raise RuntimeError(
                "Tensors of the first list of nested Tensor lists are supposed to be defined but "
                f"the {i}-th Tensor is not."
            )
        lists, numbers = found.setdefault((t.device, t.dtype), ([[] for _ in tensorlistlist], []))
        for given, kept in zip(tensorlistlist, lists, strict=True):
            if given:
                kept.append(given[i])
        if with_indices:
            numbers.append(i)
    return found


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The types of devices on which PyTorch's optimizers group tensors unasked."""
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """The types of devices on which an optimizer may be asked for ``fused=True``."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]
