"""The steps of optimizers as functions of lists of tensors, such as ``torch.optim.adam.adam``."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.amp import unscale_unless
from torchlike.optim._group import GroupOptimizer


def updates(cls: type[GroupOptimizer], **lists: str) -> Callable[[Callable], Callable]:
    """A decorator of a function that names the arguments and returns the options of the group it renames.

    Args:
        cls: the optimizer whose step the decorated function then makes.
        lists: which part of the state of ``cls`` each argument that is a list of tensors holds.

    An empty list stands for a part that these options do not need. The first arguments are the parameters and
    their gradients, which may be None; parameters and state are changed in place.
    """
    own = type(f"_{cls.__name__}OfLists", (cls,), {"_grads": lambda self, params: [self.given[id(p)] for p in params]})

    def decorate(rename: Callable) -> Callable:
        signature = inspect.signature(rename)

        @functools.wraps(rename)
        def update(*args: Any, **kwargs: Any) -> None:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            params, grads = list(bound.arguments.values())[:2]
            kept = {name: bound.arguments.pop(argument) for argument, name in lists.items()}
            group = bound.arguments | (rename(*args, **kwargs) or {})
            _check_counts(cls, kept)
            optimizer = _bare(own, params, grads, kept)
            with no_grad():
                _scaled(optimizer, grads, group)
                optimizer._step_group(group, [p for p, g in zip(params, grads, strict=True) if g is not None])
            _put_back(optimizer, params, kept)

        return update

    return decorate


def _check_counts(cls: type, kept: dict[str, list[Any]]) -> None:
    if not all(isinstance(t, Tensor) for t in kept.get("step", ())):
        raise RuntimeError(
            f"{cls.__name__}: API has changed, `state_steps` argument must contain a list of singleton tensors"
        )


def _bare(cls: Any, params: list[Tensor], grads: list[Tensor | None], kept: dict[str, list[Any]]) -> Any:
    """An optimizer without groups that holds the state in lists."""
    optimizer = cls.__new__(cls)
    optimizer.given = {id(p): g for p, g in zip(params, grads, strict=True)}
    full = {name: tensors for name, tensors in kept.items() if tensors}
    optimizer.state = {
        p: {name: tensors[i] for name, tensors in full.items() if tensors[i] is not None} for i, p in enumerate(params)
    }
    return optimizer


def _scaled(optimizer: Any, grads: list[Tensor | None], group: dict[str, Any]) -> None:
    """Divide the gradients by ``grad_scale``; where ``found_inf`` is not 0, the step changes nothing."""
    scale, found = group.get("grad_scale"), group.get("found_inf")
    given = [g for g in grads if g is not None]
    if scale is not None and given:
        unscale_unless(given, scale, 0 if found is None else found)
    optimizer._unless = found


def _put_back(optimizer: Any, params: list[Tensor], kept: dict[str, list[Any]]) -> None:
    """What the step has begun, such as the first momentum, into the lists."""
    for name, tensors in kept.items():
        for i in range(len(tensors)):
            if tensors[i] is None:
                tensors[i] = optimizer.state[params[i]].get(name)
