"""``functionalize``."""

import functools
from collections.abc import Callable
from typing import Any

from torchlike._aten.packets import ops
from torchlike._base.state import below_autograd, followed, state
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.levels.functional import FunctionalLevel
from torchlike.func._functional_mode import FunctionalMode, functional_calls
from torchlike.utils._pytree import tree_flatten, tree_map


def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """``func``, whose calls are shown to dispatch modes around it, such as that of ``make_fx``, as functional ones.

    What ``func`` changes in place gets its values from an operator that changes nothing; where that was a view, the
    others of the same memory are made anew (``select_scatter`` ...). An argument that was changed is written once, by
    a ``copy_`` at the end. Without a mode ``func`` runs as it is, at a level of its own: here no operator changes an
    array.

    Args:
        remove: ``"mutations"``, or ``"mutations_and_views"`` to see ``view_copy``, ``select_copy`` ... for views too.

    Raises, when called, RuntimeError for another value of ``remove``, for ``backward()`` and ``requires_grad_()``
    inside, and for a change by an argument of what is none; under a mode NotImplementedError for an operator
    in place that has no functional form, and for a view in place whose base cannot be computed from it.

    >>> import torchlike as torch
    >>> from torchlike.fx.experimental.proxy_tensor import make_fx
    >>> torch.func.functionalize(lambda x: x.clone().add_(1))(torch.zeros(2))
    tensor([1., 1.])
    >>> print(make_fx(torch.func.functionalize(lambda x: x.add_(1)))(torch.zeros(2)).code.strip())
    def forward(self, x_1):
        add = torch.ops.aten.add.Tensor(x_1, 1)
        copy_ = torch.ops.aten.copy_.default(x_1, add);  x_1 = copy_ = None
        return add
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if remove not in ("mutations", "mutations_and_views"):
            raise RuntimeError(
                f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options "
                "are 'mutations' (no operator changes a tensor) and 'mutations_and_views' (and none gives a view)."
            )
        tensors = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, Tensor)]
        if not state.dispatch_modes:
            with FunctionalLevel() as level:
                for t in tensors:
                    level.adopt(t)
                return followed(func)(*args, **kwargs)
        given = {id(t): (t, (tuple(t.shape), t.stride())) for t in tensors}
        with functional_calls(remove == "mutations_and_views") as mode:
            out = followed(func)(*args, **kwargs)
        with below_autograd():
            return _left(mode, out, given)

    return wrapped


def _left(mode: FunctionalMode, out: Any, given: dict) -> Any:
    """The results as the modes below know them, and what was changed, written to where it was."""
    shown = tree_map(lambda t: _result(mode, t), out)
    if state.trace is not None:
        mode.hand_over(state.trace)
    places = list(given)
    for t in sorted(mode.changed(), key=lambda t: places.index(id(t)) if id(t) in given else len(places)):
        _put_back(mode, t, given.get(id(t), (t, (tuple(t.shape), t.stride())))[1])
    return shown


def _result(mode: FunctionalMode, t: Any) -> Any:
    """What stands for a result; itself, where that would lose its history."""
    value = mode.stand(t)
    if value is t or not t.requires_grad:
        return value
    return t


def _put_back(mode: FunctionalMode, t: Tensor, kind: tuple) -> None:
    """Write to a tensor from outside what stands for it."""
    value = mode.stand(t)
    target = t if kind == (tuple(t.shape), t.stride()) else ops.aten.as_strided_.default(t, t.shape, value.stride())
    ops.aten.copy_.default(target, value)
