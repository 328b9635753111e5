"""Inference mode as a layer of dispatch: nothing is recorded, and what is made is an inference tensor."""

from torchlike._base.state import INFERENCE, state
from torchlike._core.dispatch import call
from torchlike._core.slow import install_layer
from torchlike._core.storage import UNTRACKED
from torchlike._core.tensor import Tensor


def _layer(run, op, inputs, static):
    """Run the call with recording off; results of ``call`` are new tensors, all others alias an input."""
    grad = state.grad
    state.slow &= ~INFERENCE
    state.grad = False
    try:
        out = run(op, inputs, static)
    finally:
        state.slow |= INFERENCE
        state.grad = grad
    if run is call:
        for t in out if isinstance(out, tuple) else (out,):
            if isinstance(t, Tensor):
                t._vc = UNTRACKED
    return out


def is_inference(input):
    """Whether ``input`` was made in inference mode."""
    if not isinstance(input, Tensor):
        raise TypeError(f"is_inference(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input.is_inference()


install_layer(INFERENCE, _layer)
