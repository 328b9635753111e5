"""An operator over a mapped axis of its inputs, and the derivative of one in the direction of tangents.

Both are operators again. The derivative of a mapped operator is the mapped derivative, so what a declaration says
of kinks and of saved results holds under vmap too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base import rng
from torchlike._decl import derive, rules
from torchlike._decl.derive import Derived, Kernel, Plan, as_tuple
from torchlike._decl.naming import naming
from torchlike._decl.products import for_each

if TYPE_CHECKING:
    from torchlike._base.jaxprs import Jaxpr
    from torchlike._decl.typed import Aval, Avals, Dims, Forward, Identity, Indices, Static, Value, Values

SPLIT = "split"  # in the place of a mapped axis: the words of a draw, of which each example gets words of its own


def batched(op: Kernel, static: Static, in_dims: Dims, out_dim: int = 0, size: int | None = None) -> Batch:
    """The operator ``op`` with ``static`` over the mapped axes ``in_dims`` (an int, None or SPLIT for each input).

    Args:
        out_dim: where the results have their mapped axis. size: its length, where no input has one.
    """
    key = ("batch", static, in_dims, out_dim, size)
    found = op.derived.get(key)
    if found is None:
        found = op.derived[key] = Batch(op, static, in_dims, out_dim, size)
    return found


class Batch(Kernel):
    """See :func:`batched`. It has no static arguments."""

    __slots__ = ("base", "static", "in_dims", "out_dim", "size")

    def __init__(self, base: Kernel, static: Static, in_dims: Dims, out_dim: int, size: int | None) -> None:
        super().__init__(base.name, base.node)
        self.base, self.static, self.in_dims, self.out_dim, self.size = base, static, in_dims, out_dim, size

    def identity(self) -> Identity:
        return self.base.part(("batch", self.static, self.in_dims, self.out_dim, self.size))

    @property
    def autocast(self) -> Mapping[str, str | None]:
        return self.base.autocast_of(self.static)

    @property
    def checked(self) -> Callable[..., Any] | None:
        return self.base.checked

    @property
    def nondiff(self) -> frozenset[int]:
        return self.base.nondiff

    def _mapped(self, function: Forward, out_dim: int) -> Forward:
        """``function`` of one example's values, over the mapped axes."""
        axes = tuple(0 if d == SPLIT else d for d in self.in_dims)
        shared = out_dim == 0 and None in axes

        def run(*values: Value) -> Any:
            parts = [_parts(v, self.size) if d == SPLIT else v for v, d in zip(values, self.in_dims, strict=True)]
            whole = jax.vmap(function, in_axes=axes, out_axes=out_dim, axis_size=self.size)
            return for_each(whole)(*parts) if shared and not naming() else whole(*parts)

        return run

    def forward(self, static: Static) -> Forward:
        return self._mapped(self.base.forward(self.static), self.out_dim)

    def verdict(self, static: Static) -> Forward:
        """Whether the check of any example fails."""
        flags = self._flags()
        return lambda *values: jnp.any(flags(*values))

    def _flags(self) -> Forward:
        """Whether the check fails, for each example."""
        verdict = self.base.verdict(self.static)

        def one(*values: Value) -> jax.Array:
            bad = verdict(*values)
            return jnp.any(jnp.asarray(False if bad is None else bad))

        return self._mapped(one, 0)

    def examine(self, static: Static, values: Values) -> tuple[Any, Any]:
        """(flag, error) of the first example whose check fails; of example 0 while the values are traced."""
        flags = self._flags()(*values)
        traced = isinstance(flags, jax.core.Tracer)
        first = 0 if traced else int(np.argmax(np.asarray(flags)))
        pairs = zip(values, self.in_dims, strict=True)
        one = [v if d is None or d == SPLIT else jnp.take(v, first, d) for v, d in pairs]
        return jnp.any(flags) if traced else np.asarray(flags).any(), self.base.examine(self.static, one)[1]

    def derivative(self, static: Static, avals: Avals, wanted: Indices) -> Plan | None:
        ones = [a if d is None or d == SPLIT else _without(a, d) for a, d in zip(avals, self.in_dims, strict=True)]
        plan = self.base.derivative(self.static, ones, wanted)
        if plan is None:
            return None
        outs = as_tuple(jax.eval_shape(self.forward(()), *avals))
        new = Plan(self.name, plan.inputs, plan.outputs, plan.names, plan.wanted, outs, plan.diff)
        new.numbers, new.apart, new.refuses = plan.numbers, plan.apart, plan.refuses
        new.refusals = plan.refusals
        if plan.kernel is None and all(self.in_dims[i] == self.out_dim for i in plan.fulfilled()):
            new.route = plan.route
        else:
            if plan.route is not None and None in plan.route:
                left = count()
                new.route = tuple([None if r is None else -1 - next(left) for r in plan.route])
            back = Derived(f"{self.name}_backward", self.node + "Backward", self._back(plan))
            new.kernel = back.back_of(new, self)
        return new

    def _back(self, plan: Plan) -> Forward:
        """The mapped gradients; those of an input that all examples share are summed."""
        dims = [self.in_dims[i] for i in plan.inputs] + [self.out_dim] * (len(plan.outputs) + len(plan.diff))
        wanted = [self.in_dims[i] for i in plan.fulfilled()]

        def one(*arguments: Value) -> tuple[jax.Array, ...]:
            found = as_tuple(plan.kernel.forward(())(*arguments)) if plan.kernel else ()
            return tuple([g for g in plan.routed(arguments, found) if g is not None])

        def back(*arguments: Value) -> tuple[jax.Array, ...]:
            found = jax.vmap(one, in_axes=tuple(dims), out_axes=0)(*arguments)
            return tuple(
                rules.total(g, 0) if d is None else jnp.moveaxis(g, 0, d) for g, d in zip(found, wanted, strict=True)
            )

        return back

    def jvp(self, static: Static, tangents: Indices) -> Batch:
        inner = self.base.jvp(self.static, tangents)
        return batched(inner, (), self.in_dims + tuple(self.in_dims[i] for i in tangents), self.out_dim, self.size)


def _parts(words: jax.Array, n: Any) -> jax.Array:
    """The words of ``n`` draws, from those of one."""
    keys = jax.random.key_data(jax.random.split(rng.key(words), n))
    return jnp.concatenate([keys, jnp.zeros_like(keys)], 1)


def _without(aval: Aval, dim: int) -> Aval:
    """What one example's value is like."""
    if aval is None:
        return None
    dim %= len(aval.shape)
    shape = (*aval.shape[:dim], *aval.shape[dim + 1 :])
    return jax.ShapeDtypeStruct(shape, aval.dtype)


# -- forward mode ------------------------------------------------------------------------------------


def tangent(op: Kernel, static: Static, which: Indices) -> Kernel:
    """The operator (inputs..., tangents of the inputs ``which``) -> tangents of the outputs."""
    key = ("tangent", static, which)
    found = op.derived.get(key)
    if found is None:
        found = op.derived[key] = Derived(
            f"{op.name}_jvp", op.node, _dots(op, static, which), op.part(key), op.autocast_of(static)
        )
    return found


def _one_way(jaxpr: Jaxpr) -> bool:
    """Whether jax can differentiate it backwards only."""
    for equation in jaxpr.eqns:
        inner = [getattr(p, "jaxpr", p) for p in equation.params.values()]
        if equation.primitive.name.startswith("custom_vjp_call"):
            return True
        if any(hasattr(p, "eqns") and _one_way(p) for p in inner):
            return True
    return False


def _dots(op: Kernel, static: Static, which: Indices) -> Forward:
    formulas = op.declaration.formulas
    if isinstance(op, Batch):
        whole = op.jvp(static, which).forward(())
    elif formulas:
        whole = derive.formula_jvp(op, static, which)
    else:
        whole = derive.jvp_function(op.forward(static), which)
    vectors = derive.jvp_function(op.forward(static), which) if op.declaration.tangents == "kernel" else whole

    def run(*values: Value) -> Any:
        avals = [derive.aval(v) for v in values[: len(values) - len(which)]]
        kept = derive.counting(op, which)
        plan = op.derivative(static, avals, kept) if kept else None
        if plan is not None and plan.refuses:
            raise unsupported(op)
        if not formulas and _one_way(jax.make_jaxpr(op.forward(static))(*values[: len(avals)]).jaxpr):
            raise unsupported(op)
        # the adjoint of a product with a vector is a sum of products to XLA, which takes twice as long as a product;
        # mapped over matrices, adjoints need fewer transposes
        flat = any(len(a.shape) == 1 for a in avals if a is not None)
        out = (vectors if flat else whole)(*values)
        out = out[len(out) // 2 :]
        return out if len(out) > 1 else out[0]

    return run


def unsupported(op: Kernel) -> NotImplementedError:
    """The error of an operator without forward mode."""
    return NotImplementedError(
        f"Trying to use forward AD with {op.name} that does not support it because it has not been implemented yet. "
        "Please use reverse mode (torch.autograd.grad) for it, or write a torch.autograd.Function with a jvp."
    )


def smooth(op: Kernel) -> bool:
    """Whether outputs of the operator can have tangents at all."""
    while isinstance(op, Batch):
        op = op.base
    return op.declaration.formulas != {}


def diff_outputs(op: Kernel, dtypes: Iterable[np.dtype]) -> Indices:
    """Indices of the outputs, of these dtypes, that have tangents."""
    return tuple(i for i, d in enumerate(dtypes) if rules.differentiable(d) and i not in op.nondiff)
