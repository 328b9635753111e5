"""``torch.ops.c10d`` and ``c10d_functional``: keys for tables of subclasses; collectives here take another way."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NoReturn

from torchlike._aten.packets import ops
from torchlike.distributed._calls import CHANGING
from torchlike.distributed._functional_ops import FUNCTIONAL

__all__: list[str] = []

_OTHERS = (  # which nothing is counted by
    "allgather_coalesced_ allgather_into_tensor_coalesced_ barrier check_for_nan monitored_barrier_ recv_ "
    "recv_any_source_ reduce_scatter_tensor_coalesced_ send"
)


class Collective:
    """An operator, or its overload ``default``: to be looked up and compared, not called."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    @functools.cached_property
    def default(self) -> Collective:
        return Collective(f"{self.__name__}.default")

    def overloads(self) -> list[str]:
        """The names of its overloads."""
        return ["default"]

    def __str__(self) -> str:
        return self.__name__

    def __repr__(self) -> str:
        name, default, _ = self.__name__.partition(".default")
        return f"<OpOverload(op='{name}', overload='default')>" if default else f"<OpOverloadPacket(op='{name}')>"

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"torch.ops.{self.__name__}: collectives of torchlike do not go through the dispatcher; call the function "
            "of torch.distributed"
        )


class _Keys:
    """A namespace of such operators."""

    def __init__(self, name: str, members: Iterable[str]) -> None:
        self.name = self.__name__ = name
        self.__dict__.update({member: Collective(f"{name}.{member}") for member in members})

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"'_OpNamespace' '{self.__name__}' object has no attribute '{name}'")


ops.c10d = _Keys("c10d", [*CHANGING.values(), *_OTHERS.split()])
ops.c10d_functional = _Keys("c10d_functional", [*FUNCTIONAL, "permute_tensor"])  # what XLA exchanges is counted so
