"""The graph that autograd has recorded, as nodes with what they save."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torchlike._core.autograd import saved_fields
from torchlike._core.autograd.operator_node import OpNode
from torchlike._core.autograd.saved_tensors import Packed
from torchlike._core.tensor.tensor import Tensor
from torchlike.autograd.function import FunctionCtx
from torchlike.nn import Module
from torchlike.viz._svg import Box, draw

MOST = 1500
"""So many nodes are drawn; a picture of more says nothing."""


class Saved(NamedTuple):
    """A tensor that a node keeps for its backward: the name, shape, dtype, bytes, and whose memory it is."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    owner: str


class GraphNode(NamedTuple):
    """A node: ``AddBackward0`` and the like; of leaves the name that it was given."""

    kind: str
    name: str
    shapes: tuple[tuple[int, ...], ...]
    saved: tuple[Saved, ...]
    freed: bool


class Graph:
    """What :func:`graph` finds; notebooks show it as a picture.

    Attributes:
        nodes: tuple of nodes with ``kind`` (``"output"``, ``"node"``, ``"leaf"``, ``"function"``), ``name``, ``shapes``
            of what they computed, ``saved`` tensors, and whether a backward has ``freed`` those.
        edges: pairs of numbers of nodes, from what was computed to where it was used.
        saved_bytes: the memory of all saved tensors that is not a leaf's, each storage once.
    """

    def __init__(self, nodes: tuple[GraphNode, ...], edges: tuple[tuple[int, int], ...], saved_bytes: int) -> None:
        self.nodes, self.edges, self.saved_bytes = nodes, edges, saved_bytes

    @property
    def svg(self) -> str:
        """The picture: leaves above, results below."""
        return draw([_box(node) for node in self.nodes], self.edges, self._title())

    def _title(self) -> str:
        count = sum(node.kind != "output" for node in self.nodes)
        return f"{count} node{'s' * (count != 1)}, {amount(self.saved_bytes)} saved for backward, leaves not counted"

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<torchlike.viz.Graph of {self._title()}>"

    def save(self, path: str | os.PathLike) -> None:
        """Write the picture as an SVG file, which browsers show; ValueError for a name that does not end in .svg."""
        if Path(path).suffix != ".svg":
            raise ValueError(
                f"Graph.save: the picture is SVG; expected a name that ends in .svg, but got {str(path)!r}"
            )
        Path(path).write_text(self.svg, encoding="utf-8")


def graph(*outputs: Tensor, names: Mapping[str, Tensor] | Module | None = None, most: int = MOST) -> Graph:
    """The nodes from which ``backward`` would come to the leaves of ``outputs``, as a picture.

    Args:
        outputs: tensors that require grad, of any shape.
        names: what leaves are called: a module, whose parameters' names they are, or tensors by name.
        most: how many nodes may be drawn.

    A box shows the node as PyTorch names it, the shape of what it computed, and each tensor that it saved, with its
    bytes; blue boxes are leaves. Hooks on saved tensors do not run.

    Raises:
        TypeError: an output is no tensor. RuntimeError: it does not require grad. ValueError: there are too many nodes.

    >>> import torchlike as torch
    >>> from torchlike import viz
    >>> layer = torch.nn.Linear(3, 2)
    >>> loss = layer(torch.ones(4, 3)).relu().sum()
    >>> picture = viz.graph(loss, names=layer)
    >>> [node.name for node in picture.nodes]
    ['output', 'SumBackward0', 'ReluBackward0', 'AddmmBackward0', 'weight', 'bias']
    >>> picture.save("loss.svg")  # doctest: +SKIP
    """
    if not outputs:
        raise TypeError("viz.graph: expected at least one tensor")
    for i, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            raise TypeError(f"viz.graph: output {i} is no tensor but {type(output).__name__}")
        if not output.requires_grad:
            raise RuntimeError(f"viz.graph: output {i} does not require grad, so nothing was recorded for it")
    given = dict(names.named_parameters()) if isinstance(names, Module) else dict(names or {})
    return _Walk({id(tensor): name for name, tensor in given.items()}, most).of(outputs)


class _Walk:
    """One walk along the edges of a graph, without recursion: graphs are deep."""

    def __init__(self, names: dict[int, str], most: int) -> None:
        self.names, self.most = names, most
        self.nodes: list[GraphNode | None] = []
        self.edges: list[tuple[int, int]] = []
        self.numbers: dict[int, int] = {}
        self.waiting: list[tuple[int, Any]] = []
        self.storages: dict[
            int, tuple[Any, int, bool]
        ] = {}  # (storage, bytes, whether it is a leaf's); keeps ids alive
        self.alive: list[Any] = []

    def of(self, outputs: tuple[Tensor, ...]) -> Graph:
        for i, output in enumerate(outputs):
            name = "output" if len(outputs) == 1 else f"output {i}"
            self.nodes.append(GraphNode("output", name, (tuple(output.shape),), (), False))
            self._lead(output if output.grad_fn is None else output.grad_fn, len(self.nodes) - 1)
            while self.waiting:
                number, node = self.waiting.pop()
                self._visit(number, node)
        saved = sum(size for _, size, leaf in self.storages.values() if not leaf)
        return Graph(tuple(node for node in self.nodes if node is not None), tuple(self.edges), saved)

    def _lead(self, node: Any, to: int) -> None:
        """An edge from a node, or from a leaf, to the one that uses it."""
        node = getattr(node, "variable", node) if not isinstance(node, Tensor) else node
        if id(node) not in self.numbers:
            if len(self.nodes) >= self.most:
                raise ValueError(f"viz.graph: there are more than {self.most} nodes; draw a part, or give most=")
            self.numbers[id(node)] = len(self.nodes)
            self.alive.append(node)
            self.waiting.append((len(self.nodes), node))
            self.nodes.append(None)
        self.edges.append((self.numbers[id(node)], to))

    def _visit(self, number: int, node: Any) -> None:
        if isinstance(node, Tensor):
            name = self.names.get(id(node), "leaf")
            storage = node._storage
            self.storages[id(storage)] = (storage, 0, True)
            self.nodes[number] = GraphNode("leaf", name, (tuple(node.shape),), (), False)
            return
        saved, freed = self._saved(node)
        shapes = tuple(tuple(m.shape) for m in node._input_metadata)
        kind = "function" if isinstance(node, FunctionCtx) else "node"
        self.nodes[number] = GraphNode(kind, node.name(), shapes, saved, freed)
        for source, _ in reversed(node.next_functions):  # the first is visited first
            if source is not None:
                self._lead(source, number)

    def _saved(self, node: Any) -> tuple[tuple[Saved, ...], bool]:
        """What a node keeps, read without unpacking it, and whether that is gone."""
        kept = getattr(node, "_kept", [])
        if kept is None:
            return (), True
        fields = _fields(node)
        named = [(fields.get(i, f"saved {i}"), value) for i, value in enumerate(kept)]
        found = [self._of(name, value) for name, value in named if isinstance(value, Tensor)]
        packed = [Saved(name, (), "packed by a hook", 0, "") for name, value in named if isinstance(value, Packed)]
        return tuple(found + packed), False

    def _of(self, name: str, value: Tensor) -> Saved:
        size, storage = value.numel() * value.element_size(), value._storage
        leaf = value.is_leaf and value.requires_grad or self.storages.get(id(storage), (None, 0, False))[2]
        self.storages[id(storage)] = (storage, max(size, self.storages.get(id(storage), (None, 0))[1]), leaf)
        owner = self.names.get(id(value), "leaf") if leaf else ""
        return Saved(name, tuple(value.shape), str(value.dtype).removeprefix("torch."), size, owner)


def _fields(node: Any) -> dict[int, str]:
    """Where each ``_saved_*`` of an operator's node lies: {position: name}."""
    found: dict[int, str] = {}
    for field in dir(node) if isinstance(node, OpNode) else ():
        if field.startswith("_raw_saved_"):
            name = field.removeprefix("_raw_saved_")
            slots = saved_fields.slots(node, name)
            if isinstance(slots, list):
                found.update((slot, f"{name}[{i}]") for i, slot in enumerate(slots))
            elif slots is not None:
                found[slots] = name
    return found


def _box(node: GraphNode) -> Box:
    """What a box says: the heading, the shapes, a line for each saved tensor."""
    shapes = ", ".join(map(_shape, node.shapes[:2])) + ", ..." * (len(node.shapes) > 2)
    lines = [shapes] if shapes else []
    lines += [_line(saved) for saved in node.saved[:4]]
    if len(node.saved) > 4:
        lines.append(f"and {len(node.saved) - 4} more, {amount(sum(s.bytes for s in node.saved[4:]))}")
    if node.freed:
        lines.append("saved tensors are freed")
    hint = [f"{node.kind}: {node.name}", *(f"result {_shape(shape)}" for shape in node.shapes)]
    hint += [f"saves {s.name}: {s.dtype} {_shape(s.shape)}, {s.bytes} bytes {s.owner and 'of ' + s.owner}"
             for s in node.saved]  # fmt: skip
    return Box(node.kind, node.name, tuple(lines), "\n".join(hint))


def _line(saved: Saved) -> str:
    if saved.dtype.startswith("packed"):
        return f"{saved.name}: {saved.dtype}"
    return f"{saved.name} {_shape(saved.shape)} {amount(saved.bytes)}{' of a leaf' * bool(saved.owner)}"


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def amount(size: int) -> str:
    """A number of bytes with its unit.

    >>> from torchlike.viz._graph import amount
    >>> amount(96), amount(150_528), amount(3 << 30)
    ('96 B', '151 kB', '3.22 GB')
    """
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5 or unit == "GB":
            return f"{value:.3g} {unit}"
        value /= 1000
    raise AssertionError
