"""Pointwise results take the memory order of their inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlike._base.layout import Layout, contiguous_strides, pointwise_strides
from torchlike._core.tensor.tensor import Tensor
from torchlike._core.tensor.views import View
from torchlike._executor.level import LevelValue

if TYPE_CHECKING:
    from torchlike._core.typed import Inputs


def follow(inputs: Inputs, out: Any) -> None:
    """Give the results of a pointwise call the strides that PyTorch gives them."""
    layouts = [x._layout for x in inputs if isinstance(x, Tensor)]
    for t in out if out.__class__ is tuple else (out,):
        shape = t._storage.value.shape
        strides = pointwise_strides(layouts, shape)
        if strides != contiguous_strides(shape):
            restride(t, strides)


def restride(t: Tensor, strides: tuple[int, ...]) -> None:
    """Give a fresh dense tensor other strides: its values stay, its memory order changes."""
    if isinstance(t._storage.value, LevelValue):
        t._storage.value.restride(strides)
    t._storage.strides = strides
    t._view = View((), (), Layout(t._storage.value.shape, strides, 0))
