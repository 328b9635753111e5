"""Whether a trace runs."""

from torchlike._jit_internal import Tracing, tracing


def _get_tracing_state() -> Tracing | None:
    """Something if this thread runs what ``torch.jit.trace`` made, else None."""
    return tracing if tracing.depth else None


def _is_tracing() -> bool:
    """Whether this thread runs what ``torch.jit.trace`` made.

    >>> import torchlike as torch
    >>> torch._C._is_tracing()
    False
    """
    return bool(tracing.depth)


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""
