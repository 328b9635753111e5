"""Copies of a state that is saved in the background: ``torch.distributed.checkpoint.staging``."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torchlike._core.tensor.tensor import Tensor

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


def copied(x: Any) -> Any:
    """Tensors in dicts and lists, copied."""
    if isinstance(x, Tensor):
        return x.detach().clone()
    if isinstance(x, Mapping):
        return {key: copied(value) for key, value in x.items()}
    return [copied(y) for y in x] if isinstance(x, list) else x


@runtime_checkable
class AsyncStager(Protocol):
    """What copies a state for ``async_save``: ``stage`` gives the copy, or its future."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether ``synchronize_staging`` is called before ``async_save`` returns."""
        return self._synchronize_after_execute

    def stage(self, state_dict: Any) -> Any:
        """A copy of a state, or a future of one."""
        raise NotImplementedError(f"{self.__class__.__name__} must implement stage method")

    def synchronize_staging(self) -> None:
        """Wait until the state has been copied."""
        return

    def close(self) -> None:
        """Free what the stager has."""
        return


class BlockingAsyncStager(AsyncStager):
    """Copies at once. ``cache_staged_state_dict``, ``type_check``: without effect, as arrays are never changed."""

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict, self.type_check, self.state_dict_cache = cache_staged_state_dict, type_check, None

    def stage(self, state_dict: Any) -> Any:
        """A copy of a state."""
        return copied(state_dict)


@dataclass
class StagingOptions:
    """How :class:`DefaultStager` copies; but for ``use_async_staging`` without effect."""

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Takes the state as it is when ``stage`` is called, and gives a future of it, or the copy itself.

    >>> import torchlike as torch
    >>> from torchlike.distributed.checkpoint.staging import DefaultStager, StagingOptions
    >>> x, stager = torch.ones(2), DefaultStager(StagingOptions())
    >>> staged = stager.stage({"x": x})
    >>> _ = x.zero_()
    >>> staged.result()
    {'x': tensor([1., 1.])}
    >>> stager.close()
    """

    def __init__(self, config: StagingOptions = StagingOptions()) -> None:  # noqa: B008
        self._latest: Future | None = None
        self._executor = ThreadPoolExecutor(max_workers=1) if config.use_async_staging else None

    def stage(self, state_dict: Any, **kwargs: Any) -> Any:
        """A copy of a state, or its future."""
        state = copied(state_dict)  # which costs nothing: arrays are never changed
        if self._executor is None:
            return state
        self._latest = self._executor.submit(lambda: state)
        return self._latest

    def synchronize_staging(self) -> None:
        """Wait for the copy that was begun last."""
        if self._latest is not None:
            self._latest.result()

    def close(self) -> None:
        """End the thread."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)
