"""The level of functionalize: which tensors are its function's own; no operator here changes an array anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.levels.levels import Level

if TYPE_CHECKING:
    from torchlike._core.dispatch.layers import Call


class FunctionalLevel(Level):
    """One call of a function that is made functional."""

    functional = owns = True

    def __init__(self) -> None:
        super().__init__()
        self.own: WeakSet[Any] = WeakSet()  # the storages that the function made or was given

    def holds(self, x: Any) -> bool:
        return isinstance(x, Tensor) and x._storage in self.own and not self.left(x)

    def adopt(self, t: Tensor) -> Tensor:
        self.own.add(t._storage)
        return t

    def handle(self, made: Call) -> Any:
        held = [self.holds(x) for x in made.inputs]
        tensors = any([isinstance(x, Tensor) for x in made.inputs])
        if made.form.writes and not held[0] and any(held):
            raise RuntimeError(
                f"{made.op.name}: mutating a non-functional tensor with a functional tensor is not allowed. Please "
                "ensure that all of your inputs are wrapped inside of a functionalize() call: pass what the function "
                "changes as an argument."
            )
        out = made.run()
        if any(held) or not tensors:
            for t in out if isinstance(out, tuple | list) else (out,):
                self.own.add(t._storage)
        return out
