"""Whether other threads run Python code."""

import threading

try:
    from _thread import _count as others
except ImportError:  # no interpreter's public name tells it without a lock

    def others() -> int:
        return threading.active_count() - 1


def alone() -> bool:
    """Whether this is the only thread."""
    return others() == 0
