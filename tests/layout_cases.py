"""Tensors in odd memory layouts, and what PyTorch's calls are compared by: layouts, errors."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from typing import Any

import torch

from torchlike._base.layout import Layout


def layout_of(x: torch.Tensor) -> Layout:
    return Layout(tuple(x.shape), x.stride(), x.storage_offset())


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the exception it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return error


def fact(error: Exception) -> str:
    """The statement in PyTorch's message, without its names for kinds of tensors or its C++ frames."""
    text = str(error).replace("unflatten got an unexpected error:\n", "")
    text = text.split("\n")[0].rstrip(".")
    return re.sub(r"torch\.\w+Tensor", "Tensor", text).replace("(sparse_coo)", "()")


def agrees(want: Any, got: Any) -> bool:
    """The same layouts (or sizes); or errors of one type, where ours says at least what PyTorch says."""
    if isinstance(want, Exception):
        return type(got) is type(want) and fact(want) in str(got)
    if isinstance(want, torch.Tensor):
        want = layout_of(want)
    return want == got


def permuted(shape: list[int], rnd: random.Random) -> torch.Tensor:
    """A tensor of this shape whose dimensions lie in a random order in memory."""
    order = list(range(len(shape)))
    rnd.shuffle(order)
    return torch.zeros([shape[d] for d in order]).permute([order.index(d) for d in range(len(shape))])


def _cut(shape: list[int], rnd: random.Random) -> torch.Tensor:
    x = permuted([n + rnd.choice([0, 0, 1]) for n in shape], rnd)
    for dim, n in enumerate(shape):
        x = x.narrow(dim, 0, n)
    return x


def _expanded(shape: list[int], rnd: random.Random) -> torch.Tensor:
    return permuted([n if rnd.random() < 0.6 else 1 for n in shape], rnd).expand(shape)


def _channels_last(shape: list[int], rnd: random.Random) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return torch.zeros(shape).to(memory_format=formats.get(len(shape), torch.preserve_format))


def _any_strides(shape: list[int], rnd: random.Random) -> torch.Tensor:
    return torch.zeros(4000).as_strided(shape, [rnd.choice([0, 1, 2, 3, 4, 6, 12, 24]) for _ in shape])


def _odd_singletons(shape: list[int], rnd: random.Random) -> torch.Tensor:
    strides = permuted(shape, rnd).stride()
    odd = [rnd.choice([1, 2, 3, 5, 7]) if n == 1 else st for n, st in zip(shape, strides, strict=True)]
    return torch.zeros(4000).as_strided(shape, odd)


KINDS = (permuted, permuted, _cut, _expanded, _channels_last, _any_strides, _odd_singletons)


def strided(shape: tuple[int, ...], rnd: random.Random) -> torch.Tensor:
    """A zero tensor of this shape in one of many layouts."""
    return rnd.choice(KINDS)(list(shape), rnd)


def shape_of(rnd: random.Random, most: int = 5) -> tuple[int, ...]:
    """A small shape, with ones, and sometimes with zeros."""
    lengths = [1, 1, 2, 2, 3, 4] + [0] * (rnd.random() < 0.15)
    return tuple([rnd.choice(lengths) for _ in range(rnd.randint(0, most))])
