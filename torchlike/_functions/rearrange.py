"""Joining, repeating, filling and rearranging under their public names."""

import numpy as np

import torchlike._base.device as devices
from torchlike._core import arguments
from torchlike._core.convert import place
from torchlike._core.dispatch import call
from torchlike._core.inplace import call_inplace
from torchlike._core.moving import move
from torchlike._core.numbers import fitting
from torchlike._core.out import call_out
from torchlike._core.tensor import Tensor, wrap
from torchlike._functions._install import both, function, method
from torchlike._ops import join
from torchlike._ops import shape as ops


def _joined(op, tensors, dim, out):
    name = op.name
    if tensors.__class__ is not tuple:
        tensors = arguments.as_tensors(name, "tensors", tensors)
    if dim.__class__ is not int:
        dim = arguments.as_int(name, "dim", dim)
    if out is not None:
        return call_out(op, tensors, (dim, (len(tensors),)), out)
    return call(op, tensors, (dim, (len(tensors),)))


def _cat(name):
    def cat(tensors, dim=0, *, out=None, axis=None):
        return _joined(join.cat, tensors, dim if axis is None else axis, out)

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


@method()
def copy_(self, src, non_blocking=False):
    """Take the values of ``src``, broadcast, cast and moved; recorded by autograd."""
    if isinstance(src, Tensor):
        if src.device != self.device:
            src = move(src, self.device)
    elif isinstance(src, bool | int | float | complex | np.generic):
        src = wrap(place(np.array(fitting(self.dtype, src), self.dtype.np), self.device))
    else:
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}")
    return call_inplace(ops.copy.inplace, (self, src), (False,))


def _fill(run, self, value, number, tensor):
    if isinstance(value, bool | int | float | complex | np.generic):
        return run(number, (self, fitting(self.dtype, value)), ())
    if not isinstance(value, Tensor):
        raise TypeError(f"fill_(): argument 'value' must be a Number or a Tensor of no dimensions, not {type(value).__name__}")
    if value.device != self.device and not value.ndim:
        value = move(value, self.device)
    return run(tensor, (self, value), ())


@method()
def fill_(self, value):
    """Every element replaced by a number or by a tensor of no dimensions."""
    return _fill(call_inplace, self, value, ops.fill_number.inplace, ops.fill_tensor.inplace)


@function("fill")
def fill(input, value):
    """A tensor like ``input`` with every element a number or a tensor of no dimensions."""
    return _fill(call, input, value, ops.fill_number, ops.fill_tensor)


@function("fill_")
def fill_function(input, value):
    """Every element replaced, in place."""
    return input.fill_(value)


function("zero_")(Tensor.zero_)
__all__ = ["both", "devices"]
