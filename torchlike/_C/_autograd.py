"""torch._C._autograd: default hooks of saved tensors, set by a call alone, and version counters."""

from collections.abc import Iterable

from torchlike._base.state import state
from torchlike._base.volatile import volatile
from torchlike._core.autograd.saved_tensors import SavedTensor
from torchlike._core.autograd.saved_tensors import pop as _pop_saved_tensors_default_hooks
from torchlike._core.autograd.saved_tensors import push as _push_saved_tensors_default_hooks
from torchlike._core.tensor.mutation import restore_version
from torchlike._core.tensor.tensor import Tensor

__all__ = [
    "SavedTensor",
    "_get_current_graph_task_keep_graph",
    "_pop_saved_tensors_default_hooks",
    "_push_saved_tensors_default_hooks",
    "_saved_tensors_hooks_disable",
    "_saved_tensors_hooks_enable",
    "_saved_tensors_hooks_get_disabled_error_message",
    "_saved_tensors_hooks_is_enabled",
    "_unsafe_set_version_counter",
]


def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether default hooks may be set in this thread."""
    return state.pack_refused is None


def _saved_tensors_hooks_disable(error_message: str) -> None:
    """From now on setting default hooks raises RuntimeError with this message; as it does now if some are set."""
    if state.pack is not None:
        raise RuntimeError(error_message)
    state.pack_refused = error_message


def _saved_tensors_hooks_enable() -> None:
    """Undo ``_saved_tensors_hooks_disable``."""
    state.pack_refused = None


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    """The message given to ``_saved_tensors_hooks_disable``, or None."""
    return state.pack_refused


@volatile
def _get_current_graph_task_keep_graph() -> bool:
    """Whether the backward that runs retains the graph; True outside of one."""
    return state.task is None or state.task.keep


def _unsafe_set_version_counter(tensors: Iterable[Tensor], versions: Iterable[int]) -> None:
    """Set what ``_version`` of each tensor says: a change that should not count can be hidden so."""
    for t, version in zip(tensors, versions, strict=True):
        restore_version(t, version)
