"""``functorch.einops.rearrange``: dimensions named, put in another order, taken apart and joined by a pattern."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.rearrange import stack

_Group = list[str]  # the names of one dimension
_REST = ["..."]  # stands for the dimensions of an ellipsis that is in no parentheses
_TOKEN = re.compile(r"\s+|\.\.\.|[()]|\w+|(?P<wrong>.)")


class DimensionBindError(Exception):
    """The lengths of a tensor do not fit the names of a pattern."""


def rearrange(tensor: Tensor | list[Tensor] | tuple[Tensor, ...], pattern: str, **axes_lengths: int) -> Tensor:
    """The tensor with its dimensions as on the right of the arrow in ``pattern``, where the left names those it has.

    Args:
        tensor: or a sequence of tensors, which are stacked. pattern: names between spaces; several in parentheses are
            one dimension, ``1`` and ``()`` one of length 1, ``...`` all that have no name. axes_lengths: of names.

    Raises:
        ValueError: a pattern that is none, or does not fit the number of dimensions; names on one side only.
        DimensionBindError: lengths that do not fit.

    >>> import torchlike as torch
    >>> from torchlike.functorch.einops import rearrange
    >>> rearrange(torch.zeros(2, 6, 4), "b (h w) c -> b c h w", h=3).shape
    torch.Size([2, 4, 3, 2])
    """
    if isinstance(tensor, list | tuple):
        tensor = stack(tensor)
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"Pattern must contain a single '->' separator, got {pattern!r}")
    left, right = _parsed(sides[0], "left"), _parsed(sides[1], "right")
    _check(left, right, axes_lengths, pattern)
    known = len([g for g in left if g is not _REST])
    if not _open(left) and known != tensor.dim() or known > tensor.dim():
        raise ValueError(
            f"Number of dimensions in pattern ({known}) must be equal to the number of dimensions in the tensor "
            f"({tensor.dim()})"
        )
    rest = [f"... {i}" for i in range(tensor.dim() - known)]
    left, right = _spread(left, rest), _spread(right, rest)
    lengths = _lengths(left, tensor.shape, axes_lengths)
    source = [name for group in left for name in group]
    target = [name for group in right for name in group]
    apart = tensor.reshape([lengths[n] for n in source]).permute([source.index(n) for n in target])
    return apart.reshape([math.prod(lengths[n] for n in group) for group in right])


def _parsed(text: str, side: str) -> list[_Group]:
    """The dimensions that one side of a pattern names."""
    groups: list[_Group] = []
    inside: _Group | None = None
    for token in _TOKEN.finditer(text):
        found = token.group()
        if found.isspace():
            continue
        if token["wrong"]:
            what = "Expression may contain dots only inside ellipsis (...)" if found == "." else "Unknown character"
            raise ValueError(f"{what} {found!r} in the {side} side, {text!r}")
        if found == "(":
            if inside is not None:
                raise ValueError(f"Axis composition is one-level (brackets inside brackets not allowed): {text!r}")
            inside = []
        elif found == ")":
            if inside is None:
                raise ValueError(f"Brackets are not balanced in {text!r}")
            groups.append(inside)
            inside = None
        else:
            names = [] if found == "1" else [_name(found)]
            if inside is not None:
                inside.extend(names)
            else:
                groups.append(_REST if names == ["..."] else names)
    if inside is not None:
        raise ValueError(f"Imbalanced parentheses in expression: {text!r}")
    names = [n for g in groups for n in g]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice == "...":
        raise ValueError("Expression may contain dots only inside ellipsis (...); only one ellipsis for tensor")
    if twice is not None:
        raise ValueError(f"Indexing expression contains duplicate dimension {twice!r}")
    if side == "left" and not _open(groups) and "..." in names:
        raise ValueError(f"Ellipsis inside parenthesis in the left side is not allowed: {text!r}")
    return groups


def _open(groups: list[_Group]) -> bool:
    return any(group is _REST for group in groups)


def _name(found: str) -> str:
    if found.isdigit():
        raise ValueError("rearrange only supports unnamed axes of size 1")
    if found != "..." and (not found.isidentifier() or found[0] == "_" or found[-1] == "_"):
        raise ValueError(f"Invalid axis identifier: {found}\naxis name should should not start or end with underscore")
    return found


def _check(left: list[_Group], right: list[_Group], lengths: dict[str, int], pattern: str) -> None:
    a, b = ({n for g in side for n in g} for side in (left, right))
    if "..." in b - a:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if a ^ b:
        raise ValueError(f"Identifiers only on one side of rearrange expression (should be on both): {a ^ b}")
    if lengths.keys() - a:
        raise ValueError(f"Identifiers not found in rearrange expression: {lengths.keys() - a}")


def _spread(groups: list[_Group], rest: list[str]) -> list[_Group]:
    """``groups`` with names for the dimensions that the ellipsis stands for."""
    found: list[_Group] = []
    for group in groups:
        if group is _REST:
            found += [[n] for n in rest]
        else:
            found.append([m for n in group for m in (rest if n == "..." else [n])])
    return found


def _lengths(groups: list[_Group], shape: Sequence[int], given: dict[str, Any]) -> dict[str, int]:
    """The length of each name."""
    found = dict(given)
    for group, length in zip(groups, shape, strict=True):
        free = [n for n in group if n not in found]
        if len(free) > 1:
            raise DimensionBindError(f"cannot infer the sizes of two dimensions at once {free[0]} and {free[1]}")
        rest = math.prod(found[n] for n in group if n in found)
        if free and (not rest or length % rest):
            known = tuple(found.get(n, "?") for n in group)
            raise DimensionBindError(
                f"inferred dimension does not evenly fit into larger dimension: {length} vs {known}"
            )
        if free:
            found[free[0]] = length // rest
        elif rest != length:
            raise DimensionBindError(
                f"Dimension sizes to do not match ({length} != {rest}) when matching dimension pack {tuple(group)}"
            )
    return found
