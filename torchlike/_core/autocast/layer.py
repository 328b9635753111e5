"""Autocast as a layer of dispatch: the inputs of a call are cast as the class of its operator says.

What is changed in place, or written into, keeps its dtype: such calls are not touched. The casts are calls
themselves: gradients flow through them, and dispatch modes see them.
"""

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import jax

from torchlike._base.dtypes import FROM_NP, dtype, float32
from torchlike._base.state import state, switch_grad
from torchlike._core.autocast.settings import Settings
from torchlike._core.dispatch.dispatch import call as dispatch
from torchlike._core.dispatch.layers import AUTOCAST, Call
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.tensor import Tensor
from torchlike._ops.cast import to_copy

_FLOATING = frozenset(d for d in FROM_NP.values() if d.is_floating_point and d.itemsize < 8)  # what is ever cast
_TYPES = {"xla": frozenset(("xla", "tpu"))}  # of devices, by what autocast calls them
_NUMBER = 2  # in KIND


@AUTOCAST.install
def _layer(call: Call) -> Any:
    classes = call.op.autocast
    if not classes or call.form.writes or call.form.outputs:
        return call.run()
    inputs = call.inputs
    settings: Settings = state.autocast
    for kind in settings.on:
        cls = classes.get("cpu" if kind == "cpu" else "cuda")
        if cls.__class__ is not str and cls is not None:
            cls = call.op.autocast_of(call.static)["cpu" if kind == "cpu" else "cuda"]
        if cls is not None:
            inputs = _CASTS[cls](call, inputs, kind, settings)
            if cls in _ROUNDED:
                return _rounded(call.run(inputs), kind, settings)
    return call.run(inputs)


def eligible(x: Any, kind: str) -> bool:
    """Whether autocast on devices of type ``kind`` may cast ``x``."""
    if KIND.get(x.__class__) == _NUMBER or not isinstance(x, Tensor) or x.dtype not in _FLOATING:
        return False
    return _place(x) in types_of(kind)


def _place(x: Tensor) -> str:
    """The type of device that ``x`` is on; what a program computes is where the program reads."""
    capture = state.capture
    while capture is not None and isinstance(x._storage.form, jax.core.Tracer):
        if capture.home is not None:
            return capture.home
        capture = capture.outer
    return x.device.type


def types_of(kind: str) -> frozenset[str]:
    """The types of the devices that autocast means by ``kind``."""
    found = _TYPES.get(kind)
    if found is None:
        found = _TYPES[kind] = frozenset((kind,))
    return found


def _castable(x: Any, target: dtype, kind: str) -> bool:
    """Whether ``x`` is to be cast: to what it is not yet."""
    return KIND.get(x.__class__) != _NUMBER and isinstance(x, Tensor) and x.dtype is not target and eligible(x, kind)


def _lower(call: Call, inputs: tuple, kind: str, settings: Settings) -> tuple:
    """The inputs in the lower precision."""
    target, keep = settings.lower(kind), settings.cache
    return tuple([lowered(x, target, keep) if _castable(x, target, kind) else x for x in inputs])


def _single(call: Call, inputs: tuple, kind: str, settings: Settings) -> tuple:
    """The inputs in float32, unless the call says in which dtype to compute."""
    if kind != "cpu" and _chosen(call):
        return inputs
    return tuple([cast(x, float32) if _castable(x, float32, kind) else x for x in inputs])


def _widest(call: Call, inputs: tuple, kind: str, settings: Settings) -> tuple:
    """The inputs in the widest of their dtypes."""
    target = low = settings.lower(kind)
    for x in inputs:
        if eligible(x, kind):
            if float32 in (found := x.dtype, target):
                target = float32
            elif found is not low:
                raise RuntimeError(
                    f"{call.op.name}: Unexpected floating ScalarType {found} under autocast to {low} where inputs are "
                    f"cast to the widest dtype; give it tensors of {low} or torch.float32, or a float32 one first"
                )
    return tuple([cast(x, target) if eligible(x, kind) else x for x in inputs])


def _of_states(call: Call, inputs: tuple, kind: str, settings: Settings) -> tuple:
    """The inputs in the lower precision, but for what is added to products: the state, of an LSTM that of the cell."""
    names = [a.name for a in call.op.declaration.dynamic]
    kept, target = "cx" if "cx" in names else "hx", settings.lower(kind)
    pairs = zip_longest(inputs, names[: len(inputs)])
    return tuple([cast(x, target) if name != kept and eligible(x, kind) else x for x, name in pairs])


def _of_inner(call: Call, inputs: tuple, kind: str, settings: Settings) -> tuple:
    """What PyTorch computes an inner product by decides: a product of numbers, of vectors or of matrices."""
    ranks = [x.dim() for x in inputs if isinstance(x, Tensor)]
    if 0 in ranks:
        return inputs
    if kind != "cpu":
        return _widest(call, inputs, kind, settings)
    return _lower(call, inputs, kind, settings) if max(ranks) > 1 else inputs


def _refuse(call: Call, inputs: tuple, kind: str, settings: Settings) -> tuple:
    if kind == "xla":
        return _single(call, inputs, kind, settings)
    raise RuntimeError(
        f"{call.op.name}: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their "
        "gradients overflow in lower precision. Use binary_cross_entropy_with_logits or BCEWithLogitsLoss, which take "
        "what you give to the sigmoid and are safe, or compute the loss outside of autocast."
    )


def _rounded(result: Tensor, kind: str, settings: Settings) -> Tensor:
    """What was computed in float32, in the lower precision: PyTorch ends such a function with a product."""
    return cast(result, settings.lower(kind)) if eligible(result, kind) else result


_CASTS: dict[str, Callable[[Call, tuple, str, Settings], tuple]] = {
    "lower_precision_fp": _lower, "fp32": _single, "promote": _widest, "banned": _refuse,
    "states": _of_states, "fp32_rounded": _single, "rounded": lambda call, inputs, kind, settings: inputs,
    "inner": _of_inner,
}  # fmt: skip
_ROUNDED = frozenset(("rounded", "fp32_rounded"))


def _chosen(call: Call) -> bool:
    """Whether a call names the dtype that it computes in."""
    static = call.op.declaration.static
    return any(a.kind == "dtype" and x is not None for a, x in zip(static, call.static, strict=False))


def cast(x: Tensor, target: dtype) -> Tensor:
    """``x`` in another dtype."""
    return x if x.dtype is target else dispatch(to_copy, (x,), (target,))


def lowered(x: Tensor, target: dtype, keep: bool) -> Tensor:
    """``x`` in the lower precision: a weight is cast once in the outermost context, if ``keep`` says so.

    A weight is a leaf of float32 that requires grad and is no view. The cast that is kept has history, whoever asks
    for it first.
    """
    if x.dtype is target:
        return x
    weight = x.dtype is float32 and x._rg and x._edge is None and x._diff is None
    if not (weight and keep) or state.inference or state.grad is None:
        return dispatch(to_copy, (x,), (target,))
    casts = state.autocast_casts
    if casts is None:
        casts = state.autocast_casts = {}
    found = casts.get((id(x), target))
    if found is None:
        before = switch_grad(True)
        try:
            found = casts[id(x), target] = x, dispatch(to_copy, (x,), (target,))
        finally:
            switch_grad(before)
    return found[1]


__all__ = ["cast", "eligible", "lowered", "types_of"]
