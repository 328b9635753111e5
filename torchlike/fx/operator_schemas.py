"""torch.fx.operator_schemas: the arguments of calls under the names of their parameters."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable
from typing import Any, NamedTuple

from torchlike._aten.packets import OpOverload, OpOverloadPacket, ops
from torchlike._core.overrides import torch_function
from torchlike.fx._qualified import is_ours, qualified_name
from torchlike.fx.node import Node
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module

__all__ = [
    "ArgsKwargsPair", "check_for_mutable_operation", "get_signature_for_torch_op", "normalize_function",
    "normalize_module",
]  # fmt: skip

__getattr__ = missing_names(__name__)


class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _signature_of_schema(schema: Any) -> inspect.Signature:
    parameters: list[inspect.Parameter] = []
    for a in schema.arguments:
        kind = inspect.Parameter.KEYWORD_ONLY if a.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        if keyword.iskeyword(a.name):  # "from" of random_
            kind = inspect.Parameter.POSITIONAL_ONLY
            parameters = [p.replace(kind=kind) for p in parameters]
        default = a.default_value if a.has_default_value() else inspect.Parameter.empty
        name = "input" if a.name == "self" else a.name
        parameters.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(parameters)


def get_signature_for_torch_op(op: Any, return_schemas: bool = False) -> Any:
    """The signatures of an operator, one for each overload; None if it is no operator.

    Args:
        return_schemas: return the schemas too.
    """
    if isinstance(op, OpOverload):
        schemas = [op._schema]
    else:
        packet = op if isinstance(op, OpOverloadPacket) else _packet(op)
        if packet is None:
            return (None, None) if return_schemas else None
        schemas = [overload._schema for overload in packet.op_overloads]
    signatures = [_signature_of_schema(schema) for schema in schemas]
    return (signatures, schemas) if return_schemas else signatures


def _packet(op: Any) -> OpOverloadPacket | None:
    name = getattr(op, "__name__", "")
    try:
        found = getattr(ops.aten, name) if is_ours(op) else None
    except AttributeError:
        return None
    return found if isinstance(found, OpOverloadPacket) else None


def check_for_mutable_operation(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise RuntimeError if an operator changes its arguments."""
    schemas = get_signature_for_torch_op(target, return_schemas=True)[1] or ()
    fitting = [
        s for sig, s in zip(map(_signature_of_schema, schemas), schemas, strict=True) if _fits(sig, args, kwargs)
    ]
    if len(fitting) == 1 and fitting[0].is_mutable:  # where several fit, PyTorch does not choose
        raise RuntimeError(
            f"Tried to trace mutable operation {fitting[0]}. FX only supports functional code, so operations "
            "that mutate operands in-place (e.g. via `out` arguments) are not supported"
        )


def _fits(signature: inspect.Signature, args: tuple, kwargs: dict) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def normalize_function(
    target: Callable,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a function, completed by defaults and in the order of the parameters.

    Args:
        target: a function of torch or torch.nn.functional, or an operator of torch.ops. args, kwargs: its arguments.
        arg_types, kwarg_types: accepted; overloads are told apart by the number and names of the arguments.
        normalize_to_only_use_kwargs: give all under their names.

    Returns:
        the arguments; None if the function is not known or takes no such arguments.

    >>> import torchlike as torch
    >>> torch.fx.operator_schemas.normalize_function(
    ...     torch.nn.functional.relu, (1,), normalize_to_only_use_kwargs=True).kwargs
    {'input': 1, 'inplace': False}
    """
    kwargs = kwargs or {}
    if isinstance(target, OpOverload | OpOverloadPacket):
        signatures = get_signature_for_torch_op(target)
    elif is_ours(target):
        python = qualified_name(target).startswith("torch.nn.")
        signatures = ([] if python else get_signature_for_torch_op(target) or []) or [_signature(target)]
    else:
        return None
    for signature in filter(None, signatures):
        found = _normalized(signature, args, kwargs, normalize_to_only_use_kwargs)
        if found is not None:
            return found
    return None


def _signature(function: Callable) -> inspect.Signature | None:
    """PyTorch's signature of a function."""
    entry = torch_function.of(function)
    try:
        return inspect.signature(function if entry is None else torch_function.stand_in(entry))
    except (TypeError, ValueError):
        return None


def _normalized(
    signature: inspect.Signature, args: tuple, kwargs: dict[str, Any], only_kwargs: bool
) -> ArgsKwargsPair | None:
    """The arguments under a signature, or None if it has no such."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in signature.parameters.values()):
        return None
    new_args, new_kwargs = [], {}
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        keyword = only_kwargs or parameter.kind is parameter.KEYWORD_ONLY or i >= len(args)
        if keyword:
            new_kwargs[name] = bound.arguments[name]
        else:
            new_args.append(bound.arguments[name])
    return ArgsKwargsPair(tuple(new_args), new_kwargs)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a submodule, as :func:`normalize_function`. None but for modules of torch.nn.

    Raises RuntimeError if there is no such submodule.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    if not is_ours(type(module).forward):
        return None
    signature = inspect.signature(module.forward)
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


Node._normalizers = (normalize_function, normalize_module)
