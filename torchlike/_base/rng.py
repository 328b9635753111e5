"""Random generators: PyTorch's stream of the CPU, and a seed with a counter, of which jax keys are made."""

import secrets
import threading
from typing import Any

import jax
import numpy as np

from torchlike._base.jaxprs import threefry_2x32
from torchlike._base.mersenne import STATE_BYTES, Mersenne, State, parsed
from torchlike._base.volatile import volatile

from . import device as devices
from .state import state
from .tracing import demand_no_trace, trace_state_clean

_DEFAULT_SEED = 67280421310721  # PyTorch's seed of a generator that was given none
_COUNTER_BYTES = 16
STREAMS = ("torch", "threefry")
_IMPL = "threefry2x32"


FRESH = State(0, 0, None, 0, True, None)  # stands for PyTorch's stream at its start
_FIRST: list = []  # the default generator: later ones take its stream


class Generator:
    """A source of random numbers: a seed, PyTorch's stream (MT19937) and a counter of the other draws made from it.

    On the CPU eager draws take their numbers from PyTorch's stream. Draws that a program makes (compiled functions,
    ``vmap``, jax's transforms, accelerators) are a function of seed and counter alone, equal on every device and in
    every run; so are all draws of a generator whose stream is "threefry". RuntimeError if the device is absent.

    >>> import torchlike as torch
    >>> g = torch.Generator().manual_seed(3)
    >>> g.initial_seed()
    3
    """

    __slots__ = ("_device", "_seed", "_counter", "_lock", "_stream", "_engine", "__weakref__")

    def __init__(self, device: Any = None):
        self._device = _generator_device(device)
        self._seed = _DEFAULT_SEED
        self._counter = 0
        self._lock = threading.RLock()
        self._stream = _FIRST[0]._stream if _FIRST and self._device.type == "cpu" else "threefry"
        self._engine: Mersenne | None = None  # made by the first draw: it takes 0.1 ms

    @property
    def stream(self) -> str:
        """Where eager draws take their numbers: "torch", PyTorch's stream, or "threefry", seed and counter."""
        return self._stream

    @stream.setter
    def stream(self, name: str) -> None:
        if name not in STREAMS:
            raise ValueError(f"the stream of a generator is one of {', '.join(STREAMS)}, not {name!r}")
        if self._device.type != "cpu" and name == "torch":
            raise ValueError(f"PyTorch's stream is that of its CPU generator; this one is of {self._device}")
        if name != self._stream:
            self._stream = name
            self._restart(self._seed, 0, FRESH)

    @property
    def engine(self) -> Mersenne:
        """PyTorch's stream; who draws from it holds ``_lock``."""
        if self._engine is None:
            self._engine = Mersenne(self._seed)
        return self._engine

    @property
    def device(self) -> devices.device:
        """The device whose tensors this generator fills."""
        return self._device

    @property
    def counter(self) -> int:
        """How many draws were made since the seed was set."""
        return self._counter

    def manual_seed(self, seed: int, /) -> "Generator":
        """Set the seed and start over; returns the generator.

        Seeds are 64 bits wide; a negative one counts down from 2**64. ValueError for a seed
        outside [-2**63, 2**64), RuntimeError for one that is not an int, TypeError for numpy's integers.
        """
        if isinstance(seed, np.integer):
            raise TypeError(f"manual_seed: an integer is required, got {type(seed).__name__}; use int(seed)")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}; use int(seed)")
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"manual_seed: {seed} overflows 64 bits; use a seed in [-2**63, 2**64)")
        self._seeded("manual_seed", seed % 2**64)
        return self

    @volatile
    def seed(self) -> int:
        """Set a seed that cannot be foretold, and return it."""
        value = secrets.randbits(64)
        self._seeded("seed", value)
        return value

    @volatile
    def initial_seed(self) -> int:
        """The seed last set."""
        return self._seed

    @volatile
    def get_state(self) -> np.ndarray:
        """The state as bytes (uint8): PyTorch's 5,056, or 16 of seed and counter where the stream is "threefry"."""
        with self._lock:
            if self._stream == "torch":
                return self.engine.state(self._seed, self._counter)
            return np.array([self._seed, self._counter], "<u8").view(np.uint8)

    def set_state(self, new_state: np.ndarray, /) -> None:
        """Go back to a state that `get_state` gave, here or, on the CPU, in PyTorch; it says which stream it is of.

        TypeError if it is not uint8, RuntimeError if it is neither 16 nor (on the CPU) 5,056 long.
        """
        if getattr(new_state, "dtype", None) != np.uint8:
            kind = getattr(new_state, "dtype", type(new_state).__name__)
            raise TypeError(f"RNG state must be a torch.ByteTensor, as get_state() returns, not {kind}")
        flat = np.ascontiguousarray(new_state).reshape(-1)
        if state.capture is None and not trace_state_clean() and not np.array_equal(flat, Generator.get_state(self)):
            demand_no_trace("set_rng_state")
        if flat.size == STATE_BYTES and self._device.type == "cpu":
            found = parsed(flat)
            self._stream = "torch"
            self._restart(found.seed, found.counter, found)
            return
        if flat.size != _COUNTER_BYTES:
            expected = f"{STATE_BYTES} or {_COUNTER_BYTES}" if self._device.type == "cpu" else _COUNTER_BYTES
            raise RuntimeError(f"Expected an RNG state of {expected} bytes, but found {flat.size}")
        seed, counter = (int(word) for word in flat.view("<u8"))
        self._stream = "threefry"
        self._restart(seed, counter)

    @volatile
    def clone_state(self) -> "Generator":
        """Another generator that will make the same draws."""
        return _rebuild(self._device, Generator.get_state(self))

    @volatile
    def get_offset(self) -> int:
        """The counter, of a generator of an accelerator; RuntimeError on the CPU, as in PyTorch."""
        self._needs_offset()
        return self._counter

    def set_offset(self, offset: int, /) -> None:
        """Set the counter, of a generator of an accelerator; RuntimeError on the CPU, as in PyTorch."""
        self._needs_offset()
        if offset < 0:
            raise RuntimeError(f"set_offset: the offset must not be negative, got {offset}")
        self._restart(self._seed, int(offset))

    def draw(self) -> np.ndarray:
        """The four uint32 words (seed high and low, counter high and low) of the next draw; for `key`."""
        with self._lock:
            seed, counter = self._seed, self._counter
            self._counter = (counter + 1) % 2**64
        mask = 0xFFFFFFFF
        return np.array((seed >> 32, seed & mask, counter >> 32, counter & mask), np.uint32)

    def _needs_offset(self) -> None:
        if self._device.type == "cpu":
            raise RuntimeError("CPU Generator does not use offset; use get_state() and set_state()")

    def _seeded(self, name: str, seed: int) -> None:
        if state.capture is None:
            demand_no_trace(name)
        self._restart(seed, 0, FRESH)

    def _restart(self, seed: int, counter: int, engine: State | None = None) -> None:
        """Set seed and counter, and PyTorch's stream where ``engine`` says so: its state, or FRESH from the seed."""
        if state.capture is not None:
            state.capture.restarted(self, seed, counter, engine is FRESH)
        with self._lock:
            self._seed, self._counter = seed, counter
            if engine is FRESH and self._engine is not None:
                self._engine.seed(seed)
            elif engine is not None and engine is not FRESH:
                self.engine.restore(engine)

    def _position(self) -> bytes:
        """Where PyTorch's stream is."""
        with self._lock:
            return self.engine.state(0, 0).tobytes()

    def _back(self, seed: int, counter: int, position: bytes) -> None:
        """Go back to a seed, a counter and a position that were those of this generator."""
        self._restart(seed, counter, parsed(np.frombuffer(position, np.uint8)))

    def __reduce__(self):
        return _rebuild, (self._device, self.get_state())


def _generator_device(given: Any) -> devices.device:
    found = devices.device("cpu") if given is None else devices.device(given)
    if found.type == "cpu":  # without asking jax: the default generator exists before any backend
        return devices.device("cpu")
    return devices.from_jax(devices.jax_device(found))


def _rebuild(where: devices.device, state: np.ndarray) -> Generator:
    new = Generator(where)
    new.set_state(state)
    return new


def key(words: jax.Array) -> jax.Array:
    """The jax key of a draw's four words; can be traced.

    The counter is enciphered by the seed (Threefry is a bijection of the counter for each
    seed), so the draws of a generator have distinct keys.
    """
    words = jax.numpy.asarray(words)
    return jax.random.wrap_key_data(threefry_2x32(words[:2], words[2:]), impl=_IMPL)


default_generator = Generator()
default_generator._stream = "torch"
_FIRST.append(default_generator)
default_generator.seed()
