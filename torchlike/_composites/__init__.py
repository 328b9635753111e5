"""Overloads of ``torch.ops.aten`` over public functions: those of PyTorch that are made of other calls."""

from torchlike._composites import (  # noqa: F401
    by_name,
    elsewhere,
    entries,
    fourier,
    further,
    gradients,
    kernels,
    made,
    rare,
    refused,
    rounded,
    script,
    steps,
)
