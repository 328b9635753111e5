"""Inference mode as a layer of dispatch: nothing is recorded, and what is made is an inference tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlike._base.state import state
from torchlike._core.dispatch.layers import INFERENCE
from torchlike._core.tensor.storage import UNTRACKED
from torchlike._core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from torchlike._core.dispatch.layers import Call


@INFERENCE.install
def _layer(call: Call) -> Any:
    """Run the call with recording off; its results are inference tensors unless they alias an input."""
    grad = state.grad
    state.grad = False
    try:
        out = call.run()
    finally:
        state.grad = grad
    if call.form.fresh:
        for t in out if isinstance(out, tuple) else (out,):
            if isinstance(t, Tensor):
                t._vc = UNTRACKED
    return out


def is_inference(input: Tensor) -> bool:
    """Whether ``input`` was made in inference mode."""
    if not isinstance(input, Tensor):
        raise TypeError(f"is_inference(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input.is_inference()
