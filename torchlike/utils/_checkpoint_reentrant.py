"""The reentrant form of checkpointing: one node, whose backward runs a backward of its own."""

import contextlib
import warnings
from collections.abc import Iterable
from typing import Any

from torchlike._base.state import enable_grad, no_grad
from torchlike._core.autocast.settings import restored
from torchlike._core.autograd import engine
from torchlike._core.autograd.again import surroundings
from torchlike._core.autograd.backward import backward
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.generator import fork_rng, get_rng_state, set_rng_state
from torchlike._transforms.capture import remat
from torchlike.autograd.function import Function
from torchlike.utils._pytree import tree_leaves


def detach_variable(inputs: tuple) -> tuple:
    """The inputs cut from their history, with the same requires_grad."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn where no input requires grad."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=4)


class CheckpointFunction(Function):
    """A call without history whose backward runs it again with history."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.autocast, ctx.around = restored(), surroundings(run_function)
        ctx.rng = get_rng_state() if preserve_rng_state else None
        ctx.inputs = [None if isinstance(x, Tensor) else x for x in args]
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*(x for x in args if isinstance(x, Tensor)))
        with no_grad():
            out = run_function(*args)
        ctx.words = list(remat.words_of([x for x in tree_leaves(out) if isinstance(x, Tensor)]).values())
        return out

    @staticmethod
    def backward(ctx, *grads):
        if not engine.is_whole_backward():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.inputs)
        for i, t in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[i] = t
        inputs = detach_variable(tuple(inputs))
        with remat.Again(remat.fence(grads, ctx.words)) as again:
            outputs = _run_again(ctx, inputs)
            again.stop()
            _run_backward(outputs, grads)
        return None, None, *(x.grad if isinstance(x, Tensor) else None for x in inputs)


def _run_again(ctx: Any, inputs: tuple) -> tuple:
    """The outputs of the call, with history, under the random state and autocast of its forward."""
    with ctx.autocast, fork_rng() if ctx.rng is not None else contextlib.nullcontext(), enable_grad(), ctx.around():
        if ctx.rng is not None:
            set_rng_state(ctx.rng)
        outputs = ctx.run_function(*inputs)
    return (outputs,) if isinstance(outputs, Tensor) else outputs


def _run_backward(outputs: tuple, grads: tuple) -> None:
    roots = [
        (out, grad) for out, grad in zip(outputs, grads, strict=True) if isinstance(out, Tensor) and out.requires_grad
    ]
    if not roots:
        raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
    backward([out for out, _ in roots], [grad for _, grad in roots])
