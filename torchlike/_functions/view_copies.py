"""The ``*_copy`` functions: what a view reads, in a storage of its own."""

from functools import partial

import torchlike._functions.shape
import torchlike._functions.sparse  # noqa: F401  (the views and parts that are copied)
from torchlike._core.dispatch.observers import whole
from torchlike._core.dispatch.out import put_exactly
from torchlike._core.tensor.tensor import Tensor, contiguous_format
from torchlike._functions._install import FUNCTIONS, both, function

_SINGLE = """as_strided diagonal expand permute select squeeze t transpose unfold unsqueeze view view_as_complex
view_as_real crow_indices col_indices ccol_indices row_indices""".split()
_OF_SIZES = ("expand", "permute", "view")  # as methods they take the sizes one by one, too
_SEVERAL = ("split", "split_with_sizes", "unbind")


def _copied(cut, input, *args, **kwargs):
    return cut(input, *args, **kwargs).clone(memory_format=contiguous_format)


def _copies(cut, input, *args, **kwargs):
    return tuple([v.clone(memory_format=contiguous_format) for v in cut(input, *args, **kwargs)])


def _written(name, cut, out, input, *args, **kwargs):
    """A copy of ``cut(input, ...)``, in ``out`` if that is given."""
    if out is None:
        return whole(name, partial(_copied, cut), input, *args, **kwargs)
    put_exactly(name, cut(input, *args, **kwargs), out)
    return out


def _single(name):
    cut = FUNCTIONS.get(name) or getattr(Tensor, name)

    def copy(input, *args, out=None, **kwargs):
        if name in _OF_SIZES and args and (len(args) > 1 or isinstance(args[0], int | Tensor)):
            given = ", ".join(type(a).__name__ for a in args)
            raise TypeError(f"{name}_copy() takes the sizes as one tuple of ints, but got ({given})")
        return _written(f"{name}_copy", cut, out, input, *args, **kwargs)

    return copy


def _several(name):
    cut = FUNCTIONS[name]

    def copy(input, *args, out=None, **kwargs):
        if out is None:
            return whole(f"{name}_copy", partial(_copies, cut), input, *args, **kwargs)
        views = cut(input, *args, **kwargs)
        if len(out) != len(views):
            raise RuntimeError(f"{name}_copy() expected an out= argument of size {len(views)}, got size {len(out)}")
        for v, o in zip(views, out, strict=True):
            put_exactly(f"{name}_copy", v, o)
        return tuple(out)

    return copy


def _register(name, copy):
    copy.__name__ = copy.__qualname__ = f"{name}_copy"
    copy.__doc__ = f"""As ``{name}``, with a copy for each view."""
    function(copy.__name__)(copy)


for _name in _SINGLE:
    _register(_name, _single(_name))
for _name in _SEVERAL:
    _register(_name, _several(_name))


def _same(input):
    return input


def _slice(input, dim, start, end, step):
    return input[(slice(None),) * (dim % max(input.ndim, 1)) + (slice(start, end, step),)]


@function("alias_copy", "detach_copy")
def alias_copy(input, *, out=None):
    """A copy of the tensor, recorded by autograd."""
    return _written("alias_copy", _same, out, input)


@function()
def slice_copy(input, dim=0, start=None, end=None, step=1, *, out=None):
    """A copy of every ``step``-th index of one dimension from ``start`` to ``end``."""
    return _written("slice_copy", _slice, out, input, dim, start, end, step)


@both()
def narrow_copy(input, dim, start, length, *, out=None):
    """A copy of ``length`` indices of one dimension from ``start``."""
    return _written("narrow_copy", Tensor.narrow, out, input, dim, start, length)
