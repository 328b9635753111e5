"""Methods that change the geometry of the tensor itself, and leave its storage."""

import numpy as np

from torchlike._base.layout import Layout, contiguous_strides, numel
from torchlike._base.state import state
from torchlike._core.convert import place
from torchlike._core.dispatch import call
from torchlike._core.factories import checked_size
from torchlike._core.inplace import demand_writable
from torchlike._core.storage import UNTRACKED
from torchlike._core.tensor import Tensor, bump, fresh, version_at
from torchlike._core.viewing import call_view
from torchlike._functions._install import function, method
from torchlike._ops import pad as pads
from torchlike._ops import view as views

# -- views in place ------------------------------------------------------------------------------


def _become(t, name, op, args):
    """Give ``t`` the geometry and history of its view by ``op``."""
    demand_writable(t)
    if state.grad and t._rg and t._edge is None:
        raise RuntimeError(f"a leaf Variable that requires grad is being used in an in-place operation. ({name})")
    new = call_view(op, (t,), args)
    t._view, t._cache = new._view, None
    if new._edge is not None:
        t._edge, t._rg = new._edge, True
    bump(t)
    if t._diff is not None:
        t._diff.version = t._vc.version
    return t


@method()
def unsqueeze_(self, dim):
    """In-place ``unsqueeze``."""
    return _become(self, "unsqueeze_", views.unsqueeze, (dim,))


@method()
def squeeze_(self, dim=None):
    """In-place ``squeeze``."""
    if dim is None:
        return _become(self, "squeeze_", views.squeeze, ())
    if isinstance(dim, int):
        return _become(self, "squeeze_", views.squeeze_dim, (dim,))
    return _become(self, "squeeze_", views.squeeze_dims, (tuple(dim),))


@method()
def t_(self):
    """In-place ``t``."""
    return _become(self, "t_", views.t, ())


@method("transpose_", "swapaxes_", "swapdims_")
def transpose_(self, dim0, dim1):
    """In-place ``transpose``."""
    return _become(self, "transpose_", views.transpose, (dim0, dim1))


@method()
def as_strided_(self, size, stride, storage_offset=None):
    """In-place ``as_strided``."""
    return _become(self, "as_strided_", views.as_strided, (tuple(size), tuple(stride), storage_offset))


function("as_strided_")(as_strided_)

# -- storage -------------------------------------------------------------------------------------


@method()
def resize_(self, *size, memory_format=None):
    """This tensor with another size over the same storage, which grows (by zeros) where it must.

    Growing gives the tensor a storage of its own; other tensors over the old one keep it.
    """
    shape = checked_size("resize_", size[0] if len(size) == 1 and isinstance(size[0], list | tuple) else size)
    demand_writable(self)
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if shape == tuple(self.shape):
        return self
    bump(self)
    offset, count = self._layout.offset, numel(shape)
    if offset + count > numel(self._storage.value.shape):
        _grow(self, offset + count)
    storage = self._storage
    if storage.value.shape == shape and storage.strides is None:
        self._view = None
    else:
        layout = Layout(shape, contiguous_strides(shape), offset)
        self._view = call_view(views.as_strided, (self.detach(),), layout)._view
    self._cache = None
    return self


def _grow(t, count):
    size = numel(t._storage.value.shape)
    flat = call_view(views.as_strided, (t.detach(),), ((size,), (1,), 0))
    t._storage = t._vc = call(pads.constant_pad_nd, (flat, None), ((0, count - size),))._storage
    t._view = t._cache = None


@method()
def resize_as_(self, other, memory_format=None):
    """``resize_`` to the size of another tensor."""
    return self.resize_(tuple(other.shape))


function("resize_as_")(resize_as_)


@method()
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Make this tensor share the storage, size and strides of ``source``; without it, be empty."""
    if source is None:
        source = fresh(place(np.zeros(0, self.dtype.np), self.device))
    if not isinstance(source, Tensor):
        raise NotImplementedError(f"set_() takes a Tensor as source, not {type(source).__name__}")
    if source.dtype is not self.dtype:
        raise RuntimeError(
            f"Could not set tensor of type {source.dtype.scalar_name} to a tensor of type {self.dtype.scalar_name}"
        )
    if size is not None:
        strides = contiguous_strides(tuple(size)) if stride is None else tuple(stride)
        source = source.detach().as_strided(size, strides, storage_offset)
    if self.requires_grad and self.is_leaf and state.grad:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation. (set_)")
    self._storage, self._view, self._cache = source._storage, source._view, None
    self._vc = UNTRACKED if source.is_inference() else version_at(self._version + 1)
    return self
