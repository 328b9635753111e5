"""Process-wide settings that kernels read while they are traced."""

import torchlike._base.dtypes as dtypes
from torchlike._decl.op import EXTENSIONS, REGISTRY


def kernels():
    """Every declared operator and its in-place form."""
    for op in (*REGISTRY.values(), *EXTENSIONS.values()):
        yield op
        if op.inplace is not None:
            yield op.inplace


def set_default_dtype(d):
    """Set the floating dtype of tensors made from Python floats, for the whole process.

    Raises TypeError unless ``d`` is a floating dtype.

    >>> import torchlike as torch
    >>> torch.set_default_dtype(torch.float64)
    >>> torch.tensor(1.5).dtype
    torch.float64
    >>> torch.set_default_dtype(torch.float32)
    """
    old = dtypes.get_default_dtype()
    dtypes.set_default_dtype(d)
    if d is not old:
        for kernel in kernels():
            kernel.select(old, d)


def reset_kernels():
    """Forget every compiled kernel, after a setting that kernels read has changed."""
    for kernel in kernels():
        kernel.reset()
