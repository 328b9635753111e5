"""Which arguments of an operator's function are numbers that reach its kernel as runtime values."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torchlike._core.overrides.doors import ops_of
from torchlike._transforms.interpreter.trust import own

if TYPE_CHECKING:
    from torchlike._decl.op import Op
    from torchlike._decl.schema import Arg

# Functions written by hand that hand such numbers on as they are.
_BY_HAND: dict[str, frozenset[int | str]] = {
    name: frozenset(places)
    for names, places in (
        (("add", "sub"), (1, "other", "alpha")), (("addcmul", "addcdiv"), ("value",)), (("elu",), (1, "alpha")),
        (("clamp", "clip"), (1, 2, "min", "max")), (("where",), (1, 2, "input", "other")),
        (("leaky_relu",), (1, "negative_slope")),
    )
    for name in names
}  # fmt: skip


@functools.lru_cache(2048)
def live_places(f: Any) -> frozenset[int | str]:
    """The positions and names of the arguments of ``f``, a function or method, that may be live numbers."""
    ops = ops_of(f)
    if ops is None:
        known = _BY_HAND.get(getattr(f, "__name__", "").removesuffix("_"), frozenset())
        return known if known and own(getattr(f, "__module__", None) or "") else frozenset()
    found: set[int | str] = set()
    others: set[int | str] = set()
    for op in ops:
        for i, arg in enumerate(op.schema.args):
            where = {arg.public_name, arg.name, *(() if arg.kwarg_only else (i,))}
            (found if _is_live(op, arg) else others).update(where)
    return frozenset(found - others)


@functools.lru_cache(2048)
def held_places(f: Any) -> frozenset[int | str]:
    """Those of :func:`live_places` whose numbers an operator refuses where its dtype does not hold them."""
    places, ops = live_places(f), ops_of(f)
    if ops is None:
        return places
    names = {(op, op.dynamic[at].name) for op in ops for at, _ in op.held}
    found = {
        where
        for op in ops
        for i, arg in enumerate(op.schema.args)
        if (op, arg.name) in names
        for where in (i, arg.name, arg.public_name)
    }
    return places & found


def _is_live(op: Op, arg: Arg) -> bool:
    """Whether a number that is this argument is a runtime value of the kernel."""
    if arg.is_list or arg not in op.dynamic:
        return False
    return arg.name in op.numbers if arg.is_tensor else arg.kind in ("Scalar", "float")
