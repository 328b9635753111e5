"""What a base is once a view of it has other values: the inverse of each aten view."""

from collections.abc import Callable
from typing import Any

from torchlike._aten.packets import ops
from torchlike._core.tensor.tensor import Tensor

aten = ops.aten


class Views:
    """The calls of views: as they are, or of their copies, which alias nothing."""

    def __init__(self, copies: bool) -> None:
        self.copies = copies

    def call(self, func: Any, *args: Any) -> Any:
        """A view, or its copy."""
        return self.overload(func)(*args)

    def overload(self, func: Any) -> Any:
        """The overload that is called in place of a view."""
        name = func.overloadpacket.__name__
        return getattr(getattr(aten, f"{name}_copy"), func._overloadname) if self.copies else func

    def base_of(self, func: Any, args: tuple, item: int | None, base: Tensor, new: Tensor) -> Tensor:
        """``base`` where ``func(base, *args)`` (its ``item``, of several) has the values of ``new``.

        Raises NotImplementedError for a view without an inverse.
        """
        inverse = _INVERSES.get(str(func).removeprefix("aten."))
        if inverse is None:
            raise NotImplementedError(
                f"functionalize: a result of {func} is changed in place, and no operator puts it back into what it is "
                "a view of; change a clone"
            )
        return inverse(self, base, new, item, *args)


def _view(v: Views, base: Tensor, new: Tensor, item: Any, *size: Any) -> Tensor:
    return v.call(aten.view.default, new, list(base.shape))


def _squeezed(v: Views, base: Tensor, new: Tensor, item: Any, dims: Any = None) -> Tensor:
    given = range(base.dim()) if dims is None else [dims] if isinstance(dims, int) else dims
    for dim in sorted(d % base.dim() for d in given if base.dim()):
        if base.shape[dim] == 1:
            new = v.call(aten.unsqueeze.default, new, dim)
    return new


def _permuted(v: Views, base: Tensor, new: Tensor, item: Any, dims: list) -> Tensor:
    order = [d % base.dim() for d in dims]
    return v.call(aten.permute.default, new, [order.index(i) for i in range(base.dim())])


def _split(v: Views, base: Tensor, new: Tensor, item: int, size: Any, dim: int = 0) -> Tensor:
    start = item * size if isinstance(size, int) else sum(size[:item])
    return aten.slice_scatter.default(base, new, dim, start, start + new.shape[dim])


def _expanded(v: Views, base: Tensor, new: Tensor, item: Any, size: Any, implicit: bool = False) -> Tensor:
    added = new.dim() - base.dim()
    dims = [i for i, n in enumerate(new.shape) if i < added or base.shape[i - added] != n]
    if not dims:
        return v.call(aten.view.default, new, list(base.shape))
    change = aten.sum.dim_IntList(aten.sub.Tensor(new, base), dims, True)
    return aten.add.Tensor(base, v.call(aten.view.default, change, list(base.shape)))


_INVERSES: dict[str, Callable] = {
    "view.default": _view, "_reshape_alias.default": _view, "reshape.default": _view, "flatten.using_ints": _view,
    "alias.default": lambda v, base, new, item: new, "detach.default": lambda v, base, new, item: new,
    "t.default": lambda v, base, new, item: v.call(aten.t.default, new),
    "transpose.int": lambda v, base, new, item, a, b: v.call(aten.transpose.int, new, a, b),
    "permute.default": _permuted,
    "squeeze.default": _squeezed, "squeeze.dim": _squeezed, "squeeze.dims": _squeezed,
    "unsqueeze.default": lambda v, base, new, item, dim: v.call(aten.squeeze.dim, new, dim),
    "expand.default": _expanded,
    "select.int": lambda v, base, new, item, *at: aten.select_scatter.default(base, new, *at),
    "slice.Tensor": lambda v, base, new, item, *at: aten.slice_scatter.default(base, new, *at),
    "diagonal.default": lambda v, base, new, item, *at: aten.diagonal_scatter.default(base, new, *at),
    "as_strided.default": lambda v, base, new, item, *at: aten.as_strided_scatter.default(base, new, *at),
    "split.Tensor": _split, "split_with_sizes.default": _split,
    "unbind.int": lambda v, base, new, item, dim=0: aten.select_scatter.default(base, new, dim, item),
    "view_as_real.default": lambda v, base, new, item: v.call(aten.view_as_complex.default, new),
    "view_as_complex.default": lambda v, base, new, item: v.call(aten.view_as_real.default, new),
    "_conj.default": lambda v, base, new, item: v.call(aten._conj.default, new),
    "_neg_view.default": lambda v, base, new, item: v.call(aten._neg_view.default, new),
    "view.dtype": lambda v, base, new, item, dtype: v.call(aten.view.dtype, new, base.dtype),
}  # fmt: skip
