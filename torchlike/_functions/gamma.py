"""Samples of gamma and Dirichlet distributions."""

from torchlike._functions import rejection
from torchlike._functions._install import function
from torchlike._functions.random import _sampled, by_rejection
from torchlike._ops import gamma as ops


@function()
def _standard_gamma(input, generator=None):
    """Samples of gamma distributions with the concentrations that ``input`` holds and rate 1.

    Gradients flow to the concentrations. NotImplementedError for dtypes that are not floating point.

    >>> import torchlike as torch
    >>> torch._standard_gamma(torch.full((3,), 2.0)).shape
    torch.Size([3])
    """
    sample = by_rejection(rejection.gamma, input)
    return _sampled(ops.standard_gamma, "_standard_gamma", (input,), generator, None, sample=sample)


@function()
def _sample_dirichlet(input, generator=None):
    """Samples of Dirichlet distributions whose concentrations lie in the last dimension of ``input``.

    Gradients flow to the concentrations. NotImplementedError for dtypes that are not floating point.

    >>> import torchlike as torch
    >>> torch._sample_dirichlet(torch.ones(2, 3)).sum(-1).round()
    tensor([1., 1.])
    """
    sample = by_rejection(rejection.gamma, input)
    return _sampled(ops.sample_dirichlet, "_sample_dirichlet", (input,), generator, None, sample=sample)
