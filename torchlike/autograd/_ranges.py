"""``torch.ops.profiler``: stretches of a profile that begin and end by calls."""

from torchlike.autograd.profiler import record_function


def _record_function_enter(name: str, args: str | None = None) -> record_function:
    """Begin a stretch ``name`` of this thread's profile; what it gives ends it.

    >>> import torchlike as torch
    >>> handle = torch.ops.profiler._record_function_enter("load")
    >>> torch.ops.profiler._record_function_exit(handle)
    """
    return record_function(name, args).__enter__()


_record_function_enter_new = _record_function_enter


def _record_function_exit(handle: record_function) -> None:
    """End the stretch that ``handle`` began."""
    if not isinstance(handle, record_function):
        raise RuntimeError(f"_record_function_exit expects what _record_function_enter gave, not {handle!r}")
    handle.__exit__(None, None, None)
