"""The operators that torchvision compiles for PyTorch, as far as its Python code does not compute them itself.

torchvision asks for its library when it is imported; ``torch.ops.load_library`` defines these instead. Boxes are
suppressed on the host, one after the other, as torchvision's CPU code does; regions are aligned by torchvision's own
tensor code. The others raise NotImplementedError when they are called.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from torchlike._base.dtypes import int64
from torchlike._base.state import enable_grad
from torchlike._core.autograd.backward import grad as differentiate
from torchlike._core.conversion.factories import tensor, zeros
from torchlike._core.tensor.tensor import Tensor
from torchlike._library.library import Library

_POOLED = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_CONV = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask"
)
_OF_INPUT = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
# what torchvision gives rules for, and torchlike does not compute: schemas, so that those rules find their operators
_REFUSED = (
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"qroi_align({_POOLED}, SymInt sampling_ratio, bool aligned) -> Tensor",
    f"ps_roi_align({_POOLED}, SymInt sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    f"SymInt pooled_height, SymInt pooled_width, SymInt sampling_ratio, {_OF_INPUT}) -> Tensor",
    f"roi_pool({_POOLED}) -> (Tensor, Tensor)",
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, "
    f"SymInt pooled_width, {_OF_INPUT}) -> Tensor",
    f"ps_roi_pool({_POOLED}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    f"SymInt pooled_height, SymInt pooled_width, {_OF_INPUT}) -> Tensor",
    f"deform_conv2d({_CONV}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {_CONV}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
)
_ALIGN = f"roi_align({_POOLED}, SymInt sampling_ratio, bool aligned) -> Tensor"
_ALIGN_BACK = (
    "_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    f"{_OF_INPUT}, SymInt sampling_ratio, bool aligned) -> Tensor"
)
_kept: list[Library] = []  # a library's operators live as long as it does


def define() -> None:
    """Put torchvision's operators into ``torch.ops.torchvision``, unless they are there."""
    if _kept:
        return
    library = Library("torchvision", "DEF")
    _kept.append(library)
    computed: dict[str, Callable[..., Any]] = {
        "_cuda_version() -> int": lambda: -1,
        "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": _nms,
        _ALIGN: _roi_align,
        _ALIGN_BACK: _roi_align_backward,
    }
    for schema, function in computed.items():
        library.impl(library.define(schema), function, "CompositeExplicitAutograd")
    for schema in _REFUSED:
        library.define(schema)
        library.impl(schema.partition("(")[0], _refusal(schema.partition("(")[0]), "CompositeExplicitAutograd")


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"torch.ops.torchvision.{name}: torchlike does not compute this operator of torchvision's compiled library"
        )

    return refuse


def _nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The boxes that no box of a higher score overlaps by more than the threshold, by falling score: int64 [kept].

    dets: [n, 4] as x1, y1, x2, y2. scores: [n].
    """
    if dets.dim() != 2 or dets.size(1) != 4:
        raise RuntimeError(f"nms(): boxes should be a 2d tensor with 4 columns, got shape {tuple(dets.shape)}")
    if scores.dim() != 1 or scores.size(0) != dets.size(0):
        raise RuntimeError(
            f"nms(): boxes and scores should have same number of elements in dimension 0, got {dets.size(0)} boxes and "
            f"scores of shape {tuple(scores.shape)}"
        )
    x1, y1, x2, y2 = dets.detach().numpy().T
    areas = (x2 - x1) * (y2 - y1)
    left, kept = np.argsort(-scores.detach().numpy(), kind="stable"), []
    while left.size:
        i, rest = left[0], left[1:]
        kept.append(int(i))
        wide = np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest])
        high = np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest])
        shared = np.maximum(wide, 0) * np.maximum(high, 0)
        left = rest[~(shared > iou_threshold * (areas[i] + areas[rest] - shared))]
    return tensor(kept, dtype=int64, device=dets.device)


def _roi_align(*args: Any) -> Tensor:
    """torchvision has it in tensor code too."""
    return importlib.import_module("torchvision.ops.roi_align")._roi_align(*args)


def _roi_align_backward(grad: Tensor, rois: Tensor, scale: float, height: int, width: int, *rest: Any) -> Tensor:
    """What it does is linear in its input: the gradient at zeros is the gradient."""
    *shape, ratio, aligned = rest
    with enable_grad():
        x = zeros(tuple(shape), dtype=grad.dtype).requires_grad_()
        out = _roi_align(x, rois.detach(), scale, height, width, ratio, aligned)
    return differentiate(out, x, grad)[0]
