"""Timing side by side: interleaved rounds, best of each, so that the machine's moods cancel."""

import gc
import time

QUICK = 4  # calls after which recorded execution has compiled a step and runs it


def _warm(f, calls, seconds):
    """Call ``f`` some times; the seconds that one call takes in the end."""
    start = time.perf_counter()
    spent = []
    while len(spent) < min(2, calls) or (len(spent) < calls and time.perf_counter() - start < seconds):
        begin = time.perf_counter()
        f()
        spent.append(time.perf_counter() - begin)
    return min(spent[len(spent) // 2 :])


def best_times(
    cases, *, rounds=40, fewest=5, seconds=0.02, before=None, calls=40, warm=1.0, budget=15.0, quick=False
):  # fmt: skip
    """{name: seconds per call} of ``{name: function}``; each round runs every case for about ``seconds``.

    ``before`` maps names to functions that are called ahead of a case's turn. ``calls`` of each case, or ``warm``
    seconds, pass before anything counts; with 0 calls none does, and each case is called once in a round. After
    ``budget`` seconds there are no more rounds, if there were ``fewest``. ``quick``: a few calls of each, only to see
    that they run.
    """
    if quick:
        rounds, seconds, calls = 1, 0, QUICK
    before = before or {}
    counts = {}
    for name, f in cases.items():
        before.get(name, int)()
        counts[name] = max(1, int(seconds / _warm(f, calls, warm))) if calls else 1
    best = dict.fromkeys(cases, float("inf"))
    if not quick:
        gc.collect()
        gc.freeze()  # the collector goes on, as it does for users, but not over what the imports have made
    begin = time.perf_counter()
    for i in range(rounds):
        if i >= fewest and time.perf_counter() - begin > budget:
            break
        for name, f in cases.items():
            before.get(name, int)()
            n = counts[name]
            if n > 1:
                f()
            start = time.perf_counter()
            for _ in range(n):
                f()
            best[name] = min(best[name], (time.perf_counter() - start) / n)
    if not quick:
        gc.unfreeze()
    return best
