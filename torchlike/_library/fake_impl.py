"""Fake implementations: what an operator returns in shape, dtype and device, without the numbers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


class FakeImplCtx:
    """What ``torch.library.get_ctx()`` gives inside a fake implementation."""

    def __init__(self, name: str) -> None:
        self._name = name

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> NoReturn:
        """A length that depends on values.

        Raises:
            RuntimeError: always: a program of XLA has fixed shapes.
        """
        raise RuntimeError(
            f"{self._name}: the operator may return an output Tensor with data-dependent shape, which neither meta "
            "tensors nor compiled programs can hold. If its shape does not depend on values, let the fake "
            "implementation not call torch.library.get_ctx()."
        )

    create_unbacked_symint = new_dynamic_size


class _Current(threading.local):
    ctx: FakeImplCtx | None = None


_current = _Current()


def get_ctx() -> FakeImplCtx | None:
    """The context of the fake implementation that runs; None outside of one."""
    return _current.ctx


@contextmanager
def context(name: str) -> Iterator[None]:
    """What runs inside is a fake implementation of the operator."""
    before, _current.ctx = _current.ctx, FakeImplCtx(name)
    try:
        yield
    finally:
        _current.ctx = before


def run(name: str, fake: Any, args: tuple, kwargs: dict) -> Any:
    """What the fake implementation returns."""
    with context(name):
        return fake(*args, **kwargs)
