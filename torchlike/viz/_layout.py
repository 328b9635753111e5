"""Places for the boxes of a directed graph, layer by layer: every edge points to a lower layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

GAP, ROW_GAP, BEND = 24.0, 34.0, 8.0  # between boxes of a layer, between layers; the width of an edge that passes
ORDERING, SETTLING = 8, 8  # how often the layers are ordered, and then moved in that order
LIGHT, HEAVY = 0.02, 8.0  # what a box without inputs weighs, and an edge that passes a layer; other boxes weigh 1


class Placed(NamedTuple):
    """The centre of each box, the points of each edge from its source's foot to its target's head, and the size."""

    centres: list[tuple[float, float]]
    paths: list[list[tuple[float, float]]]
    width: float
    height: float


def place(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Placed:
    """Place boxes of these sizes so that edges (from, to) go down, near their neighbours, and boxes do not overlap.

    The graph has no cycles. An edge that skips layers passes each of them at a point of its own.
    """
    ranks = _ranks(len(sizes), edges)
    widths = [width for width, _ in sizes]
    chains = []
    layers: list[list[int]] = [[] for _ in range(max(ranks, default=0) + 1)]
    for box, rank in enumerate(ranks):
        layers[rank].append(box)
    for start, end in edges:
        chain = [start]
        for rank in range(ranks[start] - 1, ranks[end], -1):
            chain.append(len(widths))
            layers[rank].append(len(widths))
            widths.append(BEND)
        chains.append([*chain, end])
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for chain in chains:
        for a, b in zip(chain, chain[1:], strict=False):
            below.setdefault(a, []).append(b)
            above.setdefault(b, []).append(a)
    fed = {end for _, end in edges}
    weights = [1.0 if box in fed else LIGHT for box in range(len(sizes))] + [HEAVY] * (len(widths) - len(sizes))
    x = _columns(layers, widths, weights, above, below)
    return _placed(sizes, layers, chains, x)


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest way from each box to a box that leads nowhere: those stand in layer 0, at the foot."""
    into: dict[int, list[int]] = {}
    left = [0] * count
    for start, end in edges:
        into.setdefault(end, []).append(start)
        left[start] += 1
    ranks, ready = [0] * count, [box for box in range(count) if not left[box]]
    for box in ready:
        for source in into.get(box, ()):
            ranks[source] = max(ranks[source], ranks[box] + 1)
            left[source] -= 1
            if not left[source]:
                ready.append(source)
    return ranks


def _columns(
    layers: list[list[int]], widths: list[float], weights: list[float], above: Mapping[int, list[int]],
    below: Mapping[int, list[int]],
) -> list[float]:  # fmt: skip
    """The x of each box: layers are ordered by where their neighbours stand, up and down, and then moved near them."""
    x = [0.0] * len(widths)
    for layer in layers:
        _spread(layer, widths, weights, {box: float(i) for i, box in enumerate(layer)}, x)
    for sweep in range(ORDERING + SETTLING):
        down = sweep % 2 == 1  # the last way is down, so that chains hang straight
        for layer in reversed(layers) if down else layers:
            wanted = {box: _mean(box, above if down else below, weights, x) for box in layer}
            if sweep < ORDERING:
                layer.sort(key=wanted.__getitem__)
            _spread(layer, widths, weights, wanted, x)
    for layer in layers:  # what only feeds others moves to them once more
        wanted = {box: x[box] if above.get(box) else _mean(box, below, weights, x) for box in layer}
        _spread(layer, widths, weights, wanted, x)
    return x


def _mean(box: int, near: Mapping[int, list[int]], weights: list[float], x: list[float]) -> float:
    """Where a box wants to be: amid its neighbours, of which those that pass a layer count most and leaves least."""
    others = near.get(box)
    if not others:
        return x[box]
    return sum(x[other] * weights[other] for other in others) / sum(weights[other] for other in others)


def _spread(
    layer: list[int], widths: list[float], weights: list[float], wanted: Mapping[int, float], x: list[float]
) -> None:
    """Put the boxes of a layer, in its order, as near to where they want to be as their widths allow.

    The weighted least squares of such an order: neighbours that would overlap become a block, which stands at its mean.
    """
    offset, offsets = 0.0, []
    for i, box in enumerate(layer):
        offset += (widths[layer[i - 1]] + widths[box]) / 2 + GAP if i else 0.0
        offsets.append(offset)
    blocks: list[tuple[float, float, int]] = []  # the sum of wanted places less offsets, weight, number
    for box, shift in zip(layer, offsets, strict=True):
        block = ((wanted[box] - shift) * weights[box], weights[box], 1)
        while blocks and blocks[-1][0] / blocks[-1][1] >= block[0] / block[1]:
            total, weight, number = blocks.pop()
            block = (total + block[0], weight + block[1], number + block[2])
        blocks.append(block)
    means = (total / weight for total, weight, number in blocks for _ in range(number))
    for box, shift, mean in zip(layer, offsets, means, strict=True):
        x[box] = mean + shift


def _placed(
    sizes: Sequence[tuple[float, float]], layers: list[list[int]], chains: list[list[int]], x: list[float]
) -> Placed:
    count, y, top = len(sizes), {}, 0.0
    for layer in reversed(layers):
        height = max((sizes[box][1] for box in layer if box < count), default=0.0)
        y.update({box: (top + height / 2, height) for box in layer})
        top += height + ROW_GAP
    left = min((x[box] - sizes[box][0] / 2 for box in range(count)), default=0.0)
    left = min([left, *x[count:]])
    right = max([x[box] + sizes[box][0] / 2 for box in range(count)] + x[count:], default=0.0)
    centres = [(x[box] - left, y[box][0]) for box in range(count)]
    paths = []
    for chain in chains:
        start, end = chain[0], chain[-1]
        points = [(x[start] - left, y[start][0] + sizes[start][1] / 2)]
        for bend in chain[1:-1]:
            points += [(x[bend] - left, y[bend][0] - y[bend][1] / 2), (x[bend] - left, y[bend][0] + y[bend][1] / 2)]
        paths.append([*points, (x[end] - left, y[end][0] - sizes[end][1] / 2)])
    return Placed(centres, paths, right - left, max(top - ROW_GAP, 0.0))
