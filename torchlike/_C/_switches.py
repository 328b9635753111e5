"""Modes set by a call alone."""

from torchlike._base.state import state, switch_grad


def _set_grad_enabled(enabled: bool) -> None:
    """Set whether operators record nodes in this thread.

    >>> import torchlike as torch
    >>> torch._C._set_grad_enabled(True)
    """
    if not isinstance(enabled, bool):
        raise TypeError(
            f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(enabled).__name__}"
        )
    switch_grad(enabled)


def _set_multithreading_enabled(enabled: bool) -> None:
    """Set the flag of ``torch.autograd.set_multithreading_enabled`` in this thread."""
    if not isinstance(enabled, bool):
        raise TypeError(
            f"set_multithreading_enabled(): argument 'enabled' (position 1) must be bool, not {type(enabled).__name__}"
        )
    state.multithreading = enabled
