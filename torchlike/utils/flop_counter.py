"""Counting floating point operations by operator and by module."""

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from torchlike._aten.packets import OpOverloadPacket, ops
from torchlike._core.tensor.tensor import Tensor
from torchlike.utils._python_dispatch import TorchDispatchMode
from torchlike.utils._pytree import tree_map
from torchlike.utils.module_tracker import ModuleTracker

aten = ops.aten
flop_registry: dict[Any, Callable] = {}


def _shape(x: Any) -> Any:
    return x.shape if isinstance(x, Tensor) else x


def _of_shapes(formula: Callable) -> Callable:
    """``formula``, which is about shapes, for tensors."""

    def count(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        shapes, named = tree_map(_shape, (args, kwargs))
        return formula(*shapes, out_shape=tree_map(_shape, out_val), **named)

    return count


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable], Callable]:
    """Count calls of ``targets`` (one packet ``torch.ops.ns.name`` or a list) by the decorated formula.

    The formula gets the arguments of the call, tensors as their shapes, and ``out_shape``; with ``get_raw`` the
    tensors themselves and ``out_val``. It returns a number of operations.

    Raises:
        ValueError: a target is no packet. RuntimeError: it has a formula already.

    >>> import torchlike as torch
    >>> @register_flop_formula(torch.ops.aten._cdist_forward)
    ... def cdist(x, y, *args, out_shape=None, **kwargs):
    ...     return 3 * out_shape.numel() * x[-1]
    >>> with FlopCounterMode(display=False) as counter:
    ...     d = torch.cdist(torch.ones(2, 4), torch.ones(3, 4))
    >>> counter.get_total_flops()
    72
    """

    def register(formula: Callable) -> Callable:
        found = targets if isinstance(targets, list | tuple) else [targets]
        for target in found:
            if not isinstance(target, OpOverloadPacket):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"torch.ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else _of_shapes(formula)
        return formula

    return register


@register_flop_formula(aten.mm)
def mm_flop(a_shape: Sequence, b_shape: Sequence, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """A product of [m, k] and [k, n]: 2 m n k."""
    (m, k), (_, n) = a_shape, b_shape
    return m * n * 2 * k


@register_flop_formula(aten.addmm)
def addmm_flop(self_shape: Any, a_shape: Sequence, b_shape: Sequence, out_shape: Any = None, **kwargs: Any) -> int:
    """As :func:`mm_flop`; the addition is not counted."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Sequence, b_shape: Sequence, out_shape: Any = None, **kwargs: Any) -> int:
    """A stack of products."""
    (b, m, k), (_, _, n) = a_shape, b_shape
    return b * m * n * 2 * k


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(self_shape: Any, a_shape: Sequence, b_shape: Sequence, out_shape: Any = None, **kwargs: Any) -> int:
    """As :func:`bmm_flop`; the addition is not counted."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Sequence, w_shape: Sequence, out_shape: Sequence, transposed: bool = False) -> int:
    """Operations of a convolution: every weight meets every position of the output (transposed: of the input)."""
    positions = (x_shape if transposed else out_shape)[2:]
    return math.prod(positions) * x_shape[0] * math.prod(w_shape) * 2


@register_flop_formula(aten.convolution)
def conv_flop(
    x_shape: Sequence, w_shape: Sequence, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    *args: Any, out_shape: Any = None, **kwargs: Any,
) -> int:  # fmt: skip
    """See :func:`conv_flop_count`."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    grad_out_shape: Sequence, x_shape: Sequence, w_shape: Sequence, bias: Any, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int, output_mask: Sequence, out_shape: Any = None,
) -> int:  # fmt: skip
    """Each of the gradients of input and weight costs as much as the convolution."""
    once = conv_flop_count(x_shape, w_shape, grad_out_shape, transposed=transposed)
    return once * (bool(output_mask[0]) + bool(output_mask[1]))


def sdpa_flop_count(query_shape: Sequence, key_shape: Sequence, value_shape: Sequence) -> int:
    """Operations of attention: the scores, and the mean of the values."""
    b, h, s_q, d_q = query_shape
    s_k, d_v = key_shape[-2], value_shape[-1]
    return bmm_flop((b * h, s_q, d_q), (b * h, d_q, s_k)) + bmm_flop((b * h, s_q, s_k), (b * h, s_k, d_v))


@register_flop_formula(aten._scaled_dot_product_flash_attention_for_cpu)
def sdpa_flop(
    query_shape: Sequence, key_shape: Sequence, value_shape: Sequence, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """See :func:`sdpa_flop_count`."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop_count(
    grad_out_shape: Sequence, query_shape: Sequence, key_shape: Sequence, value_shape: Sequence
) -> int:
    """Operations of attention's backward, which computes the scores again: five products."""
    b, h, s_q, d_q = query_shape
    s_k, d_v = key_shape[-2], value_shape[-1]
    by_query = bmm_flop((b * h, s_q, d_q), (b * h, d_q, s_k))
    by_value = bmm_flop((b * h, s_q, d_v), (b * h, d_v, s_k))
    return 3 * by_query + 2 * by_value


@register_flop_formula(aten._scaled_dot_product_flash_attention_for_cpu_backward)
def sdpa_backward_flop(
    grad_out_shape: Sequence, query_shape: Sequence, key_shape: Sequence, value_shape: Sequence, *args: Any,
    out_shape: Any = None, **kwargs: Any,
) -> int:  # fmt: skip
    """See :func:`sdpa_backward_flop_count`."""
    return sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape)


_SUFFIXES = ["", "K", "M", "B", "T"]


def _rounded(number: int, unit: str) -> str:
    return f"{number / 1000 ** _SUFFIXES.index(unit):.3f}{unit}"


def _unit(number: int) -> str:
    """The suffix of a number of operations: thousands, millions..."""
    return _SUFFIXES[max(0, min(len(_SUFFIXES) - 1, (len(str(number)) - 2) // 3))]


class FlopCounterMode(TorchDispatchMode):
    """A mode that counts the floating point operations of products, convolutions and attention, by module.

    Args:
        mods: not needed; accepted for compatibility. depth: how many levels of modules the table shows.
        display: print the table at the end. custom_mapping: {packet: formula} beside the registered ones.

    >>> import torchlike as torch
    >>> model = torch.nn.Linear(4, 2)
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = model(torch.ones(3, 4))
    >>> counter.get_total_flops()
    48
    >>> counter.get_flop_counts()["Linear"]
    {<OpOverloadPacket(op='aten.addmm')>: 48}
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ) -> None:
        super().__init__()
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", UserWarning, stacklevel=2)
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        own = {k: f if getattr(f, "_get_raw", False) else _of_shapes(f) for k, f in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **own}
        self.mod_tracker = ModuleTracker()

    def get_total_flops(self) -> int:
        """All operations."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """{module: {packet: operations}}; ``Global`` is everything."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text: a row for each module down to ``depth``, and under it one for each operator."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        unit, rows = _unit(total), []
        for name in sorted(self.flop_counts, key=lambda n: (n != "Global", n)):
            level = 0 if name == "Global" else name.count(".") + 1
            counts = self.flop_counts[name]
            if level > depth or not counts:
                continue
            sums = [(" " * level + name, sum(counts.values()))]
            sums += [(" " * level + f" - {op}", n) for op, n in counts.items()]
            rows += [(label, _rounded(n, unit), f"{n / (total or 1):.2%}") for label, n in sums]
        return _table(("Module", "FLOP", "% Total"), rows or [("Global", "0", "0%")])

    def __enter__(self) -> "FlopCounterMode":
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = func.overloadpacket
        formula = self.flop_registry.get(packet)
        if formula is not None:
            n = formula(*args, **(kwargs or {}), out_val=out)
            for parent in set(self.mod_tracker.parents):
                self.flop_counts[parent][packet] += n
        return out


def _table(head: tuple, rows: list[tuple]) -> str:
    """Columns of text: the first to the left, the others to the right."""
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]

    def line(row: tuple) -> str:
        cells = [
            str(c).ljust(w) if not i else str(c).rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([line(head), "  ".join("-" * w for w in widths), *map(line, rows)])


__all__ = ["FlopCounterMode", "register_flop_formula"]
