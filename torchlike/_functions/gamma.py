"""Samples of gamma, Dirichlet, Poisson and binomial distributions, each made of as many numbers as it takes."""

from torchlike._base.dims import broadcast_shapes
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import redispatch, subclassed
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions import host_samples as host
from torchlike._functions import rejection
from torchlike._functions._install import function
from torchlike._functions.generator import draw, place_of
from torchlike._functions.random import _sampled
from torchlike._ops import gamma as ops
from torchlike._ops import random as counts


def by_rejection(sample, *parameters):
    """What makes the host's numbers of a distribution with parameters that are tensors."""
    if not all(isinstance(t, Tensor) for t in parameters):
        return None
    return host.Drawn(sample, parameters)


def _given(generator):
    return () if generator is None else (generator,)


@function()
def _standard_gamma(input, generator=None):
    """Samples of gamma distributions with the concentrations that ``input`` holds and rate 1.

    Gradients flow to the concentrations. NotImplementedError for dtypes that are not floating point.

    >>> import torchlike as torch
    >>> torch._standard_gamma(torch.full((3,), 2.0)).shape
    torch.Size([3])
    """
    if subclassed(input):
        return redispatch("_standard_gamma.default", input, *_given(generator))
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
    if subclassed(input):
        return redispatch("_sample_dirichlet.default", input, *_given(generator))
    sample = by_rejection(rejection.gamma, input)
    return _sampled(ops.sample_dirichlet, "_sample_dirichlet", (input,), generator, None, sample=sample)


@function()
def poisson(input, generator=None):
    """Poisson samples with the rates that ``input`` holds. RuntimeError for a negative rate."""
    if subclassed(input):
        return redispatch("poisson.default", input, *_given(generator))
    return _sampled(counts.poisson, "poisson", (input,), generator, None, sample=by_rejection(rejection.poisson, input))


@function()
def binomial(count, prob, generator=None):
    """Numbers of successes among ``count`` trials of probability ``prob`` (floating point tensors,
    broadcast).
    """
    for name, x in (("count", count), ("prob", prob)):
        if not isinstance(x, Tensor):
            raise TypeError(f"binomial(): argument '{name}' must be Tensor, not {type(x).__name__}")
    if subclassed(count) or subclassed(prob):
        return redispatch("binomial.default", count, prob, *_given(generator))
    broadcast_shapes(tuple(count.shape), tuple(prob.shape))
    sample = by_rejection(rejection.binomial, count, prob)
    return call(counts.binomial, (count, prob, draw("binomial", generator, place_of(count), sample)), ())
