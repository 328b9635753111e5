"""Whether a trace runs."""

from torchlike._jit_internal import Tracing, tracing


def _get_tracing_state() -> Tracing | None:
    """Something if this thread runs what ``torch.jit.trace`` made, else None."""
    return tracing if tracing.depth else None


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""
