"""The transforms where functorch has them, and the steps that programs have taken from their inside."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.levels.nesting import (
    _grad_decrement_nesting,
    _grad_increment_nesting,
    _jvp_decrement_nesting,
    _jvp_increment_nesting,
    _wrap_for_grad,
)
from torchlike.func import debug_unwrap as debug_unwrap
from torchlike.func import functionalize as functionalize
from torchlike.func import grad, grad_and_value
from torchlike.func import hessian as hessian
from torchlike.func import jacfwd as jacfwd
from torchlike.func import jacrev as jacrev
from torchlike.func import jvp as jvp
from torchlike.func import linearize as linearize
from torchlike.func import vjp as vjp
from torchlike.func import vmap as vmap
from torchlike.func._arguments import positions, replaced, selected
from torchlike.func._grad import vjp_of
from torchlike.func._jacobians import _basis, demand_real
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
argnums_t = int | tuple[int, ...]


def _slice_argnums(args: tuple, argnums: argnums_t, as_tuple: bool = True) -> Any:
    """The arguments ``argnums``, in a tuple unless ``as_tuple`` is false; RuntimeError for those that do not fit.

    >>> from torchlike._functorch.eager_transforms import _slice_argnums
    >>> _slice_argnums(("a", "b", "c"), (0, -1))
    ('a', 'c')
    """
    found = selected(args, argnums)
    return (found,) if isinstance(argnums, int) and as_tuple else found


def _validate_and_wrap_argnums(argnums: argnums_t, num_args: int) -> argnums_t:
    """``argnums``, none of them negative; RuntimeError for those that do not fit."""
    return positions((argnums,), num_args)[0] if isinstance(argnums, int) else positions(argnums, num_args)


def _replace_args(old_args: tuple, new_args: tuple, argnums: argnums_t) -> tuple:
    """The arguments, those of ``argnums`` replaced by the new ones."""
    if isinstance(argnums, int) and len(new_args) != 1:
        raise RuntimeError(f"new_args should be of size 1, was of size {len(new_args)}")
    return replaced(old_args, argnums, new_args[0] if isinstance(argnums, int) else new_args)


def _as_tuple(val: object) -> object:
    """``val`` in a tuple, unless it is one."""
    return val if isinstance(val, tuple) else (val,)


def _vjp_with_argnums(func: Callable, *primals: Any, argnums: argnums_t | None = None, has_aux: bool = False) -> tuple:
    """As :func:`vjp`, with respect to the chosen arguments."""
    return vjp_of(func, argnums, primals, has_aux)


def _jvp_with_argnums(
    func: Callable, primals: Any, tangents: Any, argnums: argnums_t | None, *, strict: bool = False, has_aux: bool
) -> tuple:
    """As :func:`jvp`, of the chosen arguments, in the direction of tangents of those alone."""
    if argnums is None:
        return jvp(func, primals, tangents, strict=strict, has_aux=has_aux)
    chosen = _slice_argnums(primals, argnums)

    def partial(*given: Any) -> Any:
        return func(*_replace_args(primals, given, argnums))

    return jvp(partial, chosen, tangents, strict=strict, has_aux=has_aux)


def grad_impl(func: Callable, argnums: argnums_t, has_aux: bool, args: tuple, kwargs: dict) -> Any:
    """``grad(func, argnums, has_aux)(*args, **kwargs)``."""
    return grad(func, argnums, has_aux)(*args, **kwargs)


def grad_and_value_impl(func: Callable, argnums: argnums_t, has_aux: bool, args: tuple, kwargs: dict) -> Any:
    """``grad_and_value(func, argnums, has_aux)(*args, **kwargs)``."""
    return grad_and_value(func, argnums, has_aux)(*args, **kwargs)


def _construct_standard_basis_for(tensors: Sequence[Tensor], tensor_numels: Sequence[int]) -> tuple[Tensor, ...]:
    """The rows of the identity over all numbers in the tensors, in their shapes after an axis that counts rows."""
    if not tensors:
        raise AssertionError("tensors must have at least one element")
    return tuple(_basis(list(tensors), 0, sum(tensor_numels)))


def _wrap_tensor_for_grad(maybe_tensor: Any, level: int) -> Any:
    """The tensor of a level of grad that stands for one outside of it; what is no tensor as it is."""
    return _wrap_for_grad(maybe_tensor, level) if isinstance(maybe_tensor, Tensor) else maybe_tensor


def error_if_complex(func_name: str, args: Any, is_input: bool) -> None:
    """RuntimeError where a tensor of the nest is complex."""
    demand_real(func_name, "inputs" if is_input else "outputs", args)


@contextlib.contextmanager
def grad_increment_nesting() -> Iterator[int]:
    """The context in which a level of grad is active; gives its depth."""
    try:
        yield _grad_increment_nesting()
    finally:
        _grad_decrement_nesting()


@contextlib.contextmanager
def jvp_increment_nesting() -> Iterator[int]:
    """The context in which a level of jvp is active; gives its depth."""
    try:
        yield _jvp_increment_nesting()
    finally:
        _jvp_decrement_nesting()
