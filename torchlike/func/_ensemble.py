"""``stack_module_state`` for ensembles of models, and ``debug_unwrap``."""

from collections.abc import Iterable, Sequence
from typing import Any

from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.levels.inspection import unwrapped


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of models of one class, each stacked along a new first axis.

    With :func:`functional_call` and :func:`vmap` they run all models at once. The stacked parameters are leaves that
    require grad as those of the models do.

    Args:
        models: a list or ModuleList of modules of the same class, all in training or all in evaluation mode.

    Raises RuntimeError for no models, models of several classes or modes, parameters that differ in ``requires_grad``.

    >>> import torchlike as torch
    >>> params, buffers = torch.func.stack_module_state([torch.nn.Linear(2, 3) for _ in range(5)])
    >>> params["weight"].shape
    torch.Size([5, 3, 2])
    """
    models = list(models)
    if not models:
        raise RuntimeError(f"stack_module_state: Expected at least one model, got {len(models)}.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    return _stacked([dict(m.named_parameters()) for m in models]), _stacked([dict(m.named_buffers()) for m in models])


def _stacked(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: _joined(name, [state[name] for state in states]) for name in states[0]}


def _joined(name: str, tensors: Iterable[Tensor]) -> Tensor:
    tensors = list(tensors)
    wants = tensors[0].requires_grad
    if any(t.requires_grad is not wants for t in tensors):
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    return FUNCTIONS["stack"]([t.detach() for t in tensors]).requires_grad_(wants)


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The tensor that one inside of :func:`vmap`, :func:`grad` or another transform stands for; for debugging.

    Of a mapped tensor that has all examples. Computing with it, or changing it, is not followed by the transform.

    Args:
        recurse: go through all transforms, not just the innermost one.

    Raises TypeError for what is no tensor.

    >>> import torchlike as torch
    >>> _ = torch.vmap(lambda x: print(torch.func.debug_unwrap(x).shape) or x)(torch.ones(3))
    torch.Size([3])
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"debug_unwrap(): argument 'tensor' must be a torch.Tensor, not {type(tensor).__name__}")
    while (inner := unwrapped(tensor)) is not None:
        tensor = inner
        if not recurse:
            break
    return tensor
