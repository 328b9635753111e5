"""Generators of random numbers, and what operators draw from them."""

import contextlib
import math
import threading
from functools import partial

import jax
import numpy as np

import torchlike._base.device as devices
from torchlike._base import rng
from torchlike._base.dtypes import dtype as DType
from torchlike._base.state import UNUSUAL, state
from torchlike._base.volatile import volatile
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import Tensor, fresh, wrap
from torchlike._executor.immediate import Abstract, uploaded
from torchlike._executor.pending import trace_state_clean
from torchlike._functions._install import function
from torchlike._functions.host_samples import Drawn, Place, permutation
from torchlike._transforms.levels.vmap import lift


class Generator(rng.Generator):
    """A source of random numbers: a seed, and a counter of the draws made from it.

    Args:
        device: whose tensors it fills, the CPU by default. RuntimeError if it is absent.

    On the CPU its eager draws are the numbers that PyTorch draws from the same seed (docs/porting.md, "Random numbers",
    names the exceptions), and its state is PyTorch's.

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
        """The state, a uint8 tensor: on the CPU of PyTorch's 5,056 bytes, elsewhere 16 of seed and counter."""
        with jax.ensure_compile_time_eval():  # the numbers are known, whatever jax is tracing
            return fresh(uploaded(super().get_state(), devices.of_host()))

    def set_state(self, new_state):
        """Go back to a state that :meth:`get_state` gave, in PyTorch too; returns the generator.

        TypeError if it is not a uint8 tensor, RuntimeError if it has another length.
        """
        state = new_state._host() if isinstance(new_state, Tensor) else None
        super().set_state(state if state is not None else new_state)
        return self

    def clone_state(self):
        """Another generator that will make the same draws."""
        return _rebuild(self.device, self.get_state())

    def __reduce__(self):
        """PyTorch's form: class and device, then the seed, the offset of an accelerator's, and the state."""
        offset = None if self.device.type == "cpu" else self.get_offset()
        return Generator, (self.device,), (self.initial_seed(), offset, self.get_state())

    def __setstate__(self, state):
        """Go back to what :meth:`__reduce__` gave, in PyTorch too; TypeError for anything else."""
        if type(state) is not tuple or len(state) != 3:
            raise TypeError(f"a generator's state is (seed, offset, state), not {type(state).__name__}")
        self.set_state(state[2])


def _rebuild(device, state):  # pickles of before name it too
    return Generator(device).set_state(state)


default_generator = rng.default_generator
default_generator.__class__ = Generator  # made below the layer that knows tensors; same fields


def _source(name, generator):
    if generator is None:
        return default_generator
    if not isinstance(generator, rng.Generator):
        raise TypeError(f"{name}(): argument 'generator' must be torch.Generator, not {type(generator).__name__}")
    return generator


_CPU = devices.device("cpu")


class _Words(np.ndarray):
    """The words of a draw, which dispatch hands to a kernel as they are: a tensor would cost 20 us more."""


KIND[_Words] = 2


def draw(name, generator, device=None, sample=None):
    """What an operator needs of the next draw: the numbers, made by ``sample(engine)`` on the host, or random words.

    The numbers are PyTorch's, an array of another dtype than uint32; words are four uint32, from which a kernel makes
    numbers of its own. Words it is where numbers have to be made by a program (in captures, jax's
    transforms, on accelerators), where the generator's stream is the counter's, and where ``sample`` is None or
    gives None. They are of ``device`` unless that is where jax works anyway.
    """
    source = _source(name, generator)
    if sample is not None and not UNUSUAL and device is _CPU and runs_now(source, device) and not devices.stays():
        with source._lock:
            numbers = sample(source.engine)
        return source.draw().view(_Words) if numbers is None else numbers.view(_Words)
    target = None
    if (device is not None and device.type == "meta") or (state.dispatch_modes and _fake(state.dispatch_modes)):
        return fresh(Abstract((4,), np.uint32))  # jax would ignore abstract inputs that a kernel does not read
    if device is not None:
        if generator is not None and device.type != source.device.type:
            raise RuntimeError(
                f"Expected a '{device.type}' device type for generator but found '{source.device.type}': "
                f"{name}() fills a "
                f"tensor on {device}; make the generator with torch.Generator('{device.type}')"
            )
        target = devices.anchor(devices.jax_device(device))
    if sample is not None and state.capture is not None:
        numbers = _of_program(source, device, sample)
        if numbers is not None:
            return numbers
    elif sample is not None and any(level.maps for level in state.levels):
        numbers = _for_examples(source, device, sample)
        if numbers is not None:
            return numbers
    elif sample is not None and from_torch(source, device):
        with source._lock:
            numbers = sample(source.engine)
        if numbers is not None:
            return numbers.view(_Words) if target is None else fresh(jax.device_put(numbers, target))
    if target is not None:
        return fresh(jax.device_put(source.draw(), target))
    if state.capture is not None:
        return wrap(state.capture.input(source.draw(), source.draw))
    if _KEYS.current is not None or not trace_state_clean():
        return _words_of_key(name, generator)
    return source.draw().view(_Words)


def held_by(drawn, shape, dtype):
    """The array that a draw is already, of this shape and dtype, where calls run at once and nobody sees them."""
    kind = drawn.dtype if drawn.__class__ is _Words and not UNUSUAL else None
    if kind is None or kind != dtype.np or kind == np.uint32 or drawn.shape != shape or CAPTURES:
        return None
    return uploaded(drawn.view(np.ndarray), devices.of_host() if devices.stays() else None)


def _fake(modes):
    """Whether calls give tensors without numbers, so that none are drawn."""
    return any(getattr(mode, "draws_nothing", False) for mode in modes)


def _for_examples(source, device, sample):
    """The numbers of a draw inside of vmap: PyTorch's for one tensor of all examples, or for one that they share.

    None where a shared draw depends on values that differ between examples, or the draw is refused.
    """
    mapped = [level for level in state.levels if level.maps]
    if any(level.randomness == "error" for level in mapped) or not runs_now(source, device):
        return None
    if type(sample) is not Drawn and not _fixed(sample):
        return None
    different = [level for level in mapped if level.randomness == "different"]
    sizes = [level.size for level in different]
    with source._lock:
        if type(sample) is Drawn:
            numbers = sample.of_all(source.engine, different)
        elif sample.func is permutation:
            rows = [sample(source.engine) for _ in range(math.prod(sizes))]
            numbers = np.stack(rows).reshape(*sizes, *rows[0].shape) if rows else None
        else:
            args = [x.of_all(sizes) if type(x) is Place else x for x in sample.args]
            numbers = sample.func(*args, source.engine, **sample.keywords)
    if numbers is None:
        return None
    t = wrap(jax.device_put(numbers, devices.jax_device(device)))
    for level in different:
        t = lift(t, 0, level)
    return t


def _of_program(source, device, sample):
    """The numbers that stand for those drawn before each call of the program being captured; None where it draws."""
    capture = state.capture
    if source.stream != "torch" or not capture.hosted or capture.spread or not _fixed(sample):
        return None
    if _KEYS.current is not None or any(level.maps for level in state.levels):
        return None
    kind = capture.home if device is None else device.type
    if (devices.from_jax(devices.first()).type if kind is None else kind) != "cpu":
        return None
    found = capture.sampled(source, sample)
    return None if found is None else wrap(found)


def _fixed(sample):
    """Whether ``sample`` needs nothing but numbers that are the same in every call."""
    if type(sample) is not partial:
        return False
    for x in (*sample.args, *sample.keywords.values()):
        if type(x) is Place and not set(map(type, x.shape)) <= {int}:
            return False
        if type(x) not in (Place, int, float, bool, DType):
            return False
    return True


def from_torch(generator, device):
    """Whether eager draws are PyTorch's numbers: calls run at once, so that each can be given numbers made now."""
    return runs_now(generator, device) and not any(level.maps for level in state.levels)


def runs_now(generator, device):
    """As ``from_torch``, inside of vmap too."""
    if (default_generator if generator is None else generator).stream != "torch":
        return False
    if device is None or device.type != "cpu" or state.capture is not None or _KEYS.current is not None:
        return False
    return trace_state_clean()


class _Keys(threading.local):
    """``current``: None, or a list of the words of a jax key, None for no key, and the number of draws from it."""

    current = None


_KEYS = _Keys()


@contextlib.contextmanager
def drawing_from(key):
    """The context in which this thread draws from ``key``, a jax random key; None for a function that may not draw."""
    before = _KEYS.current
    _KEYS.current = [None if key is None else _key_words(key), 0]
    try:
        yield
    finally:
        _KEYS.current = before


def _key_words(key):
    if not hasattr(key, "dtype"):
        raise TypeError(f"expected a random key of jax, such as jax.random.key({key!r}), got {type(key).__name__}")
    data = jax.random.key_data(key) if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    if data.shape != (2,):
        raise ValueError(f"expected one random key of two words, as jax.random.key(0) gives, got shape {data.shape}")
    return data.astype(np.uint32)


def _words_of_key(name, generator):
    """The words of a draw in a function of jax: a generator's would be the same in every call of its program."""
    current = _KEYS.current
    if current is None or current[0] is None or generator is not None:
        raise RuntimeError(
            f"{name}(): random numbers were asked for inside a function of jax (jit, grad, vmap, scan, to_jax), where "
            "a generator's would be drawn once for all its calls; use torchlike.interop.to_jax(function) and pass it "
            "key=jax.random.key(0), or draw outside and pass the numbers in"
        )
    current[1] += 1
    return wrap(jax.numpy.concatenate([current[0], np.array([0, current[1]], np.uint32)]))


def place_of(t):
    """The device of ``t``, None if it is being traced."""
    form = t._storage.form
    if isinstance(form, Abstract):
        return devices.device("meta")  # whatever a fake tensor says
    return None if isinstance(form, jax.core.Tracer) else t.device


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
@volatile
def get_rng_state():
    """The state of the default generator, a uint8 tensor."""
    return default_generator.get_state()


@function()
@volatile
def set_rng_state(new_state):
    """Put the default generator into a state that :func:`get_rng_state` gave."""
    default_generator.set_state(new_state)


def set_rng(stream):
    """Choose where eager draws on the CPU take their numbers, by the default generator and by those made from now on.

    Args:
        stream: "torch", the default: PyTorch's numbers, made on the host. "threefry": numbers that are a function of
            seed and counter alone, made by the device, the same on every device and in compiled functions.

    The stream starts over from the last seed if it is another one than before. ValueError for another name.

    >>> import torchlike
    >>> torchlike.set_rng("threefry")
    >>> torchlike.get_rng_state().shape
    torch.Size([16])
    >>> torchlike.set_rng("torch")
    """
    default_generator.stream = stream


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
