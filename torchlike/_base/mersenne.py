"""The words of MT19937 as PyTorch's CPU generator hands them out, and the bytes that it keeps its state in.

The generator itself is numpy's. What is PyTorch's is how a seed starts it, how words become fractions, the second
normal sample of a pair that is kept for the next call, and the layout of the 5,056 bytes, which was found by looking
at states before and after draws (tests/test_torch_rng.py).
"""

from typing import Any, NamedTuple

import numpy as np

STATE_BYTES = 5056
_KEY = 624  # words of the generator's state
_LAYOUT = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "key", "counter", "normal", "has_normal"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", (_KEY,)), "<u8", "<f8", "<i4"],
        "offsets": [0, 8, 12, 16, 24, 5016, 5024, 5040],
        "itemsize": STATE_BYTES,
    }
)
_FEW = 512  # up to here ``random_raw`` is faster: it has no arguments to check
_CHUNK = 1 << 15  # samples made at a time, so that what is between stays in the cache


class State(NamedTuple):
    """What 5,056 bytes say. ``counter`` is of torchlike's own, in bytes that PyTorch writes as zeros and ignores."""

    seed: int
    counter: int
    key: Any
    position: int
    fresh: bool
    normal: float | None


class Mersenne:
    """MT19937 started by a seed (its low 32 bits).

    Attributes:
        normal: the second sample of a pair of normal ones of which the first was used, or None.
        pool: what was made of words that :meth:`ahead` gave, for who made it.
    """

    __slots__ = ("_bits", "_source", "_raw", "_fresh", "_ahead", "_at", "_mark", "normal", "pool")
    _at: int
    _ahead: Any  # the words that were made, or None
    _mark: Any  # numpy's state before they were
    pool: Any

    def __init__(self, seed: int) -> None:
        self._bits = np.random.MT19937(0)
        self._source = np.random.RandomState(self._bits)
        self._raw = self._bits.random_raw
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Start over from ``seed``."""
        self._source.seed(seed & 0xFFFFFFFF)
        self._fresh = True
        self._drop()
        self.normal: float | None = None

    def words(self, n: int) -> np.ndarray:
        """The next ``n`` words, uint32."""
        if n <= _FEW:
            return self.long(n).astype(np.uint32)
        if self._ahead is not None:
            return self.long(n).astype(np.uint32)
        self._fresh = False
        return self._source.randint(0, 1 << 32, size=n, dtype=np.uint32)

    def long(self, n: int) -> np.ndarray:
        """The next ``n`` words, each as a uint64."""
        self._fresh = self._fresh and n == 0
        return self._raw(n) if self._ahead is None else self._held(n)

    def ahead(self, n: int, least: int) -> tuple[np.ndarray, int]:
        """(words, where the next one is among them): ``least`` words or more that were not handed out, ``n`` if made.

        The array is another one whenever words were made, so that what was made of them is known by it.
        """
        words = self._ahead
        if words is None or len(words) - self._at < least:
            self._settle()
            self._mark = self._bits.state
            words = self._ahead = self._raw(n)
        return words, self._at

    def skip(self, n: int) -> None:
        """Let ``n`` of the words that :meth:`ahead` gave be handed out."""
        self._fresh = False
        self._at += n

    def _held(self, n: int) -> np.ndarray:
        """The next ``n`` words, of which some were made before."""
        start, words = self._at, self._ahead
        self._at = start + n
        if self._at < len(words):
            return words[start : self._at].copy()
        self._drop()
        return np.concatenate([words[start:], self._raw(start + n - len(words))])

    def _settle(self) -> None:
        """Let numpy's generator be where the words that were handed out end."""
        if self._ahead is not None and self._at < len(self._ahead):
            self._bits.state = self._mark
            self._raw(self._at)
        self._drop()

    def _drop(self) -> None:
        self._ahead = self._mark = self.pool = None
        self._at = 0

    def pairs(self, n: int) -> np.ndarray:
        """``n`` numbers of 64 bits, each of two words, the upper one first."""
        w = self.long(2 * n)
        return (w[0::2] << np.uint64(32)) | w[1::2]

    def floats(self, n: int) -> np.ndarray:
        """``n`` uniform float32 of [0, 1): 24 bits of a word each."""
        out = np.empty(n, np.float32)
        for part in chunks(out):
            np.multiply(self.words(part.size) & np.uint32(0xFFFFFF), np.float32(2.0**-24), out=part, casting="unsafe")
        return out

    def doubles(self, n: int) -> np.ndarray:
        """``n`` uniform float64 of [0, 1): 53 bits of two words each."""
        if n <= _FEW:
            return as_doubles(self.long(2 * n))
        out = np.empty(n, np.float64)
        for part in chunks(out):
            np.multiply(self.pairs(part.size) & np.uint64(2**53 - 1), 2.0**-53, out=part)
        return out

    def state(self, seed: int, counter: int) -> np.ndarray:
        """The state as PyTorch's bytes, uint8."""
        self._settle()
        found = self._bits.state["state"]
        record = np.zeros((), _LAYOUT)
        record["seed"], record["counter"], record["seeded"], record["key"] = seed, counter, 1, found["key"]
        if self._fresh:
            record["left"] = 1
        else:
            record["left"], record["next"] = _KEY + 1 - found["pos"], found["pos"]
        if self.normal is not None:
            record["normal"], record["has_normal"] = self.normal, 1
        return np.frombuffer(bytearray(record.tobytes()), np.uint8)

    def restore(self, given: State) -> None:
        """Go back to a state that :func:`parsed` read."""
        self._drop()
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": given.key, "pos": given.position}}
        self._fresh, self.normal = given.fresh, given.normal


def as_doubles(words: np.ndarray) -> np.ndarray:
    """Uniform float64 of [0, 1), each 53 bits of two words."""
    pairs = (words[0::2] << np.uint64(32)) | words[1::2]
    return (pairs & np.uint64(2**53 - 1)) * 2.0**-53


def parsed(flat: np.ndarray) -> State:
    """The state that 5,056 bytes hold. RuntimeError if no generator could have written them."""
    record = flat.view(_LAYOUT)[0]
    left, following, seeded = int(record["left"]), int(record["next"]), int(record["seeded"])
    if seeded != 1 or not 0 < left <= _KEY or following > _KEY or (following and left + following != _KEY + 1):
        raise RuntimeError("Invalid mt19937 state: these 5056 bytes are not what get_state() returns")
    normal = float(record["normal"]) if record["has_normal"] else None
    fresh = following == 0
    return State(
        int(record["seed"]), int(record["counter"]), record["key"].astype(np.uint32), following or _KEY, fresh, normal
    )


def chunks(out: np.ndarray) -> list:
    """Views of a flat array, one after the other, that are small enough for the cache."""
    return [out[k : k + _CHUNK] for k in range(0, out.size, _CHUNK)]
