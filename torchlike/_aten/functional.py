"""Overloads that functional graphs are made of: copies in place of views, views put back, draws that change nothing."""

import re
from collections.abc import Callable
from typing import Any

from torchlike._aten.extra import _RANDOM, _SEEDED, _add, _function, _method
from torchlike._aten.packets import ops
from torchlike._core.tensor.tensor import contiguous_format as _contiguous

VIEWS = (
    "_conj", "_neg_view", "alias", "as_strided", "detach", "diagonal", "expand", "permute", "select.int",
    "slice.Tensor", "split.Tensor", "split_with_sizes", "squeeze", "squeeze.dim", "squeeze.dims", "t", "transpose.int",
    "unbind.int", "unfold", "unsqueeze", "view", "view.dtype", "view_as_complex", "view_as_real",
)  # fmt: skip


def _copying(view: Any) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        made = view._op(*args, **kwargs)
        if isinstance(made, list | tuple):
            return [m.clone(memory_format=_contiguous) for m in made]
        return made.clone(memory_format=_contiguous)

    return call


def _drawing(name: str) -> Callable:
    draw = _method(name)
    return lambda self, *args, **kwargs: draw(self.clone(), *args, **kwargs)


def _resized(self: Any, size: Any, memory_format: Any = None) -> Any:
    return (
        self.clone().resize_(size) if memory_format is None else self.clone().resize_(size, memory_format=memory_format)
    )


for _name in VIEWS:
    _packet, _, _overload = _name.partition(".")
    _view = getattr(getattr(ops.aten, _packet), _overload or "default")
    _text = re.sub(r"\(\w+( -> \*)?\)(?= self)|(?<=Tensor)\(\w+\)", "", str(_view._schema).removeprefix("aten::"))
    _add(_text.replace(_packet, f"{_packet}_copy", 1), _copying(_view))
for _text in (
    "select_scatter(Tensor self, Tensor src, int dim, SymInt index)",
    "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)",
    "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1)",
    "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None)",
):
    _add(_text + " -> Tensor", _function(_text[: _text.index("(")]))
for _text in (
    "uniform(Tensor self, float from=0., float to=1., @)",
    "normal_functional(Tensor self, float mean=0., float std=1., @)",
    "log_normal(Tensor self, float mean=1., float std=2., @)", "exponential(Tensor self, float lambd=1., @)",
    "cauchy(Tensor self, float median=0., float sigma=1., @)", "geometric(Tensor self, float p, @)",
    "random(Tensor self, @)", "random.to(Tensor self, int to, @)", "random.from(Tensor self, int from, int? to, @)",
):  # fmt: skip
    _stem = re.split(r"[.(]", _text)[0].removesuffix("_functional")
    _add(_text.replace("@", _RANDOM) + " -> Tensor", _drawing(_stem + "_"), _SEEDED)
