"""Small draws of normal float32 samples: made for many draws at once, since numpy takes hardly longer for these.

Note [Pool]
~~~~~~~~~~~
Some forty operations of numpy make the samples of 32 words in 90 us, and those of 512 in 110. So words are made ahead
(``Mersenne.ahead``), and samples of all of them as if draws like this one followed; the next draw finds its own there
if it starts where one was foreseen. Whatever else is drawn in between takes its words from those made ahead.
"""

from typing import NamedTuple

import numpy as np

from torchlike._base.mersenne import Mersenne
from torchlike._functions.box_muller import scaled, standard

LARGEST = 2048  # samples of a draw
_LEAST, _DRAWS = 512, 4  # words made ahead, or those of so many draws
_MOST = 4096  # words made ahead where many draws follow each other: twice as many each time


class _Pool(NamedTuple):
    """Samples of ``words`` from ``start`` on: a row for every ``step`` of these, made for draws of kind ``key``."""

    words: np.ndarray
    start: int
    step: int
    key: tuple
    rows: np.ndarray


def few_normals(e: Mersenne, n: int, apart: bool, mean: float, std: float) -> np.ndarray:
    """``n`` samples, 16 to LARGEST: groups of 16 words, and where some are left over the last 16 samples once more.

    ``apart``: the words of these follow those of all ``n`` samples; else they follow the whole groups.
    """
    whole = n // 16 * 16
    rest = n - whole
    taken = n if not rest else (n if apart else whole) + 16
    key = (n, apart) if rest else ()
    more = 0 if e.pool is None or e.pool.key != key else min(2 * len(e.pool.words), _MOST)
    words, at = e.ahead(max(_LEAST, _DRAWS * taken, more), taken)
    pool = e.pool
    if pool is None or not _foreseen(pool, words, at, key, taken):
        pool = e.pool = _made(words, at, n, taken, key)
    first = (at - pool.start) // pool.step
    found = pool.rows[first : first + taken // pool.step]
    e.skip(taken)
    return scaled(found.reshape(-1), mean, std)


def _foreseen(pool: _Pool, words: np.ndarray, at: int, key: tuple, taken: int) -> bool:
    reached = pool.start + len(pool.rows) * pool.step
    same = pool.words is words and pool.key == key
    return same and at >= pool.start and (at - pool.start) % pool.step == 0 and at + taken <= reached


def _made(words: np.ndarray, at: int, n: int, taken: int, key: tuple) -> _Pool:
    step = taken if key else 16
    rows = words[at : at + (len(words) - at) // step * step].reshape(-1, step)
    if not key:
        return _Pool(words, at, step, key, standard(rows))
    whole = n // 16 * 16
    groups = standard(np.concatenate([rows[:, :whole], rows[:, -16:]], 1))
    return _Pool(words, at, step, key, np.concatenate([groups[:, : n - 16], groups[:, -16:]], 1))
