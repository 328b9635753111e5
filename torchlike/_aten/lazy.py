"""Lazy conjugates and negatives before operators that take elements as they lie: copies of them, which handlers see."""

from collections.abc import Callable
from typing import Any

from torchlike._aten.packets import OpOverload
from torchlike._core.tensor.tensor import Tensor
from torchlike._ops.view import is_conj, is_neg

# What takes either as it is, beside views; and one of them.
EITHER = frozenset(
    "clone copy_ detach_ empty_like full_like linalg_solve_triangular resize_ set_ squeeze_ t_ transpose_ unsqueeze_ "
    "as_strided_ _unsafe_view".split()
)
CONJUGATES = frozenset(
    "mm bmm addmm addmm_ baddbmm baddbmm_ dot vdot conj_physical conj_physical_ _conj_physical".split()
)
NEGATIVES = frozenset(["neg_"])


def copied(func: OpOverload, args: tuple, kwargs: dict, clone: Callable[[Tensor], Tensor]) -> Any:
    """(args, kwargs, {id of a copy: tensor}), copies of what ``func`` does not take lazily; None if it takes all."""
    name = func._opname
    if func.is_view or name in EITHER or func.namespace != "aten":
        return None
    copies: dict[int, Tensor] = {}

    def own(x: Any) -> Any:
        if isinstance(x, Tensor):
            lazy = name not in CONJUGATES and is_conj(x) or name not in NEGATIVES and is_neg(x)
            if not lazy:
                return x
            new = clone(x)
            copies[id(new)] = x
            return new
        return [own(y) for y in x] if isinstance(x, list | tuple) else x

    args, kwargs = tuple([own(x) for x in args]), {k: own(x) for k, x in kwargs.items()}
    return (args, kwargs, copies) if copies else None


def written(func: OpOverload, copies: dict[int, Tensor], out: Any, write: Callable[[Tensor, Tensor], Any]) -> Any:
    """What a call on copies gives, where those that it has changed are written back."""
    if not func._schema.is_mutable:
        return out
    for t in out if isinstance(out, list | tuple) else [out]:
        if id(t) in copies:
            write(copies[id(t)], t)
    back = lambda t: copies.get(id(t), t)  # noqa: E731
    return type(out)(map(back, out)) if isinstance(out, list | tuple) else back(out)
