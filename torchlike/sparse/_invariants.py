"""The check of the parts of new sparse tensors."""

import functools
from typing import Any

from torchlike._base.volatile import volatile
from torchlike._core.sparse.construction import INVARIANTS


class check_sparse_tensor_invariants:
    """Whether the parts of new sparse tensors are checked, where a call does not say so itself; a context or decorator.

    It is off at first; each thread has its own. Without it indices are checked by the first call that needs them.

    >>> import torchlike as torch
    >>> with torch.sparse.check_sparse_tensor_invariants():
    ...     torch.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    @staticmethod
    @volatile
    def is_enabled() -> bool:
        """Whether they are checked."""
        return INVARIANTS.enabled

    @staticmethod
    def enable() -> None:
        """Check them from now on."""
        INVARIANTS.enabled = True

    @staticmethod
    def disable() -> None:
        """Check them no more."""
        INVARIANTS.enabled = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context manager instance for "
                "context nesting."
            )
        self.saved_state = INVARIANTS.enabled
        INVARIANTS.enabled = self.state

    def __exit__(self, *exc: Any) -> None:
        assert self.saved_state is not None
        INVARIANTS.enabled, self.saved_state = self.saved_state, None

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked
