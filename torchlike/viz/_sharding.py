"""Where the pieces of tensors live: a picture of a module's parameters and buffers over the devices."""

from __future__ import annotations

import colorsys
import math
import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from torchlike._core.tensor.tensor import Tensor
from torchlike.nn import Module
from torchlike.sharding import sharding_of
from torchlike.viz._graph import amount
from torchlike.viz._svg import FONT, LETTER, LINE, MARGIN

MOST = 300
"""So many tensors are drawn."""
_WIDTH, _ROW, _SHORT = 300.0, 64.0, 26.0
_STRIP, _STRIPS = 13.0, 16
"""The height of a piece in which an id can be read, and how many of them above each other make a row higher."""
_KEY = "numbers: the devices that have a piece, which has the colour of the first; grey: all devices"


class Piece(NamedTuple):
    """A part of a tensor: where it begins and ends along each dimension, and the ids of the devices that have it."""

    begins: tuple[int, ...]
    ends: tuple[int, ...]
    devices: tuple[int, ...]


class Laid(NamedTuple):
    """A tensor: its name, shape, dtype, which axes cut each dimension, its pieces, and the bytes that a device has."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    spec: tuple[Any, ...] | None
    pieces: tuple[Piece, ...]
    bytes: int


class Sharding:
    """What :func:`sharding` finds; notebooks show it as a picture.

    Attributes:
        tensors: tuple of tensors with ``name``, ``shape``, ``dtype``, ``spec``, ``pieces`` and ``bytes`` of a device.
        held: {id of a device: bytes of all tensors on it}.
    """

    def __init__(self, tensors: tuple[Laid, ...]) -> None:
        self.tensors = tensors
        self.held: dict[int, int] = {}
        for t in tensors:
            for d in [d for piece in t.pieces for d in piece.devices]:
                self.held[d] = self.held.get(d, 0) + t.bytes
        self.held = dict(sorted(self.held.items()))

    @property
    def svg(self) -> str:
        """The picture: a row for each tensor; pieces have the ids of their devices and the first one's colour."""
        shown = self.tensors[:MOST]
        names = max([len(line) for t in shown for line in _words(t)], default=0) * LETTER
        places, top = [], MARGIN + 3 * LINE
        for t in shown:
            places.append(top)
            top += _height(t) + 14
        title = self._title()
        width = max(names + _WIDTH + 3 * MARGIN, max(len(title), len(_KEY)) * LETTER + 2 * MARGIN)
        left, colours = width - _WIDTH - MARGIN, {d: i / len(self.held) for i, d in enumerate(self.held)}
        rows = [_row(t, left, y, colours) for t, y in zip(shown, places, strict=True)]
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top + MARGIN:.0f}" '
                f'viewBox="0 0 {width:.0f} {top + MARGIN:.0f}" '
                f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{FONT:g}" role="img" '
                f'aria-label="{escape(title)}">',
                '<rect width="100%" height="100%" fill="#ffffff"/>',
                _text(MARGIN, MARGIN + FONT, title, "#333"),
                _text(MARGIN, MARGIN + FONT + LINE, _KEY, "#777"),
                *rows,
                "</svg>",
            ]
        ) + "\n"  # fmt: skip

    def _title(self) -> str:
        left = len(self.tensors) - MOST
        most, least = max(self.held.values(), default=0), min(self.held.values(), default=0)
        each = f"{amount(most)} each" if most == least else f"{amount(least)} to {amount(most)} each"
        several = f"{len(self.tensors)} tensors over {len(self.held)} devices, {each}"
        return several + (f"; {left} more are not shown" if left > 0 else "")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture as an SVG file, which browsers show; ValueError for a name that does not end in .svg."""
        if Path(path).suffix != ".svg":
            raise ValueError(
                f"Sharding.save: the picture is SVG; expected a name that ends in .svg, but got {str(path)!r}"
            )
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<torchlike.viz.Sharding of {self._title()}>"


def sharding(what: Module | Tensor | Mapping[str, Tensor]) -> Sharding:
    """A picture of where the pieces of tensors live: of a module's parameters and buffers, or of others.

    Args:
        what: a Module, a tensor, or ``{name: tensor}``, such as an optimizer's state of one parameter. Tensors on the
            meta device have a layout too, once they were sharded.

    Raises:
        TypeError: it is none of these.
        RuntimeError: a tensor is traced, and has no layout yet.

    >>> import torchlike as torch
    >>> from torchlike import viz
    >>> mesh = torch.sharding.make_mesh(dp=-1)
    >>> model = torch.distribute(torch.nn.Linear(4, 8 * mesh.size), mesh, {"weight": "dp"})
    >>> picture = viz.sharding(model)
    >>> [(t.name, len(t.pieces) == mesh.size) for t in picture.tensors][0]
    ('weight', True)
    """
    if isinstance(what, Module):
        named = [*what.named_parameters(), *what.named_buffers()]
    elif isinstance(what, Tensor):
        named = [("", what)]
    elif isinstance(what, Mapping) and all(isinstance(t, Tensor) for t in what.values()):
        named = [*what.items()]
    else:
        raise TypeError(f"sharding(): expected a Module, a Tensor or a dict of them, got {type(what).__name__}")
    return Sharding(tuple(_laid(name, t) for name, t in named))


def _laid(name: str, t: Tensor) -> Laid:
    shape, layout = tuple(t.shape), sharding_of(t)
    if layout is None:  # on meta, and laid out nowhere
        return Laid(name, shape, str(t.dtype), None, (), 0)
    found: dict[Any, list[int]] = {}
    for device, index in layout.devices_indices_map(shape).items():
        ends = tuple(s.indices(n)[:2] for s, n in zip(index, shape, strict=True))
        found.setdefault(ends, []).append(device.id)
    pieces = tuple(
        Piece(tuple(a for a, _ in ends), tuple(b for _, b in ends), tuple(sorted(ids)))
        for ends, ids in sorted(found.items())
    )
    spec = getattr(layout, "spec", None)
    held = math.prod(layout.shard_shape(shape)) * t.element_size()
    return Laid(name, shape, str(t.dtype), None if spec is None else tuple(spec), pieces, held)


def _words(t: Laid) -> list[str]:
    dtype = t.dtype.rpartition(".")[2]
    if t.spec is None:
        where = "on one device" if t.pieces else "on no device"
    else:
        axes = [",".join(e) if isinstance(e, tuple) else e or "-" for e in (*t.spec, *[None] * len(t.shape))]
        where = f"cut by [{' | '.join(axes[: len(t.shape)])}]" if any(t.spec) else "whole on each device"
    return [t.name, f"{dtype}[{', '.join(map(str, t.shape))}]", f"{where}, {amount(t.bytes)} a device"]


def _height(t: Laid) -> float:
    return max(_drawn(t), 3 * LINE)


def _drawn(t: Laid) -> float:
    """The height of the picture of a tensor; pieces above each other leave room for their ids."""
    dims = _drawn_dims(t)
    above = len({p.begins[dims[0]] for p in t.pieces}) if len(dims) == 2 else 1
    return max(_ROW if len(dims) == 2 else _SHORT, _STRIP * min(above, _STRIPS) + 6)


def _drawn_dims(t: Laid) -> list[int]:
    """The dimensions that are drawn, down and across: those that are cut, else the first ones; at most two."""
    cut = [d for d in range(len(t.shape)) if len({p.begins[d] for p in t.pieces}) > 1]
    others = [d for d in range(len(t.shape)) if d not in cut]
    return sorted((cut + others)[:2])


def _row(t: Laid, left: float, top: float, colours: Mapping[int, float]) -> str:
    words = [
        _text(MARGIN, top + FONT + i * LINE, line, "#111" if i == 0 else "#555") for i, line in enumerate(_words(t))
    ]
    dims = _drawn_dims(t)
    height = _drawn(t)
    drawn = [_piece(t, p, dims, (left, top + 2, _WIDTH, height - 6), colours) for p in _apart(t, dims)]
    return "\n".join([*words, *drawn])


def _apart(t: Laid, dims: list[int]) -> list[Piece]:
    """The pieces as the picture has them: those that differ only along what is not drawn are one."""
    found: dict[Any, list[int]] = {}
    for p in t.pieces:
        key = tuple(p.begins[d] for d in dims), tuple(p.ends[d] for d in dims)
        found.setdefault(key, []).extend(p.devices)
    return [Piece(begins, ends, tuple(sorted(ids))) for (begins, ends), ids in found.items()]


def _piece(t: Laid, p: Piece, dims: list[int], place: tuple[float, ...], colours: Mapping[int, float]) -> str:
    x, y, width, height = place
    spans = [(a / max(t.shape[d], 1), b / max(t.shape[d], 1)) for d, a, b in zip(dims, p.begins, p.ends, strict=True)]
    across = spans[-1] if spans else (0.0, 1.0)
    down = spans[0] if len(spans) == 2 else (0.0, 1.0)
    x, width = x + across[0] * width, (across[1] - across[0]) * width
    y, height = y + down[0] * height, (down[1] - down[0]) * height
    ids = _ranges(p.devices)
    whole = len(p.devices) == len(colours) and len(colours) > 1
    fill = "#eeeeee" if whole else _colour(colours[p.devices[0]])
    size = min(FONT - 2, height * 0.8)
    label = ids if len(ids) * 0.605 * size < width - 2 and size >= 6 else ""
    bounds = ", ".join(f"{a}:{b}" for a, b in zip(p.begins, p.ends, strict=True))
    shape = (
        f'<g><title>{escape(f"{t.name}[{bounds}] on {ids}")}</title><rect x="{x:.1f}" y="{y:.1f}" '
        f'width="{max(width, 0.5):.1f}" height="{max(height, 0.5):.1f}" fill="{fill}" stroke="#555"/>'
    )
    if label:
        shape += (
            f'<text x="{x + width / 2:.1f}" y="{y + height / 2 + size * 0.36:.1f}" text-anchor="middle" '
            f'font-size="{size:.1f}" fill="#222">{label}</text>'
        )
    return shape + "</g>"


def _colour(hue: float) -> str:
    """A light colour; ``hue`` from 0 to 1 goes around the circle."""
    rgb = colorsys.hls_to_rgb(hue, 0.8, 0.7)
    return "#" + "".join(f"{round(255 * c):02x}" for c in rgb)


def _ranges(ids: tuple[int, ...]) -> str:
    """Numbers in short: ``0-3,8``."""
    runs: list[list[int]] = []
    for i in ids:
        if runs and runs[-1][1] == i - 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _text(x: float, y: float, line: str, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" xml:space="preserve">{escape(line)}</text>'
