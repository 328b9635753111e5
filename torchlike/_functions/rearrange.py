"""Joining, repeating, filling and rearranging under their public names."""

import functools
import itertools

import jax
import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base import dims
from torchlike._base.frames import warn
from torchlike._base.layout import contiguous_strides, has_overlap, preserve_strides
from torchlike._base.once import discarding
from torchlike._base.state import state
from torchlike._core.conversion.convert import host, place
from torchlike._core.conversion.device_moves import move
from torchlike._core.conversion.indexing import assign
from torchlike._core.conversion.numbers import demand_held, filling, fitting, number_of
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.dispatch.observers import as_calls, redispatch, watched
from torchlike._core.dispatch.out import call_out
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import bools
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import COMPRESSED, Tensor, fresh, value_of
from torchlike._executor.level import mapped, one_by_one
from torchlike._executor.sparse import LAYER
from torchlike._functions._install import both, function, method, spread
from torchlike._ops import _composed_functions, join
from torchlike._ops import pad as pads
from torchlike._ops import shape as ops


def _joined(op, tensors, dim, out):
    name = op.name
    if tensors.__class__ is not tuple:
        tensors = arguments.as_tensors(name, "tensors", tensors)
    if not tensors and op is join.cat:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    if dim.__class__ is not int:
        dim = arguments.as_int(name, "dim", dim)
    if out is not None:
        return call_out(op, tensors, (dim, (len(tensors),)), out)
    try:
        return call(op, tensors, (dim, (len(tensors),)))
    except AttributeError:
        arguments.as_tensors(name, "tensors", tensors)  # says which is no tensor; a tuple is not looked at before
        raise


def _cat(name):
    def cat(tensors, dim=0, *, out=None):
        return _joined(join.cat, tensors, dim, out)

    cat.__doc__ = """Tensors joined along an existing dimension.

    Shapes must agree in every other dimension; the dtype is the promoted one. RuntimeError otherwise.

    >>> import torchlike as torch
    >>> torch.cat([torch.ones(2), torch.zeros(1)])
    tensor([1., 1., 0.])
    """
    cat.__name__ = cat.__qualname__ = name
    return cat


for _name in ("cat", "concat", "concatenate"):
    function(_name)(_cat(_name))


@function()
def stack(tensors, dim=0, *, out=None):
    """Tensors of one shape joined along a new dimension.

    >>> import torchlike as torch
    >>> torch.stack([torch.zeros(2), torch.ones(2)])
    tensor([[0., 0.],
            [1., 1.]])
    """
    return _joined(join.stack, tensors, dim, out)


def source_of(self, src):
    """What ``copy_`` copies: ``src`` on the device of ``self``, a number as a tensor."""
    if isinstance(src, bool | int | float | complex | np.generic):
        return fresh(place(np.array(fitting(self.dtype, src), self.dtype.np), self.device))
    if not isinstance(src, Tensor):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}")
    if src.device != self.device:
        src = move(src, self.device)
    if src.dtype is not self.dtype and src.dtype.is_complex:
        discarding(self.dtype)
    own, given = tuple(self.shape), tuple(src.shape)
    if own != given and LAYER.used and (self.layout in COMPRESSED or src.layout in COMPRESSED):
        return src  # their rule says what must agree
    if own != given and (shape := dims.broadcast_shapes(own, given)) != own:
        raise RuntimeError(f"output with shape {list(own)} doesn't match the broadcast shape {list(shape)} (copy_)")
    return src


@method()
def copy_(self, src, non_blocking=False):
    """Take the values of ``src``, broadcast, cast and moved; recorded by autograd."""
    if non_blocking.__class__ is not bool:
        bools("copy_", non_blocking=non_blocking)
    return call_inplace(ops.copy.inplace, (self, source_of(self, src)), (False,))


def _fill(run, self, value, number, tensor):
    if isinstance(value, bool | int | float | complex | np.generic):
        return run(number, (self, filling(self.dtype, value, self.shape)), ())
    if not isinstance(value, Tensor):
        if (known := arguments.known_number(value)) is not value:
            return run(number, (self, known), ())
        raise TypeError(
            f"fill_(): argument 'value' must be a Number or a Tensor of no dimensions, not {type(value).__name__}"
        )
    if value.device != self.device and not value.ndim:
        value = move(value, self.device)
    return run(tensor, (self, value), ())


@method()
def fill_(self, value):
    """Every element replaced by a number or by a tensor of no dimensions."""
    if self._view is not None and has_overlap(self._view.layout):
        if not (isinstance(value, Tensor) or (state.grad and self.requires_grad)):
            assign(self, value, shared=True)  # the elements that share a place all get the one value
            return self
    return _fill(call_inplace, self, value, ops.fill_number.inplace, ops.fill_tensor.inplace)


@function("fill")
def fill(input, value):
    """A tensor like ``input`` with every element a number or a tensor of no dimensions."""
    return _fill(call, input, value, ops.fill_number, ops.fill_tensor)


@function("fill_")
def fill_function(input, value):
    """Every element replaced, in place."""
    return input.fill_(value)


_zero = Tensor.zero_


@both("zero_")
def zero_(input):
    """Every element replaced by zero."""
    if input._view is not None and has_overlap(input._view.layout):
        return fill_(input, 0)
    return _zero(input)


# -- joining -------------------------------------------------------------------------------------


def _sequence(name, tensors):
    """A non-empty list of tensors."""
    tensors = arguments.as_tensors(name, "tensors", tensors)
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


@function()
def hstack(tensors, *, out=None):
    """Tensors side by side: joined along dimension 1, vectors along 0."""
    tensors = tuple(atleast_1d(t) for t in _sequence("hstack", tensors))
    return _joined(join.cat, tensors, 0 if tensors[0].ndim == 1 else 1, out)


@function("vstack", "row_stack")
def vstack(tensors, *, out=None):
    """Tensors on top of each other: joined along dimension 0, vectors as rows."""
    return _joined(join.cat, tuple(atleast_2d(t) for t in _sequence("vstack", tensors)), 0, out)


@function()
def dstack(tensors, *, out=None):
    """Tensors behind each other: joined along dimension 2."""
    return _joined(join.cat, tuple(atleast_3d(t) for t in _sequence("dstack", tensors)), 2, out)


@function()
def column_stack(tensors, *, out=None):
    """Matrices side by side; vectors are columns."""
    columns = [t if t.ndim > 1 else Tensor.reshape(t, -1, 1) for t in _sequence("column_stack", tensors)]
    return _joined(join.cat, tuple(columns), 1, out)


@function()
def block_diag(*tensors):
    """Matrices along the diagonal of a larger one, zeros elsewhere; vectors are rows.

    >>> import torchlike as torch
    >>> torch.block_diag(torch.tensor([1]), torch.tensor([[2, 3]]))
    tensor([[1, 0, 0],
            [0, 2, 3]])
    """
    tensors = arguments.as_tensors("block_diag", "tensors", tensors)
    return (
        call(join.block_diag, tensors, ((len(tensors),),))
        if tensors
        else fresh(place(np.zeros((1, 0), np.float32), None))
    )


# -- broadcasting --------------------------------------------------------------------------------


@function()
@spread()
def broadcast_to(input, size):
    """``input`` expanded to ``size``; a view."""
    return Tensor.expand(input, arguments.as_ints("broadcast_to", "size", size))


@function()
def broadcast_tensors(*tensors):
    """The tensors expanded to their common shape: a tuple of views, and of those themselves that have it."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    shape = dims.broadcast_shapes(*(tuple(t.shape) for t in tensors))
    return tuple(t if tuple(t.shape) == shape else Tensor.expand(t, shape) for t in tensors)


@function()
def broadcast_shapes(*shapes):
    """The common shape of operands of these shapes.

    >>> import torchlike as torch
    >>> torch.broadcast_shapes((3, 1), (4,))
    torch.Size([3, 4])
    """
    wanted = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    if any(n < 0 for s in wanted for n in s):
        raise ValueError("Attempting to broadcast a dimension with negative length!")
    return Size(dims.broadcast_shapes(*wanted))


def _atleast(name, one):
    def several(*tensors):
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return one(tensors[0])
        if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
            tensors = tensors[0]
        return tuple(one(t) for t in arguments.as_tensors(name, "tensors", tuple(tensors)))

    several.__name__ = several.__qualname__ = name
    several.__doc__ = f"""Each tensor with at least {name[8]} dimension(s), by new ones of size 1; views."""
    return function(name)(several)


atleast_1d = _atleast("atleast_1d", lambda t: t if t.ndim else Tensor.reshape(t, 1))
atleast_2d = _atleast(
    "atleast_2d", lambda t: t if t.ndim > 1 else Tensor.unsqueeze(t, 0) if t.ndim else Tensor.reshape(t, 1, 1)
)
atleast_3d = _atleast(
    "atleast_3d",
    lambda t: (
        t
        if t.ndim > 2
        else Tensor.unsqueeze(t, -1)
        if t.ndim == 2
        else t[None, :, None]
        if t.ndim
        else Tensor.reshape(t, 1, 1, 1)
    ),
)


@function()
def meshgrid(*tensors, indexing=None):
    """Coordinates of a grid: each vector expanded over the dimensions of all of them; a tuple of views.

    With ``indexing="xy"`` the first two dimensions are exchanged.
    """
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    if indexing is None:
        warn("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
        indexing = "ij"
    if arguments.as_str("meshgrid", "indexing", indexing) not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    _check_grid(tensors)
    swap = indexing == "xy" and len(tensors) > 1
    if swap:
        tensors = (tensors[1], tensors[0], *tensors[2:])
    n = len(tensors)
    shape = tuple(Tensor.numel(t) for t in tensors)
    grids = [Tensor.view(t, (1,) * i + (-1,) + (1,) * (n - 1 - i)).expand(shape) for i, t in enumerate(tensors)]
    if swap:
        grids = (grids[1], grids[0], *grids[2:])
    return tuple(grids)


def _check_grid(tensors):
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(f"meshgrid(): expected Tensor as element {i} in argument 0, but got {type(t).__name__}")
        if t.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got a tensor of shape {list(t.shape)}"
            )
        for what in ("device", "dtype"):
            mine, first = getattr(t, what), getattr(tensors[0], what)
            if mine != first:
                raise RuntimeError(f"meshgrid expects all tensors to have the same {what}, but got {first} and {mine}")


def _demand_vector(t):
    if t.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")


@function()
def cartesian_prod(*tensors):
    """Every way of taking one element of each vector, a row for each."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    for t in tensors:
        _demand_vector(t)
    if len(tensors) == 1:
        return tensors[0]
    return _products(*tensors)


@as_calls(_composed_functions.cartesian_prod)
def _products(*tensors):
    return stack([g.flatten() for g in meshgrid(*tensors, indexing="ij")], 1)


@function()
def combinations(input, r=2, with_replacement=False):
    """Every choice of ``r`` elements of a vector, in order, a row for each.

    >>> import torchlike as torch
    >>> torch.combinations(torch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    bools("combinations", with_replacement=with_replacement)
    _demand_vector(input)
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty(0)
    return _combined(input, r, with_replacement)


@as_calls(_composed_functions.combinations)
def _combined(input, r, with_replacement):
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(np.arange(input.shape[0]), r)), np.int64).reshape(-1, r)
    if not input.shape[0]:
        return input[:, None].expand(0, r).clone()
    return call(join.gathered, (input, fresh(place(rows, input.device))), (0,))


# -- turning and repeating -----------------------------------------------------------------------


@both()
def fliplr(input):
    """The columns in reverse order."""
    if input.ndim < 2:
        raise RuntimeError(f"Input must be >= 2-d. (fliplr got {input.ndim} dimensions)")
    return call(join.flip, (input,), ((1,),))


@both()
def flipud(input):
    """The rows in reverse order."""
    if input.ndim < 1:
        raise RuntimeError(f"Input must be >= 1-d. (flipud got {input.ndim} dimensions)")
    return call(join.flip, (input,), ((0,),))


@both()
def rot90(input, k=1, dims=(0, 1)):
    """``input`` turned by ``k`` right angles in the plane of two dimensions, from the first towards the second.

    >>> import torchlike as torch
    >>> torch.rot90(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    k, order = arguments.as_int("rot90", "k", k), arguments.as_ints("rot90", "dims", dims)
    out = call(join.rot90, (input,), (k, order))
    if k % 2:
        a, b = order[0] % input.ndim, order[1] % input.ndim
        strides = list(preserve_strides(input._layout))
        strides[a], strides[b] = strides[b], strides[a]
        if tuple(strides) != contiguous_strides(tuple(out.shape)):
            restride(out, tuple(strides))
    return out


def _repeat_index(repeats, output_size):
    """A vector with each index as often as ``repeats`` says."""
    if repeats.ndim > 1:
        raise RuntimeError(f"repeats must be 0-dim or 1-dim tensor (got {repeats.ndim} dimensions)")
    if repeats.dtype not in (dtypes.int64, dtypes.int32):
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{repeats.dtype.scalar_name}'")
    if watched(repeats):
        return redispatch("repeat_interleave.Tensor", repeats, output_size=output_size)
    if mapped(repeats):
        return one_by_one(functools.partial(_repeat_index, output_size=output_size), repeats)
    unknown = isinstance(value_of(repeats), jax.core.Tracer)
    if unknown or (repeats.is_meta and output_size is not None):
        if output_size is None:
            raise RuntimeError(
                "repeat_interleave() with a tensor of counts needs output_size while jax traces the code"
            )
        return call(join.repeat_index, (repeats,), (output_size,))
    counts = host(repeats)
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and counts.sum() != output_size:
        raise RuntimeError(
            f"allocated size does not match required size: output_size is {output_size}, not {counts.sum()}"
        )
    return fresh(place(np.repeat(np.arange(len(counts)), counts), repeats.device))


@both()
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Each element (or slice along ``dim``) repeated, next to itself; ``repeats`` is a number or a count for each.

    >>> import torchlike as torch
    >>> torch.repeat_interleave(torch.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    input = arguments.as_tensor_arg("repeat_interleave", "input", input)
    if output_size is not None:
        output_size = arguments.as_int("repeat_interleave", "output_size", output_size)
    if repeats is None:
        return _repeat_index(input, output_size)
    if not isinstance(repeats, Tensor):
        repeats = arguments.as_int("repeat_interleave", "repeats", repeats)
        repeated = call(join.repeat_interleave, (input,), (repeats, dim))
        if output_size not in (None, n := repeated.shape[0 if dim is None else dim]):
            raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {n} but got {output_size}")
        return repeated
    if dim is None:
        input, dim = input if input.ndim == 1 else Tensor.reshape(input, -1), 0
    dim = dims.wrap_dim(dim, input.ndim)
    n = input.shape[dim]
    if repeats.ndim == 0 or (repeats.ndim == 1 and repeats.shape[0] == 1):
        repeats = Tensor.reshape(repeats, 1).expand(n)
    if repeats.ndim == 1 and repeats.shape[0] != n:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.shape[0]} and "
            f"input.size({dim}) = {n}"
        )
    return call(join.gathered, (input, _repeat_index(repeats, output_size)), (dim,))


# -- padding -------------------------------------------------------------------------------------


def pad(input, pad, mode="constant", value=None):
    """``input`` with a border: ``pad`` lists (before, after) sizes from the last dimension on; negative sizes cut.

    Args:
        mode: "constant" (of ``value``), "reflect", "replicate" or "circular"; all but the first need an
            input of one or two dimensions more than are padded.

    >>> import torchlike as torch
    >>> torch.nn.functional.pad(torch.tensor([1, 2]), (1, 2))
    tensor([0, 1, 2, 0, 0])
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"pad(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    sizes = arguments.as_ints("pad", "pad", pad)
    if len(sizes) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2 (got {len(sizes)})")
    if mode == "constant":
        if isinstance(value, complex):
            raise TypeError("pad(): argument 'value' (position 4) must be float, not complex")
        number = arguments.as_runtime_number if input.dtype.is_floating_point else arguments.as_number
        value = None if value is None else number("pad", "value", value)
        if not input.dtype.is_floating_point and value:
            if value < 0 and input.dtype.np.kind == "u":
                raise RuntimeError(f"value cannot be converted to type {input.dtype.name} without overflow: {value}")
        demand_held(pads.constant_pad_nd, (input, value))
        return call(pads.constant_pad_nd, (input, value), (sizes,))
    if value is not None and value != 0 and isinstance(mode, str):
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode == "circular":
        return call(pads.circular, (input,), (sizes,))
    chosen = {"reflect": pads.REFLECT, "replicate": pads.REPLICATE}.get(arguments.as_str("pad", "mode", mode))
    if chosen is None:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    return call(chosen.get(len(sizes) // 2, chosen[1]), (input,), (sizes,))


@method()
def fill_diagonal_(self, fill_value, wrap=False):
    """The main diagonal replaced by a number; ``wrap`` starts it again after each full one in a tall matrix."""
    bools("fill_diagonal_", wrap=wrap)
    if self.ndim < 2:
        raise RuntimeError(f"dimensions must larger than 1 (fill_diagonal_ got {self.ndim})")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError(f"all dimensions of input must be of equal length (fill_diagonal_ got {list(self.shape)})")
    fill_value = fitting(self.dtype, number_of("fill_diagonal_", "fill_value", fill_value))
    rows, columns = self.shape[0], self.shape[1]
    if wrap and self.ndim == 2 and rows > columns > 0:
        place_ = np.arange(0, rows * columns, columns + 1)
        self[place_ // columns, place_ % columns] = fill_value
    else:
        self[(np.arange(min(self.shape)),) * self.ndim] = fill_value
    return self


# -- numpy's names for splitting -----------------------------------------------------------------


def _splitter(name):
    def splits(input, indices_or_sections):
        dim = dims.numpy_split_dim(name, input.ndim)
        if isinstance(indices_or_sections, int):
            dims.check_even_split(name, input.shape[dim], dim, indices_or_sections)
        return Tensor.tensor_split(input, indices_or_sections, dim)

    splits.__name__ = splits.__qualname__ = name
    where = {"hsplit": "columns (of a vector: along it)", "vsplit": "rows", "dsplit": "the third dimension"}[name]
    splits.__doc__ = f"""Slices of {where}: that many equal ones, or between the given indices; a tuple of views."""
    return function(name)(spread(name, one=False)(splits))


hsplit, vsplit, dsplit = map(_splitter, ("hsplit", "vsplit", "dsplit"))


@function()
def isin(elements, test_elements, *, assume_unique=False, invert=False, out=None):
    """Whether each element is among ``test_elements`` (either may be a number).

    >>> import torchlike as torch
    >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([3, 1]))
    tensor([ True, False,  True])
    """
    bools("isin", assume_unique=assume_unique, invert=invert)
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin(): one of elements and test_elements must be a Tensor, the other may be a Number")
    for x in (elements, test_elements):
        if isinstance(x, Tensor) and (x.dtype is dtypes.bool or x.dtype.is_complex):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {x.dtype.scalar_name}")
        if isinstance(x, bool | complex):
            name = "Bool" if isinstance(x, bool) else "ComplexDouble"
            raise RuntimeError(f"Unsupported input type encountered for isin(): {name}")
    inputs = (elements, test_elements)
    return call(join.isin, inputs, (invert,)) if out is None else call_out(join.isin, inputs, (invert,), out)
