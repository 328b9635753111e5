"""``torch.ops.higher_order``: the operators of control flow over flat lists of tensors."""

from collections.abc import Callable, Sequence
from typing import Any

from torchlike._aten.packets import ops
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.control import branches, loops


class HigherOrderNamespace:
    """The operators of control flow as PyTorch's functions call them: flat, with the captured tensors given."""

    cond = staticmethod(branches.cond)

    @staticmethod
    def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: tuple, additional_inputs: tuple = ()) -> Any:
        """``carried = body_fn(*carried, *additional)`` while ``cond_fn(*carried, *additional)``."""
        return branches.while_loop(
            lambda *carried: cond_fn(*carried, *additional_inputs),
            lambda *carried: body_fn(*carried, *additional_inputs),
            carried_inputs,
        )

    @staticmethod
    def scan(
        combine_fn: Callable, init: Sequence[Tensor], xs: Sequence[Tensor], additional_inputs: Sequence = ()
    ) -> tuple[Tensor, ...]:
        """``(*last carry, *stacked results)``; ``combine_fn(*carry, *x, *additional)`` gives ``[*carry, *y]``."""

        def step(carry: list, x: list) -> tuple[list, list]:
            out = list(combine_fn(*carry, *x, *additional_inputs))
            return out[: len(carry)], out[len(carry) :]

        last, ys = loops.scan(step, list(init), list(xs))
        return (*last, *ys)

    @staticmethod
    def associative_scan(combine_fn: Callable, xs: Sequence[Tensor], additional_inputs: Sequence = ()) -> list[Tensor]:
        """``combine_fn(*a, *b, *additional)`` gives a list like ``xs``; scanned along the first dimension."""
        return loops.associative_scan(
            lambda a, b: list(combine_fn(*a, *b, *additional_inputs)), list(xs), 0, combine_mode="generic"
        )

    @staticmethod
    def map_impl(f: Callable, xs: Sequence[Tensor], pos_args: Sequence = ()) -> Any:
        """``f(*x, *pos_args)`` for the slices of ``xs``, stacked."""
        return loops.map(lambda x, *args: f(*x, *args), list(xs), *pos_args)

    def __repr__(self) -> str:
        return "torch.ops.higher_order"


ops.higher_order = HigherOrderNamespace()
