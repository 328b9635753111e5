"""Timing side by side: interleaved rounds, best of each, so that the machine's moods cancel."""

import gc
import time


def best_times(cases, *, rounds=15, seconds=0.02):
    """{name: seconds per call} of ``{name: function}``; each round runs every case once."""
    counts = {}
    for name, f in cases.items():
        for _ in range(20):
            f()
        start = time.perf_counter()
        for _ in range(20):
            f()
        counts[name] = max(1, int(seconds / ((time.perf_counter() - start) / 20)))
    best = dict.fromkeys(cases, float("inf"))
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, f in cases.items():
                n = counts[name]
                start = time.perf_counter()
                for _ in range(n):
                    f()
                best[name] = min(best[name], (time.perf_counter() - start) / n)
    finally:
        gc.enable()
    return best


def table(title, header, rows):
    """Print a small aligned table."""
    print(f"\n{title}")
    rows = [header, *[[f"{c:.2f}" if isinstance(c, float) else str(c) for c in row] for row in rows]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    for row in rows:
        print(
            "  "
            + "  ".join(
                c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
            )
        )
