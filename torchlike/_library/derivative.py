"""Derivatives and function transforms of registered operators, by a generated autograd Function for each.

Its arguments are those of the operator with lists of tensors spread out, and a :class:`Call` at the end.
"""

from collections.abc import Callable
from typing import Any

import jax

from torchlike._base.state import below_autograd, followed
from torchlike._core.tensor.tensor import Tensor, is_tensor
from torchlike._functions.rearrange import stack
from torchlike.autograd.function import Function


class Call:
    """One call: the structure of its arguments and, when it has run, of its results.

    Attributes:
        lengths: for each positional argument, the length of a list of tensors, or None. kwargs: those by keyword.
        out: as ``lengths``, of the results; ``single``: whether there is one that is no tuple.
    """

    def __init__(self, args: tuple, kwargs: dict) -> None:
        self.lengths = [len(a) if _is_tensors(a) else None for a in args]
        self.kwargs = kwargs
        self.out: list[int | None] = []
        self.single = False

    def returned(self, out: Any) -> tuple:
        """The results spread out."""
        self.single = not isinstance(out, tuple)
        parts = () if out is None else (out,) if self.single else out
        self.out = [len(p) if _is_tensors(p) else None for p in parts]
        return tuple(_spread(parts))

    def result(self, flat: tuple) -> Any:
        """What the caller gets."""
        parts = gathered(flat, self.out)
        return (parts[0] if parts else None) if self.single else tuple(parts)


def _is_tensors(value: Any) -> bool:
    return isinstance(value, list) and all(v is None or isinstance(v, Tensor) for v in value)


def _spread(values: Any) -> list:
    flat: list = []
    for v in values:
        flat.extend(v) if _is_tensors(v) else flat.append(v)
    return flat


def gathered(flat: Any, lengths: list[int | None]) -> list:
    """The values put back into lists of these lengths."""
    found: list = []
    at = 0
    for n in lengths:
        found.append(flat[at] if n is None else list(flat[at : at + n]))
        at += 1 if n is None else n
    return found


def apply(operator: Any, args: tuple, kwargs: dict) -> Any:
    """Call the operator as a differentiable function that transforms understand."""
    if operator.generated is None:
        operator.generated = _generate(operator)
    call = Call(args, kwargs)
    flat = operator.generated.apply(*_spread(args), call)
    return call.result(flat)


def _generate(operator: Any) -> type[Function]:
    schema = operator.schema
    name = f"GeneratedBackwardFor_{schema.name.replace('::', '_')}_{schema.overload_name or 'default'}"

    def forward(*flat: Any) -> tuple:
        call = flat[-1]
        with below_autograd():
            out = operator.run_below_autograd(tuple(gathered(flat, call.lengths)), call.kwargs)
        return call.returned(out)

    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        call = ctx._call = inputs[-1]
        setup = operator.formula and operator.formula[1]
        if setup is not None:
            filled, named = operator.binder.filled(tuple(gathered(inputs, call.lengths)), call.kwargs)
            given = {"keyword_only_inputs": named} if operator.binder.named else {}
            followed(setup)(ctx=ctx, inputs=filled, output=call.result(output), **given)

    def backward(ctx: Any, *grads: Any) -> tuple:
        return _backward(operator, name, ctx, grads)

    def vmap(info: Any, in_dims: tuple, *flat: Any) -> tuple:
        return _mapped(operator, info, in_dims, flat)

    methods = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "vmap": staticmethod(vmap),
    }
    return type(Function)(name, (Function,), methods)


def _backward(operator: Any, name: str, ctx: Any, grads: tuple) -> tuple:
    call = ctx._call
    formula = operator.formula and operator.formula[0]
    if formula is None:
        raise RuntimeError(
            f"Trying to backward through {operator.overload} but no autograd formula was registered. Please use "
            "register_autograd to add one."
        )
    flat_needs = ctx.needs_input_grad
    ctx.needs_input_grad = tuple(gathered(flat_needs, call.lengths))
    try:
        got = followed(formula)(ctx, *gathered(grads, call.out))
    finally:
        ctx.needs_input_grad = flat_needs
    got = got if isinstance(got, tuple) else (got,)
    if any(n is not None for n in call.lengths):
        got = _like_arguments(operator, got, call.lengths)
    n = len(flat_needs) - 1
    if len(got) < n:
        raise RuntimeError(
            f"function {name}Backward returned an incorrect number of gradients (expected {n}, got {len(got)}); return "
            "one "
            "for each argument, None where there is none"
        )
    return (*got, None)


def _like_arguments(operator: Any, got: tuple, lengths: list[int | None]) -> tuple:
    """The gradients spread out; they must come in lists where the arguments do."""
    found = [len(g) if isinstance(g, list) else None for g in got]
    if found != lengths:
        expected = ", ".join("*" if n is None else f"a list of {n}" for n in lengths)
        given = ", ".join("*" if n is None else f"a list of {n}" for n in found)
        raise RuntimeError(
            f"Expected the return from backward to be of the same structure as the inputs. Got: ({given}) (return from "
            f"backward), ({expected}) (inputs of {operator.overload})"
        )
    return tuple(_spread(got))


# -- vmap ------------------------------------------------------------------------------------------------


def _mapped(operator: Any, info: Any, in_dims: tuple, flat: tuple) -> tuple:
    """(results, where their mapped axes are), both spread out."""
    call = flat[-1]
    args = tuple(gathered(flat, call.lengths))
    dims = tuple(gathered(in_dims, call.lengths))
    if operator.vmap_rule is None:
        out, where = _looped(operator, info.batch_size, dims, args, call.kwargs)
    else:
        result = operator.vmap_rule(info, dims, *args, **call.kwargs)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise RuntimeError(
                "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
                f"compatible with the output. Got a {type(result)} instead (from the rule of {operator.overload})"
            )
        out, where = result
    values = call.returned(out)
    if isinstance(where, int) or where is None:
        return values, tuple([where] * len(values))
    leaves = jax.tree.leaves(where, is_leaf=lambda x: x is None)
    if len(leaves) != len(values):
        raise RuntimeError(
            f"the vmap rule of {operator.overload} returned {len(values)} outputs, and {len(leaves)} out_dims; return "
            "one "
            "for each, or one for all"
        )
    return values, tuple(leaves)


def _looped(operator: Any, size: int, dims: tuple, args: tuple, kwargs: dict) -> tuple[Any, Any]:
    """The operator on one example after the other."""
    if operator.schema.is_mutable or operator.aliases:
        raise RuntimeError(
            f"Batching rule not implemented for {operator.qualname}; the fallback path doesn't work on out= or view "
            "ops. "
            "Register one with torch.library.register_vmap()."
        )
    if not size:
        raise RuntimeError(f"{operator.qualname} has no batching rule, and a loop over no example gives no result")

    def example(value: Any, dim: Any, i: int) -> Any:
        if isinstance(value, list):
            return [example(v, d, i) for v, d in zip(value, dim, strict=True)] if isinstance(dim, list) else value
        return value if dim is None else value.select(dim, i)

    results = []
    for i in range(size):
        given = [example(v, d, i) for v, d in zip(args, dims, strict=True)]
        results.append(operator.overload(*given, **kwargs))
    return jax.tree.map(_stacked, *results, is_leaf=is_tensor), 0


def _stacked(*examples: Any) -> Any:
    return stack(examples) if isinstance(examples[0], Tensor) else examples[0]


def demand_functional(operator: Any, shown: Callable[[], Any]) -> None:
    """Refuse a derivative of an operator that changes or aliases its arguments."""
    schema = operator.schema
    if schema.is_mutable or operator.aliases or schema._is_view_op():
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {shown()} with schema {schema}. Please "
            "create a "
            "functional operator and register an autograd formula for that."
        )
