"""A placed graph as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from torchlike.viz._layout import place

FONT = 12.0
LETTER, LINE, PAD, MARGIN = 0.605 * FONT, 1.3 * FONT, 8.0, 16.0
COLOURS = {  # of a kind of box: inside, border
    "output": ("#fff3c4", "#b58900"),
    "leaf": ("#d7e8fb", "#2a6fb0"),
    "node": ("#f2f2f2", "#777777"),
    "function": ("#e6dcf5", "#6b3fa0"),
}


class Box(NamedTuple):
    """A box: its kind, a heading, further lines, and what a pointer over it shows."""

    kind: str
    heading: str
    lines: tuple[str, ...]
    hint: str


def size(box: Box) -> tuple[float, float]:
    """Width and height of a box."""
    longest = max(len(line) for line in (box.heading, *box.lines))
    return longest * LETTER + 2 * PAD, (1 + len(box.lines)) * LINE + 2 * PAD - 4


def draw(boxes: Sequence[Box], edges: Sequence[tuple[int, int]], title: str) -> str:
    """The graph as the text of an SVG file: ``edges`` go down from box to box."""
    sizes = [size(box) for box in boxes]
    placed = place(sizes, edges)
    head = 2 * LINE
    width = max(placed.width, len(title) * LETTER) + 2 * MARGIN
    height = placed.height + 2 * MARGIN + head
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="ui-monospace, Menlo, Consolas, monospace" '
        f'font-size="{FONT:g}" role="img" aria-label="{escape(title)}">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#666"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="{MARGIN:g}" y="{MARGIN + FONT:g}" fill="#333">{escape(title)}</text>',
        f'<g transform="translate({(width - placed.width) / 2:.1f},{MARGIN + head:g})">',
    ]
    parts += [_path(points) for points in placed.paths]
    parts += [_box(b, s, c) for b, s, c in zip(boxes, sizes, placed.centres, strict=True)]
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def _path(points: list[tuple[float, float]]) -> str:
    """An edge: straight where it passes a layer, and a curve that leaves and arrives vertically between two."""
    said = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for i, ((x0, y0), (x1, y1)) in enumerate(zip(points, points[1:], strict=False)):
        if i % 2:
            said += f" L{x1:.1f},{y1:.1f}"
        else:
            bend = (y1 - y0) / 2
            said += f" C{x0:.1f},{y0 + bend:.1f} {x1:.1f},{y1 - bend:.1f} {x1:.1f},{y1:.1f}"
    return f'<path d="{said}" fill="none" stroke="#666" stroke-width="1.1" marker-end="url(#tip)"/>'


def _box(box: Box, extent: tuple[float, float], centre: tuple[float, float]) -> str:
    inside, border = COLOURS[box.kind]
    left, top = centre[0] - extent[0] / 2, centre[1] - extent[1] / 2
    lines = [(box.heading, "#111", "600"), *((line, "#444", "400") for line in box.lines)]
    text = "".join(
        f'<text x="{centre[0]:.1f}" y="{top + PAD - 2 + (i + 0.8) * LINE:.1f}" text-anchor="middle" '
        f'fill="{colour}" font-weight="{weight}" xml:space="preserve">{escape(line)}</text>'
        for i, (line, colour, weight) in enumerate(lines)
    )
    return (
        f'<g><title>{escape(box.hint)}</title><rect x="{left:.1f}" y="{top:.1f}" width="{extent[0]:.1f}" '
        f'height="{extent[1]:.1f}" rx="5" fill="{inside}" stroke="{border}"/>{text}</g>'
    )
