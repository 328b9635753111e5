"""Operators from functions of jax arrays: declared as torchlike's own are, so everything else is derived."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torchlike._aten import packets
from torchlike._aten.packets import OpOverload
from torchlike._aten.source import EXTENDED
from torchlike._core.dispatch.front import overload_front
from torchlike._decl import op as declarations
from torchlike._decl.function_schema import FunctionSchema, parse_schema
from torchlike._library import registry

_KINDS = frozenset(("Tensor", "int", "float", "bool", "str", "number", "ScalarType"))


def jax_op(
    name: str,
    schema: str,
    *,
    vjp: Mapping[str, Callable] | None = None,
    nondiff: Iterable[int] = (),
    tags: Any = (),
) -> Callable[[Callable], OpOverload]:
    """Declare an operator whose kernel is a function of jax arrays, a Pallas kernel among them; decorates it.

    Args:
        name: ``"namespace::name"``. schema: ``"(Tensor x, float scale=1.0) -> Tensor"``. Tensors, floats and Scalars
            reach the kernel as jax values; ints, bools, strings, dtypes and lists of numbers are static.
        vjp: None to differentiate the kernel with ``jax.vjp``; ``{}`` if it has no derivative; else a formula for each
            input, ``{"x": function}``, whose parameters name what it needs: ``grad`` (``grads`` for several results),
            arguments, and ``result``. Formulas are jax functions too, so they are differentiated in turn.
        nondiff: numbers of the results without a gradient. tags: ``torch.Tag`` or several.

    The operator is compiled and cached by shape and dtype. Its derivatives come from ``jax.vjp`` and ``jax.jvp``, its
    batching from ``jax.vmap``; on meta tensors it infers shapes; compiled programs contain it. It is given back as
    ``torch.ops.<namespace>.<name>.default``.

    ValueError for a name without namespace; RuntimeError for a malformed schema or a name that is taken;
    NotImplementedError for arguments that are changed in place, aliased, or of other types.

    >>> import jax.numpy as jnp, torchlike as torch
    >>> @torch.library.jax_op("docs::soft_clip", "(Tensor x, float limit=1.0) -> Tensor")
    ... def soft_clip(x, limit):
    ...     return limit * jnp.tanh(x / limit)
    >>> x = torch.zeros(2, requires_grad=True)
    >>> torch.autograd.grad(soft_clip(x, limit=2.0).sum(), x)
    (tensor([1., 1.]),)
    """
    namespace, plain = registry.qualified(name)
    parsed = parse_schema(f"{namespace}::{plain}{schema}")
    _demand_supported(parsed)

    def declare(kernel: Callable) -> OpOverload:
        if f"{namespace}::{plain}" in (declarations.EXTENSIONS | registry.OPERATORS):
            raise RuntimeError(f"jax_op: there is an operator {namespace}::{plain} already; choose another name")
        text = str(parsed).partition("::")[2]
        make = declarations.op(text, vjp=vjp, nondiff=nondiff, variants="", namespace=namespace)
        op = make(_by_name(kernel, parsed))
        name = op.schema.name
        op.name = op.schema.name = parsed.name  # what is special about an operator of aten is looked up by its name
        packet = packets.packet(namespace, name)
        overload = EXTENDED[op] = OpOverload(packet, parsed, overload_front(op), registry.tag_tuple(tags))
        return packets.register(namespace, name, parsed.overload_name, overload)

    return declare


def _demand_supported(schema: FunctionSchema) -> None:
    """Values in, new values out."""
    if any(a.alias_info is not None for a in (*schema.arguments, *schema.returns)):
        raise NotImplementedError(
            "jax_op: a kernel of jax arrays makes new values, so its schema can neither change nor alias arguments: "
            f"{schema}; "
            "write a torch.library.custom_op() around it that does"
        )
    for a in schema.arguments:
        kind = str(a.real_type)
        for wrapper in ("Optional", "List"):
            kind = kind.removeprefix(f"{wrapper}[").removesuffix("]") if kind.startswith(wrapper) else kind
        if kind not in _KINDS:
            raise NotImplementedError(f"jax_op: arguments of the type {a.real_type} are not supported: {schema}")
    for r in schema.returns:
        if r.type.kind() != "TensorType":
            raise NotImplementedError(f"jax_op: the results must be tensors: {schema}")
    if not schema.returns:
        raise NotImplementedError(f"jax_op: a kernel of jax arrays must have a result: {schema}")


def _by_name(kernel: Callable, schema: FunctionSchema) -> Callable:
    """``kernel`` as a function of the schema's names, whatever its own parameters are called."""
    names = ", ".join(a.name for a in schema.arguments)
    given = ", ".join(f"{a.name}={a.name}" if a.kwarg_only else a.name for a in schema.arguments)
    made = eval(f"lambda {names}: KERNEL({given})", {"KERNEL": kernel, "__name__": __name__})
    made.__doc__ = kernel.__doc__
    return made
