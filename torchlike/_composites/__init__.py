"""Overloads of ``torch.ops.aten`` over public functions: those of PyTorch that are made of other calls."""

from torchlike._composites import by_name, elsewhere, fourier, gradients, kernels, made, script, steps  # noqa: F401
