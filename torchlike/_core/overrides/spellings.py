"""Other names under which PyTorch takes arguments: numpy's, of what it has in C++, and those of other overloads.

A call under such a name is made under the function's own one, once that has refused it: who uses the function's own
names pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from torchlike._base.dtypes import dtype
from torchlike._base.once import warn_once
from torchlike._core.overrides import misfits
from torchlike._core.overrides.misfits import demand_tensors
from torchlike._decl.op import REGISTRY

_AXES = {"axis": "dim", "keepdims": "keepdim"}
_NUMPY = {**_AXES, "x": "input", "a": "input", "x1": "input", "x2": "other"}
# Schemas say self where functions say input.
_SELF = {"self": "input", "input": "self"}
_PARTS = dict.fromkeys(("sections", "indices", "tensor_indices_or_sections"), "indices_or_sections")
# {function or method: {PyTorch's name in another overload: the name here}}
_OWN: dict[str, dict[str, str]] = {
    **dict.fromkeys(("tensor_split", "hsplit", "vsplit", "dsplit"), _PARTS),
    "copy_": {"other": "src"},
    "from_numpy": {"ndarray": "array"},
    "isin": {"element": "elements", "test_element": "test_elements"},
    "lu_solve": {"input": "b"},
    "one_hot": {"input": "tensor"},
    "quantize_per_tensor": {"tensors": "input", "scales": "scale", "zero_points": "zero_point"},
    "requires_grad_": {"mode": "requires_grad"},
    "resize_as_": {"the_template": "other"},
    "set_num_threads": {"num": "n"},
    "split": {"split_size": "split_size_or_sections"},
    "swapaxes_": {"axis0": "dim0", "axis1": "dim1"},
    "swapdims": {"dim0": "axis0", "dim1": "axis1"},
}
_FACTORS = {"mm": 2, "bmm": 2, "addmm": 3, "baddbmm": 3}  # functions of PyTorch that take a dtype for the result too
_COMPLAINTS = (
    "positional argument",
    "multiple values",
    "unexpected keyword argument",
    "invalid combination of arguments",
    "missing",
)


def spellings(door: Any, kwargs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The keywords of a call under the function's own names, as they may be; none if they are already."""
    behind = door.__dict__.get("behind")
    entry = None if behind is None else behind.entry
    numpys, own = {} if entry is not None and entry.python else _NUMPY, _OWN.get(door.__name__, {})
    first = {own.get(n, n): v for n, v in [(numpys.get(k, k), v) for k, v in kwargs.items()]}
    second = {_SELF.get(k, k): v for k, v in first.items()}
    third = {_AXES.get(k, k) if numpys else k: v for k, v in kwargs.items()}  # x1 and x2 are some functions' own names
    return [new for new in (first, second, third) if len(new) == len(kwargs) and new.keys() != kwargs.keys()]


def respelt(
    error: Exception, function: Callable[..., Any] | None, door: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """The result of a call that the function has refused with ``error``, in its own words; () if none fits."""
    if (unbound := _unbound(door, args)) is not None:
        return (door(*unbound, **kwargs),)
    if function is None or not _complains(error):
        return ()
    _demand_no_dtype(door, args, kwargs)
    if _blends(door.__name__.removesuffix("_")) and (moved := _factors_last(door, args, kwargs)):
        return (function(*moved[0], **moved[1]),)
    for other in spellings(door, kwargs):
        try:
            return (function(*args, **other),)
        except TypeError as second:
            if not _complains(second):
                raise
    return ()


def _unbound(door: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments without the object that Python has put before them; None where it has not.

    In the body of a class (``conv = torch.conv2d``) PyTorch's functions in C++ stay functions; ours become methods.
    """
    entry = door.behind.entry if args and "behind" in door.__dict__ else None
    if entry is None or entry.python or entry.place == "torch.Tensor" or isinstance(args[0], misfits.tensor):
        return None
    held = any([any([value is door for value in vars(base).values()]) for base in type(args[0]).__mro__])
    return args[1:] if held else None


def called(function: Callable[..., Any], door: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call, under the function's own spellings if it refuses those that it is given."""
    try:
        return function(*args, **kwargs)
    except (TypeError, AttributeError) as error:
        if found := respelt(error, function, door, args, kwargs):
            return found[0]
        demand_tensors(error, door, args, kwargs)
        raise


def _demand_no_dtype(door: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """NotImplementedError for products whose result is to have another dtype."""
    name, factors = door.__qualname__, _FACTORS.get(door.__qualname__, 0)
    if factors and ("out_dtype" in kwargs or len(args) == factors + 1 and isinstance(args[-1], dtype)):
        raise NotImplementedError(
            f"{name}(): out_dtype= is not supported (PyTorch has it for CUDA alone): give operands .to(out_dtype)"
        )


def _blends(name: str) -> bool:
    """Whether PyTorch still takes the call as (beta, input, alpha, a, b), or without alpha."""
    op = REGISTRY.get(name)
    return name == "sspaddmm" or (op is not None and "*, Scalar beta=1, Scalar alpha=1" in str(op.schema))


def _factors_last(door: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """A call of the deprecated form, with ``beta=`` and ``alpha=``; None where it is none."""
    rest, method = list(args), door.__qualname__.startswith("Tensor.")
    at = 1 if method else 0
    if len(rest) <= at or not _is_number(rest[at]) or {"beta", "alpha"} & kwargs.keys():
        return None
    factors = {"beta": rest.pop(at)}
    if len(rest) > 1 and _is_number(rest[1]):
        factors["alpha"] = rest.pop(1)
    warn_once(
        f"This overload of {door.__name__} is deprecated: factors stand before the tensors; "
        "give them as beta= and alpha="
    )
    return rest, kwargs | factors


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float | complex | np.number)


def _complains(error: Exception) -> bool:
    """Whether a function has refused names of arguments."""
    return any([complaint in str(error) for complaint in _COMPLAINTS])
