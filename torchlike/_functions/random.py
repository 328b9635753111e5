"""Random tensors: the public forms of the operators in ``_ops.random``."""

import math
from functools import partial

import numpy as np

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._base.dims import demand_countable
from torchlike._base.layout import has_overlap
from torchlike._base.state import state
from torchlike._core.conversion.factories import checked_size, demand_strided, empty, fitting_out, size_of
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.inplace import call_inplace, demand_distinct, demand_rebasable, demand_writable
from torchlike._core.dispatch.observers import made, subclassed
from torchlike._core.dispatch.out import call_out, put
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import bools, bools_or_none
from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._executor.pending import NUMPYS, Array
from torchlike._functions import host_samples as host
from torchlike._functions import integer_ranges as ranges
from torchlike._functions._install import both, function, method
from torchlike._functions.generator import draw, held_by, place_of
from torchlike._ops import random as ops


def _made(op, name, size, static, numbers, dtype, device, generator, requires_grad, out=None, sample=None,
          place=None):  # fmt: skip
    """A new tensor of ``size`` from a draw, or ``out`` filled by it.

    ``sample(place, engine)`` makes the host's numbers, in the order in which they lie in memory at ``place``."""
    _demand_new(out)
    device = devices.default_device() if device is None else devices.as_device(device, name)
    if requires_grad is not False:
        bools_or_none(name, requires_grad=requires_grad)
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    demand_countable(size, dtype.itemsize, name)
    if len(size) > NUMPYS and out is None:
        flat = _made(op, name, (math.prod(size),), static, numbers, dtype, device, generator, False, None, sample)
        return _flagged(flat.reshape(size), requires_grad)
    place = place or host.Place(size, dtype)
    if out is not None and tuple(out.shape) == tuple(size):
        place = host.Place.of(out)
    drawn = draw(name, generator, device, sample and partial(sample, place))
    value = held_by(drawn, size, dtype)
    new = call(op, (drawn, *numbers), static) if value is None else fresh(value)
    if out is not None:
        put(out, value_of(new))
        return _flagged(out, requires_grad)
    return _flagged(new, requires_grad)


def _demand_new(out):
    """Refuse to fill a tensor inside of vmap: what is drawn for each example is a new one."""
    if out is not None and state.levels and any(level.maps for level in state.levels):
        raise RuntimeError(
            "vmap: We do not support calling out variants of random operations inside of vmap. Please use non-out "
            "variants as a workaround: the result has the numbers of each example"
        )


def _flagged(t, requires_grad):
    if requires_grad is not False:
        bools_or_none("new tensor", requires_grad=requires_grad)
        t._rg = t._rg or bool(requires_grad)
    return t


def _chosen(dtype, device, out, default=None):
    """The dtype asked for, that of ``out``, or the default."""
    if out is not None:
        return fitting_out(dtype, out, device).dtype
    return dtypes.as_dtype(dtype) if dtype is not None else default or dtypes.get_default_dtype()


# ----- factories -----


@function()
def rand(*args, size=None, generator=None, out=None, dtype=None, layout=None, device=None, pin_memory=False,
         requires_grad=False):  # fmt: skip
    """Uniform samples of [0, 1).

    Args:
        size: the shape, as ints or a sequence of them. generator: default: the one ``manual_seed`` sets.
        out: a tensor to fill instead. dtype: floating point or complex, the default dtype if None.

    Raises:
        NotImplementedError: an integer or bool dtype.

    >>> import torchlike as torch
    >>> torch.rand(2, 3).shape
    torch.Size([2, 3])
    """
    if layout is not None:
        demand_strided("rand", layout, out)
    shape, dtype = size_of("rand", args, size), _chosen(dtype, device, out)
    given = dtype, device, generator, requires_grad, out, host.uniform
    return _made(ops.rand, "rand", shape, (shape, dtype), (), *given)


@function()
def randn(*args, size=None, generator=None, out=None, dtype=None, layout=None, device=None, pin_memory=False,
          requires_grad=False):  # fmt: skip
    """Samples of the standard normal distribution; complex ones have variance 1 (1/2 in each part).

    Arguments and errors are those of :func:`rand`.

    >>> import torchlike as torch
    >>> torch.randn(2, dtype=torch.complex64).dtype
    torch.complex64
    """
    if layout is not None:
        demand_strided("randn", layout, out)
    shape, dtype = size_of("randn", args, size), _chosen(dtype, device, out)
    given = dtype, device, generator, requires_grad, out, host.normal
    return _made(ops.randn, "randn", shape, (shape, dtype), (), *given)


@function()
def randint(
    *args,
    low=None,
    high=None,
    size=None,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """Uniform integers of [low, high): ``randint(high, size)`` or ``randint(low, high, size)``.

    Raises:
        RuntimeError: ``low >= high``, or a bound that ``dtype`` (int64 by default) cannot hold.

    >>> import torchlike as torch
    >>> torch.randint(3, 4, (2,))
    tensor([3, 3])
    """
    if layout is not None:
        demand_strided("randint", layout, out)
    low, high, size = _bounds_and_size(args, low, high, size)
    shape = checked_size("randint", size)
    dtype = _chosen(dtype, device, out, dtypes.int64)
    _, span, wide = ranges.span("random_", low, high, dtype)
    return _made(
        ops.randint,
        "randint",
        shape,
        (shape, dtype, wide),
        (low, span),
        dtype,
        device,
        generator,
        requires_grad,
        out,
        partial(host.integers, low=low, span=high - low),
    )


def _bounds_and_size(args, low, high, size):
    given = list(args)
    if size is None and given:
        size = given.pop()
    if high is None and given:
        high = given.pop()
    if low is None:
        low = given.pop() if given else 0
    if given or high is None or size is None:
        raise TypeError(
            "randint() received an invalid combination of arguments; use randint(high, size) or (low, high, size)"
        )
    if not isinstance(size, list | tuple):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    return arguments.as_int("randint", "low", low), arguments.as_int("randint", "high", high), size


@function()
def randperm(
    n,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """A random permutation of 0..n-1 (int64 by default).

    Raises:
        RuntimeError: negative ``n``, or a ``dtype`` that cannot hold n - 1 exactly.

    >>> import torchlike as torch
    >>> torch.randperm(5).sum()
    tensor(10)
    """
    if layout is not None:
        demand_strided("randperm", layout, out)
    n = arguments.as_int("randperm", "n", n)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    dtype = _chosen(dtype, device, out, dtypes.int64)
    if n and n - 1 > ranges.largest(dtype):
        raise RuntimeError(f"randperm: value {n - 1} cannot be converted to type {dtype} without overflow")
    given = dtype, device, generator, requires_grad, out, host.permutation
    return _made(ops.randperm, "randperm", (n,), (n, dtype), (), *given)


# ----- filling a tensor -----


def _simple(t):
    """Whether a tensor holds an array of its own, and a change of it is neither recorded nor seen by its class."""
    own = t._view is None and t._diff is None and t._storage.form.__class__ is Array
    return own and not (t._rg and state.grad) and not subclassed(t)


def _demand_fillable(name, t):
    """Refuse before anything is drawn. PyTorch refuses inference tensors behind the draw."""
    if state.grad and (t._rg or (t._diff is not None and t._diff.base._rg)):
        demand_rebasable(t)
    demand_distinct(name, t)


def _filled(op, name, self, numbers, generator, sample, static=()):
    """``self`` filled; ``sample(place, engine)`` makes the host's numbers."""
    if self.ndim > NUMPYS:
        _filled(op, name, self.view(-1), numbers, generator, sample, static)
        return self
    here = place_of(self)
    if not state.active and not subclassed(self) and not self.is_inference():
        _demand_fillable(name, self)
    words = draw(name, generator, here, partial(sample, host.Place.of(self)))
    if op is not ops.bernoulli_tensor and _simple(self):
        value = held_by(words, self.shape, self.dtype)
        if value is not None:
            demand_writable(self)
            write(self, value)
            return self
    return call_inplace(op.inplace, (self, words, *numbers), static)


def _numbers(name, given, named, defaults):
    """The numbers of a call, from its positional and keyword arguments."""
    if len(given) > len(defaults):
        raise TypeError(f"{name}() takes at most {len(defaults)} numbers, but {len(given)} were given")
    found = dict(zip(defaults, given, strict=False))
    for key, value in named.items():
        if key not in defaults or key in found:
            problem = "multiple values for" if key in found else "an unexpected keyword"
            raise TypeError(f"{name}() got {problem} argument '{key}'")
        found[key] = value
    return [arguments.as_number(name, k, found.get(k, d)) for k, d in defaults.items()]


def _demand(ok, message):
    if not ok:
        raise RuntimeError(message)


@method()
def uniform_(self, *bounds, generator=None, **named):
    """Fill with uniform samples of [from, to), 0 and 1 by default.

    Raises:
        RuntimeError: ``from > to``, or a leaf that requires grad. NotImplementedError: not a float dtype.

    >>> import torchlike as torch
    >>> torch.zeros(2).uniform_(3, 3)
    tensor([3., 3.])
    """
    low, high = _numbers("uniform_", bounds, named, {"from": 0.0, "to": 1.0})
    ranges.demand_interval(self.dtype, low, high)
    return _filled(ops.uniform, "uniform_", self, (low, high), generator, partial(host.uniform, low=low, high=high))


@method()
def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Fill with samples of the normal distribution. RuntimeError for a negative ``std``."""
    mean, std = _numbers("normal_", (mean, std), {}, {"mean": 0, "std": 0})
    _demand(std >= 0, f"normal expects std >= 0.0, but found std {std}")
    return _filled(ops.normal, "normal_", self, (mean, std), generator, partial(host.normal, mean=mean, std=std))


@method()
def log_normal_(self, mean=1.0, std=2.0, *, generator=None):
    """Fill with exponentials of normal samples. RuntimeError unless ``std > 0``."""
    mean, std = _numbers("log_normal_", (mean, std), {}, {"mean": 0, "std": 0})
    _demand(std > 0, f"log_normal_ expects std > 0.0, but found std={std}")
    return _filled(
        ops.log_normal, "log_normal_", self, (mean, std), generator, partial(host.log_normal, mean=mean, std=std)
    )


@method()
def exponential_(self, lambd=1.0, *, generator=None):
    """Fill with samples of the exponential distribution of rate ``lambd``. RuntimeError unless ``lambd >
    0``.
    """
    (lambd,) = _numbers("exponential_", (lambd,), {}, {"lambd": 0})
    _demand(lambd > 0, f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return _filled(ops.exponential, "exponential_", self, (lambd,), generator, partial(host.exponential, rate=lambd))


@method()
def cauchy_(self, median=0.0, sigma=1.0, *, generator=None):
    """Fill with samples of the Cauchy distribution. RuntimeError unless ``sigma > 0``."""
    median, sigma = _numbers("cauchy_", (median, sigma), {}, {"median": 0, "sigma": 0})
    _demand(sigma > 0, f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return _filled(
        ops.cauchy, "cauchy_", self, (median, sigma), generator, partial(host.cauchy, median=median, sigma=sigma)
    )


@method()
def geometric_(self, p, *, generator=None):
    """Fill with the number of trials up to the first success of probability ``p``. RuntimeError unless 0 < p
    < 1.
    """
    (p,) = _numbers("geometric_", (p,), {}, {"p": 0})
    _demand(0 < p < 1, f"geometric_ expects p to be in (0, 1), but got p={p}")
    return _filled(ops.geometric, "geometric_", self, (p,), generator, partial(host.geometric, p=p))


@method()
def bernoulli_(self, p=0.5, *, generator=None):
    """Fill with zeros and ones, ones with probability ``p`` (a number, or a tensor of one for each
    element).
    """
    if isinstance(p, Tensor):
        return _filled(ops.bernoulli_tensor, "bernoulli_", self, (p,), generator, partial(_units, p.dtype))
    (p,) = _numbers("bernoulli_", (p,), {}, {"p": 0})
    _demand(0 <= p <= 1, f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return _filled(ops.bernoulli_p, "bernoulli_", self, (p,), generator, partial(host.bernoulli, p=p))


def _units(dtype, place, engine):
    return host.unit(place._replace(dtype=dtype), engine)


@method()
def random_(self, *bounds, generator=None, **named):
    """Fill with uniform integers: of [from, to), of [0, to), or of all that the dtype holds.

    Raises:
        RuntimeError: ``from >= to``, or bounds that the dtype cannot hold. NotImplementedError: complex.
    """
    if len(bounds) == 1:
        bounds, named = (), {"to": bounds[0], **named}
    found = dict(zip(("from", "to"), bounds, strict=False)) | named
    if len(bounds) > 2 or not set(found) <= {"from", "to"}:
        raise TypeError(
            "random_() received an invalid combination of arguments; use random_(), random_(to), random_(from, to)"
        )
    numbers = {k: arguments.as_int("random_", k, v) for k, v in found.items() if v is not None}
    op = ops.random if "from" in found else ops.random_to if "to" in found else ops.random_all
    numbers = {("low" if k == "from" else "high"): v for k, v in numbers.items()}
    low, span, wide = ranges.random_range(self.dtype, **numbers)
    if op is ops.random_all:
        sample = partial(host.any_integers, span=ranges.unpacked(span))
    else:
        sample = partial(host.integers, low=low, span=ranges.unpacked(span))
    return _filled(op, "random_", self, (low, span), generator, sample, (wide,))


# ----- samples with a parameter for each element -----


def _sampled(op, name, tensors, generator, out, static=(), sample=None):
    _demand_new(out)
    first, *rest = tensors
    here = next((place_of(t) for t in tensors if isinstance(t, Tensor)), None)
    inputs = (first, draw(name, generator, here, sample), *rest)
    if out is None:
        return call(op, inputs, static)
    if isinstance(out, Tensor) and has_overlap(out._layout):
        raise RuntimeError(
            f"{name}(): unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory "
            "location. Please clone() the tensor before performing the operation."
        )
    return call_out(op, inputs, static, out)


@both()
def bernoulli(input, p=None, *, generator=None, out=None):
    """Zeros and ones, ones with the probability that ``input`` holds (with the one number ``p`` if given).

    Raises:
        RuntimeError: a probability outside [0, 1]. NotImplementedError: probabilities that are not floating
            point.

    >>> import torchlike as torch
    >>> torch.bernoulli(torch.ones(3))
    tensor([1., 1., 1.])
    """
    if p is None:
        if isinstance(out, Tensor) and out.dtype is not input.dtype:
            return bernoulli_(out if out.shape == input.shape else out.resize_(input.shape), input, generator=generator)
        place = host.Place(input.shape, input.dtype)
        return _sampled(ops.bernoulli, "bernoulli", (input,), generator, out, (), partial(host.unit, place))
    (p,) = _numbers("bernoulli", (p,), {}, {"p": 0})
    _demand(0 <= p <= 1, f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    place = host.Place(input.shape, input.dtype)
    return _sampled(ops.bernoulli_p, "bernoulli", (input, p), generator, out, (), partial(host.bernoulli, place, p=p))


@function()
def normal(
    mean=0.0,
    std=1.0,
    size=None,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """Normal samples: means and deviations from tensors (broadcast) or numbers; ``size`` when both are
    numbers, for which 0-dim tensors stand there.

    Gradients with respect to tensor means and deviations are zeros, as in PyTorch.

    Raises:
        RuntimeError: a negative deviation. TypeError: two numbers without ``size``; ``size`` with tensors of more
            dims, or that require grad; settings of new tensors without ``size``.

    >>> import torchlike as torch
    >>> torch.normal(torch.arange(2.0), 0.0)
    tensor([0., 1.])
    """
    if layout is not None:
        demand_strided("normal", layout, out)
    if size is not None:
        mean, std = _parameter("mean", mean), _parameter("std", std)
    tensors = (False, False) if size is not None else (isinstance(mean, Tensor), isinstance(std, Tensor))
    if any(tensors) and (dtype or layout or device is not None or pin_memory or requires_grad):
        raise TypeError(
            "normal() received an invalid combination of arguments - got tensors with dtype, layout, device, "
            "pin_memory or requires_grad; these go with a size, and the samples of tensors are like those"
        )
    if tensors == (False, False):
        if size is None:
            raise TypeError(
                f"normal() received an invalid combination of arguments - got ({mean}, {std}); give a size too"
            )
        shape, dtype = checked_size("normal", size), _chosen(dtype, device, out)
        _demand(std >= 0, f"normal expects std >= 0.0, but found std {std}")
        _demand_new(out)
        if state.dispatch_modes and out is None and not state.levels:
            place = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
            return made("normal.float_float", float(mean), float(std), list(shape), generator=generator, **place)
        new = empty(shape, dtype=dtype, device=device)
        if state.levels:  # inside of vmap what examples share cannot be filled with numbers of each
            words = draw("normal", generator, new.device, partial(host.normal, host.Place.of(new), mean=mean, std=std))
            return _flagged(call(ops.normal, (new, words, mean, std), ()), requires_grad)
        normal_(new, mean, std, generator=generator)
        if out is None:
            return _flagged(new, requires_grad)
        put(out, value_of(new))
        return out
    if not tensors[1]:
        _demand(std >= 0, f"normal expects std >= 0.0, but found std {std}")
        sample = partial(host.normal, host.Place(mean.shape, mean.dtype), std=std)
        return _sampled(ops.normal_tensor_float, "normal", (mean, std), generator, out, (), sample)
    _demand(not std.dtype.is_complex, "normal expects standard deviation to be non-complex")
    op = ops.normal_tensor_tensor if tensors[0] else ops.normal_float_tensor
    sample = _around(mean if tensors[0] else std, std)
    return _sampled(op, "normal", (mean, std), generator, out, (), sample)


def _parameter(name, x):
    return x if arguments.stands_for_number(x) else arguments.as_float("normal", name, x)


def _around(first, second):
    """What makes standard normal samples for two tensors, which are broadcast."""
    try:
        shape = np.broadcast_shapes(tuple(first.shape), tuple(second.shape))
    except ValueError:  # the operator is going to say so
        return None
    return partial(host.normal, host.Place(shape, first.dtype))


@both()
def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """Indices drawn from each row of non-negative weights: shape [..., num_samples], int64.

    Raises:
        RuntimeError: weights that are not floating point, negative, not finite or all zero; ``input`` that
            is not 1- or 2-dimensional; more samples than weights without ``replacement``.

    >>> import torchlike as torch
    >>> torch.multinomial(torch.tensor([0.0, 1.0]), 3, replacement=True)
    tensor([1, 1, 1])
    """
    bools("multinomial", replacement=replacement)
    num_samples = arguments.as_int("multinomial", "num_samples", num_samples)
    _demand(
        input.dtype.is_floating_point,
        f"multinomial only supports floating-point dtypes for input, got: {input.dtype.scalar_name}",
    )
    _demand(input.ndim in (1, 2), f"prob_dist must be 1 or 2 dim, got shape {list(input.shape)}")
    _demand(num_samples > 0, f"cannot sample n_sample <= 0 samples ({num_samples})")
    _demand(
        replacement or num_samples <= input.shape[-1],
        f"cannot sample n_sample > prob_dist.size(-1) samples without replacement ({num_samples} of {input.shape[-1]})",
    )
    _demand(input.shape[-1] <= 2**24, "number of categories cannot exceed 2^24")
    static = num_samples, bool(replacement)
    if replacement and num_samples > 1:
        sample = host.Drawn(partial(host.multinomial, n=num_samples), (input,))
    else:
        sample = partial(host.exponential, host.Place.rows(input))  # the greatest weights over them
    return _sampled(ops.multinomial, "multinomial", (input,), generator, out, static, sample)
