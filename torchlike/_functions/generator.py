"""Generators of random numbers, and what operators draw from them."""

import contextlib

import jax
import numpy as np

import torchlike._base.device as devices
from torchlike._base import rng
from torchlike._base.state import state
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.tensor import Tensor, fresh, wrap
from torchlike._executor.immediate import Abstract, uploaded
from torchlike._functions._install import function


class Generator(rng.Generator):
    """A source of random numbers: a seed, and a counter of the draws made from it.

    Args:
        device: whose tensors it fills, the CPU by default. RuntimeError if it is absent.

    The numbers are a function of seed and counter alone: equal on every device and in every run, and
    not the numbers that PyTorch draws from the same seed.

    >>> import torchlike as torch
    >>> g = torch.Generator().manual_seed(3)
    >>> before = g.get_state()
    >>> a = torch.rand(2, generator=g)
    >>> g.set_state(before).initial_seed()
    3
    >>> bool((torch.rand(2, generator=g) == a).all())
    True
    """

    __slots__ = ()

    def get_state(self):
        """Seed and counter, as a uint8 tensor of 16 elements."""
        with jax.ensure_compile_time_eval():  # the numbers are known, whatever jax is tracing
            return fresh(uploaded(super().get_state()))

    def set_state(self, new_state):
        """Go back to a state that :meth:`get_state` gave; returns the generator.

        TypeError if it is not a uint8 tensor, RuntimeError if it has another length.
        """
        state = new_state._host() if isinstance(new_state, Tensor) else None
        super().set_state(state if state is not None else new_state)
        return self

    def clone_state(self):
        """Another generator that will make the same draws."""
        return _rebuild(self.device, self.get_state())

    def __reduce__(self):
        return _rebuild, (self.device, self.get_state())


def _rebuild(device, state):
    return Generator(device).set_state(state)


default_generator = rng.default_generator
default_generator.__class__ = Generator  # made below the layer that knows tensors; same fields


def _source(name, generator):
    if generator is None:
        return default_generator
    if not isinstance(generator, rng.Generator):
        raise TypeError(f"{name}(): argument 'generator' must be torch.Generator, not {type(generator).__name__}")
    return generator


class _Words(np.ndarray):
    """The words of a draw, which dispatch hands to a kernel as they are: a tensor would cost 20 us more."""


KIND[_Words] = 2


def draw(name, generator, device=None):
    """The words of the next draw, on ``device`` unless that is where jax works anyway."""
    source = _source(name, generator)
    if device is not None and device.type == "meta":
        return fresh(Abstract((4,), np.uint32))  # jax would ignore abstract inputs that a kernel does not read
    if device is not None:
        if generator is not None and device.type != source.device.type:
            raise RuntimeError(
                f"Expected a '{device.type}' device type for generator but found '{source.device.type}': "
                f"{name}() fills a "
                f"tensor on {device}; make the generator with torch.Generator('{device.type}')"
            )
        target = devices.jax_device(device)
        if target != jax.devices()[0]:
            return fresh(jax.device_put(source.draw(), target))
    if state.capture is not None:
        return wrap(state.capture.input(source.draw(), source.draw))
    return source.draw().view(_Words)


def place_of(t):
    """The device of ``t``, None if it is being traced."""
    return None if isinstance(t._storage.value, jax.core.Tracer) else t.device


# ----- the default generator -----


@function()
def manual_seed(seed):
    """Seed the default generator; returns it. Seeds are 64 bits wide (ValueError beyond).

    >>> import torchlike as torch
    >>> torch.manual_seed(0).initial_seed()
    0
    """
    return default_generator.manual_seed(int(seed))


@function()
def seed():
    """Seed the default generator with a number that cannot be foretold, and return it."""
    return default_generator.seed()


@function()
def initial_seed():
    """The seed that the default generator was last given."""
    return default_generator.initial_seed()


@function()
def get_rng_state():
    """The state of the default generator, a uint8 tensor."""
    return default_generator.get_state()


@function()
def set_rng_state(new_state):
    """Put the default generator into a state that :func:`get_rng_state` gave."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type=None):
    """Inside, draws leave the state of the default generator outside as it was.

    >>> import torchlike as torch
    >>> before = torch.get_rng_state()
    >>> with torch.random.fork_rng():
    ...     _ = torch.rand(3)
    >>> bool((torch.get_rng_state() == before).all())
    True
    """
    state = default_generator.get_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            default_generator.set_state(state)
