"""A table of a module's layers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.generator import fork_rng
from torchlike.nn import Module, UninitializedBuffer, UninitializedParameter
from torchlike.viz._graph import amount

HEAD = ("layer", "output", "parameters", "bytes")


class Row(NamedTuple):
    """A module: its place (``""`` for the whole), class, what it gave, and its own parameters and buffers.

    ``parameters`` and ``bytes`` are without those of its children and of modules that stand above it in the table.
    """

    name: str
    cls: str
    output: str
    parameters: int
    bytes: int


class Summary:
    """What :func:`summary` finds; printed as a table, and shown as one by notebooks.

    Attributes:
        rows: one for each module and each place where it stands.
        parameters, trainable: how many numbers; a tensor that is shared counts once.
        bytes: of parameters and buffers.
    """

    def __init__(self, rows: tuple[Row, ...], parameters: int, trainable: int, bytes: int) -> None:
        self.rows, self.parameters, self.trainable, self.bytes = rows, parameters, trainable, bytes

    def _cells(self) -> list[tuple[str, ...]]:
        deep = [row.name.count(".") + bool(row.name) for row in self.rows]
        return [
            (
                "  " * depth + (f"{row.name.rpartition('.')[2]}: {row.cls}" if row.name else row.cls),
                row.output, f"{row.parameters:,}" if row.parameters else "", amount(row.bytes) if row.bytes else "",
            )
            for row, depth in zip(self.rows, deep, strict=True)
        ]  # fmt: skip

    def _foot(self) -> str:
        still = self.parameters - self.trainable
        return f"{self.parameters:,} parameters, {still:,} of them frozen; {amount(self.bytes)} with buffers"

    def __repr__(self) -> str:
        cells = [HEAD, *self._cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(4)]
        lines = [
            "  ".join((f"{c:>{w}}" if i > 1 else f"{c:<{w}}") for i, (c, w) in enumerate(zip(row, widths, strict=True)))
            for row in cells
        ]
        rule = "-" * (sum(widths) + 6)
        return "\n".join(line.rstrip() for line in (lines[0], rule, *lines[1:], rule, self._foot()))

    def _repr_html_(self) -> str:
        def row(cells: Sequence[str], tag: str) -> str:
            side = ("left", "left", "right", "right")
            said = (
                f'<{tag} style="text-align:{s};white-space:pre">{escape(c)}</{tag}>'
                for c, s in zip(cells, side, strict=True)
            )
            return f"<tr>{''.join(said)}</tr>"

        body = "".join(row(cells, "td") for cells in self._cells())
        return f"<table><thead>{row(HEAD, 'th')}</thead><tbody>{body}</tbody></table><p>{escape(self._foot())}</p>"


def summary(module: Module, *inputs: Any, **named: Any) -> Summary:
    """A table of a module's layers: what each gives, its own parameters, and their bytes with those of its buffers.

    Args:
        module: an nn.Module.
        inputs, named: an example call. Without one the module is not run, and the table has no outputs.

    The example runs without gradients, in evaluation mode, and leaves the modes of all modules and the state of random
    numbers as they were. A module that is called several times shows its last result.

    Raises:
        TypeError: ``module`` is no nn.Module. What the example call raises.

    >>> import torchlike as torch
    >>> from torchlike import viz
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    >>> viz.summary(model, torch.ones(4, 3))
    layer        output  parameters  bytes
    --------------------------------------
    Sequential   [4, 2]
      0: Linear  [4, 2]           8   32 B
      1: ReLU    [4, 2]
    --------------------------------------
    8 parameters, 0 of them frozen; 32 B with buffers
    """
    if not isinstance(module, Module):
        raise TypeError(f"viz.summary: expected an nn.Module, but got {type(module).__name__}")
    outputs = _outputs(module, inputs, named) if inputs or named else {}
    rows, counted = [], {}
    for name, part in module.named_modules(remove_duplicate=False):
        own = [
            t for t in (*part._parameters.values(), *part._buffers.values()) if t is not None and id(t) not in counted
        ]
        counted.update((id(t), t) for t in own)
        numbers = sum(_numel(t) for t in own if any(t is p for p in part._parameters.values()))
        output = outputs.get(id(part), "")
        rows.append(Row(name, type(part).__name__, output, numbers, sum(_bytes(t) for t in own)))
    parameters = list(module.parameters())
    trainable = sum(_numel(p) for p in parameters if p.requires_grad)
    whole = sum(_bytes(t) for t in counted.values())
    return Summary(tuple(rows), sum(_numel(p) for p in parameters), trainable, whole)


def _numel(tensor: Tensor) -> int:
    return 0 if isinstance(tensor, UninitializedParameter | UninitializedBuffer) else tensor.numel()


def _bytes(tensor: Tensor) -> int:
    return _numel(tensor) and tensor.numel() * tensor.element_size()


def _outputs(module: Module, inputs: tuple, named: dict[str, Any]) -> dict[int, str]:
    """What each module gives in a call, as text, by its id."""
    seen: dict[int, str] = {}

    def note(part: Module, given: Any, result: Any) -> None:
        seen[id(part)] = _said(result)

    parts = list(module.modules())
    modes = [part.training for part in parts]
    hooks = [part.register_forward_hook(note) for part in parts]
    try:
        module.eval()
        with no_grad(), fork_rng():
            module(*inputs, **named)
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode
        for hook in hooks:
            hook.remove()
    return seen


def _said(result: Any) -> str:
    """The shapes of a result."""
    if isinstance(result, Tensor):
        return str(list(result.shape))
    if isinstance(result, tuple | list):
        return "(" + ", ".join(map(_said, result)) + ")"
    if isinstance(result, dict):
        return "{" + ", ".join(f"{key}: {_said(value)}" for key, value in result.items()) + "}"
    return "None" if result is None else type(result).__name__
