"""Objects that tell and take their state: ``torch.distributed.checkpoint.stateful``."""

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """What has ``state_dict()`` and ``load_state_dict(state)``; checkpoints save and load it by these.

    >>> import torchlike as torch
    >>> isinstance(torch.nn.Linear(1, 1), torch.distributed.checkpoint.stateful.Stateful)
    True
    """

    def state_dict(self) -> dict[str, Any]:
        """The state, as a dict."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
