"""What the functions of ``torch.autograd.functional`` do first and last, also under the names that programs call."""

from typing import Any

from torchlike._core.tensor.tensor import Tensor


def tuple_of(given: Any, role: str, name: str) -> tuple[Tensor, ...]:
    """A tensor or a tuple of tensors as a tuple."""
    if isinstance(given, Tensor):
        return (given,)
    expected = f"The {role} given to {name} must be either a Tensor or a tuple of Tensors but the"
    if not isinstance(given, tuple):
        raise TypeError(f"{expected} given {role} has type {type(given)}.")
    for i, t in enumerate(given):
        if not isinstance(t, Tensor):
            raise TypeError(f"{expected} value at index {i} has type {type(t)}.")
    return tuple(given)


def prepared(tensors: tuple[Tensor, ...], create_graph: bool, differentiated: bool = True) -> tuple[Tensor, ...]:
    """New tensors to differentiate with respect to: linked to the given ones if the result must have history."""

    def prepare(t: Tensor) -> Tensor:
        if create_graph and t.requires_grad:
            return t.view_as(t)
        return t.detach().requires_grad_(differentiated)

    return tuple(prepare(t) for t in tensors)


def given_back(result: Any, create_graph: bool) -> Any:
    """The result, without history unless asked for."""
    if create_graph:
        return result
    if isinstance(result, Tensor):
        return result.detach()
    return tuple(given_back(r, create_graph) for r in result)


# -- as programs call them -----------------------------------------------------------------------------
def _as_tuple_nocheck(x: Any) -> tuple:
    """A tuple: of a list its elements, else one of ``x`` alone."""
    return tuple(x) if isinstance(x, list | tuple) else (x,)


def _as_tuple(inp: Any, arg_name: str | None = None, fn_name: str | None = None) -> tuple[bool, tuple]:
    """(whether it was a tuple, it as a tuple of tensors); TypeError for others, where an argument is named.

    >>> import torchlike as torch
    >>> torch.autograd.functional._as_tuple(torch.ones(1), "inputs", "f")
    (False, (tensor([1.]),))
    """
    if arg_name is None and fn_name is None:
        return _as_tuple_nocheck(inp)  # type: ignore[return-value]
    return isinstance(inp, tuple), tuple_of(inp, str(arg_name), str(fn_name))


def _grad_preprocess(inputs: Any, create_graph: bool, need_graph: bool) -> tuple:
    """New tensors to differentiate with respect to, linked to the given ones if the result must have history."""
    return prepared(inputs, create_graph, need_graph)


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Tensors, or tuples of them, without history unless asked for."""
    return given_back(inputs, create_graph)


def _tuple_postprocess(res: tuple, to_unpack: bool | tuple[bool, bool]) -> Any:
    """The tuple, or its first element where ``to_unpack`` is false; of a tuple of tuples, for the outer and inner ones.

    >>> from torchlike.autograd.functional import _tuple_postprocess
    >>> _tuple_postprocess(((1, 2), (3, 4)), (True, False))
    (1, 3)
    """
    if not isinstance(to_unpack, tuple):
        return res if to_unpack else res[0]
    outer, inner = to_unpack
    found = tuple(each if inner else each[0] for each in res)
    return found if outer else found[0]
