"""``cond`` and ``while_loop``: functions of tensors that the program chooses from, or repeats."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from torchlike._base.state import state
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import Tensor, array_of, is_tensor, value_of, wrap
from torchlike._decl.derive import Derived
from torchlike._executor import value_checks
from torchlike._transforms.control.subgraph import Body, interpreted
from torchlike._transforms.control.while_loops import repeat_while

if TYPE_CHECKING:
    from torchlike._decl.derive import Kernel
    from torchlike._decl.typed import Forward, Static, Value, Values

_NUMBER = (bool, int)
_KEPT = 128  # operators made from bodies, the latest of which are kept with their compiled kernels
_operators: OrderedDict = OrderedDict()


def leaves_of(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of nested containers, None among them, and their structure."""
    return jax.tree.flatten(tree, is_leaf=lambda x: x is None or is_tensor(x))


class Returned:
    """What a function returned for a list of tensors: tensors, and numbers and structure apart.

    Attributes:
        tree: the structure. constants: {position: number}; only integers and bools.
    """

    def __init__(
        self,
        title: str,
        function: Callable[..., Any],
        structure: Any,
        constants: Any = (),
        allowed: tuple[type, ...] = _NUMBER,
    ) -> None:
        """``constants``: {position: leaf} of the arguments that are no tensors."""
        self.title, self.function, self.structure = title, function, structure
        self.given, self.allowed, self.tree, self.constants = dict(constants), allowed, None, {}

    def __call__(self, tensors: Sequence[Tensor]) -> list[Any]:
        n, rest = len(tensors) + len(self.given), iter(tensors)
        arguments = [self.given[i] if i in self.given else next(rest) for i in range(n)]
        leaves, self.tree = leaves_of(self.returned(self.run(*jax.tree.unflatten(self.structure, arguments))))
        self.constants = {}
        for i, x in enumerate(leaves):
            if not isinstance(x, Tensor):
                if not isinstance(x, self.allowed):
                    raise RuntimeError(
                        f"{self.title}: the function's output must consist of tensors or ints/bools only but got "
                        f"{type(x)}; make it a tensor"
                    )
                self.constants[i] = x
        return [x for x in leaves if isinstance(x, Tensor)]

    @property
    def run(self) -> Callable[..., Any]:
        """The function as a body calls it."""
        return interpreted(self.function)

    def returned(self, out: Any) -> Any:
        """What is made of the function's result before it is taken apart."""
        return out


def operator(node: str, title: str, bodies: Sequence[Body], extra: Any, make: Callable[..., Any]) -> Derived:
    """The operator made by ``make(bodies)``; one for all calls with functions that are the same program."""
    try:
        key = (title, extra, tuple(body.key for body in bodies))
        found = _operators.get(key)
    except TypeError:  # a parameter in the jaxpr that cannot be compared
        key = found = None
    if found is None:
        found = Derived(title, node, make(bodies)), bodies
        if key is not None:
            _operators[key] = found
            if len(_operators) > _KEPT:
                _operators.popitem(last=False)
    else:
        for old, new in zip(found[1], bodies, strict=True):
            old.renew(new)
    return found[0]


def run(op: Kernel, inputs: Iterable[Any], bodies: Sequence[Body], n_flags: int = 0) -> tuple[Any, ...]:
    """Call the operator on tensors and on what its bodies captured; the results as a tuple of tensors.

    The last ``n_flags`` results are flags of the bodies' value checks.
    """
    more = [x if isinstance(x, Tensor) else wrap(x) for body in bodies for x in (*body.captured, *body.extras)]
    out = call(op, (*inputs, *more), ())
    if n_flags:
        _examine(out[-n_flags:], [body.errors for body in bodies if body.errors])
        out = out[:-n_flags]
    return out


class _Failed:
    """Stands for an operator whose value check raises ``error``."""

    def __init__(self, error: Any) -> None:
        self.error, self.name = error, "control flow"

    def examine(self, static: Static, values: Values) -> tuple[None, Any]:
        return None, self.error


def _examine(flags: Iterable[Any], errors: Iterable[Any]) -> None:
    for t, found in zip(flags, errors, strict=True):
        flag = array_of(t)
        if state.capture is not None:
            for i, error in enumerate(found):
                state.capture.examine(flag[i], _Failed(error), (), ())
        elif not isinstance(flag, jax.core.Tracer) and bool(flag.any()):
            raise value_checks.typed(found[int(flag.argmax())])


def split_captured(values: Values, bodies: Sequence[Body]) -> tuple[Any, ...]:
    """The tail of ``values`` cut into what each body captured."""
    end, parts = len(values), []
    for body in reversed(bodies):
        n = len(body.captured) + len(body.extras)
        parts.append(values[end - n : end])
        end -= n
    return values[:end], *reversed(parts)


# -- cond --------------------------------------------------------------------------------------------


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """``true_fn(*operands)`` where ``pred`` holds, else ``false_fn(*operands)``; XLA decides, in the program.

    Both functions are traced in every call, and compiled once for each program they are; tensors of their
    closures are inputs like the operands, and get gradients. A Python ``pred`` decides at once. Derivatives
    are those of eager code; those of higher order run both functions again, and raise RuntimeError if a
    function is not what it was.

    Args:
        pred: a bool, a number, or a tensor of one element.
        true_fn, false_fn: give tensors (and integers) of the same structure, shapes and dtypes. They must not
            change tensors they did not make, nor return one: return a ``clone()``.
        operands: a tuple of tensors, or of dicts, lists and tuples of tensors.

    Raises:
        RuntimeError: ``pred`` or ``operands`` are of the wrong kind; results that do not match; aliasing or
            mutation in a branch. NotImplementedError: results of different sizes.

    >>> import torchlike as torch
    >>> from torchlike._higher_order_ops import cond
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, (x,))
    tensor([2., 4.], grad_fn=<CondAutogradOpBackward0>)
    """
    leaves, structure = _demand_cond(pred, operands)
    if not isinstance(pred, Tensor):
        return (true_fn if pred else false_fn)(*operands)
    branches = [Returned("torch.cond", f, structure) for f in (true_fn, false_fn)]
    bodies = [Body("torch.cond", branch, leaves) for branch in branches]
    _demand_matching(branches, bodies)
    n = len(bodies[0].outs)
    n_flags = sum(bool(body.errors) for body in bodies)
    op = operator("CondAutogradOpBackward", "cond", bodies, len(leaves), _choose)
    outs = list(run(op, (pred.detach(), *leaves), bodies, n_flags))
    return _with_numbers(pred, branches, outs[:n])


def _demand_cond(pred: Any, operands: Any) -> tuple[list[Any], Any]:
    if not isinstance(pred, bool | int | float | Tensor):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    leaves, structure = leaves_of(operands)
    if not isinstance(operands, tuple | list) or not all(isinstance(x, Tensor) for x in leaves):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, but "
            f"got {operands}."
        )
    return leaves, structure


def _demand_matching(branches: Sequence[Returned], bodies: Sequence[Body]) -> None:
    first, second = branches
    if first.tree != second.tree or first.constants.keys() != second.constants.keys():
        raise RuntimeError(
            f"Unmatched output spec from torch.cond branches: true branch {first.tree} vs false branch {second.tree}; "
            "both must return the same structure of tensors"
        )
    for a, b in zip(bodies[0].outs, bodies[1].outs, strict=True):
        for what, left, right in (("dim", len(a.shape), len(b.shape)), ("dtype", a.dtype, b.dtype)):
            if left != right:
                raise RuntimeError(
                    f"When merging two branches' output in torch.cond,  expected same {what} but got {left} and "
                    f"{right}; convert one of them"
                )
        if a.shape != b.shape:
            raise NotImplementedError(
                f"torch.cond: branches whose results differ in size, {list(a.shape)} and {list(b.shape)}: XLA programs "
                "have static shapes; pad one of them"
            )


def _choose(bodies: Sequence[Body]) -> Forward:
    def function(pred: Any, *values: Value) -> tuple[Any, ...]:
        operands, *captured = split_captured(values, bodies)
        n = len(bodies[0].outs)

        def branch(k: int) -> Callable[[], tuple[Any, ...]]:
            def taken() -> tuple[Any, ...]:
                out = list(bodies[k](*operands, *captured[k]))
                flags = [out[n] if j == k else jnp.zeros(len(b.errors), bool) for j, b in enumerate(bodies) if b.errors]
                return tuple([*out[:n], *flags])

            return taken

        return lax.cond(jnp.reshape(pred, ()) != 0, branch(0), branch(1))

    return function


def _with_numbers(pred: Any, branches: Sequence[Returned], outs: Sequence[Any]) -> Any:
    """The results with the numbers that the branches returned: one that depends on ``pred`` is a tensor while
    ``pred`` is traced."""
    numbers, others = branches[0].constants, branches[1].constants
    rest, leaves = iter(outs), []
    for i in range(len(outs) + len(numbers)):
        if i not in numbers:
            leaves.append(next(rest))
        elif numbers[i] == others[i]:
            leaves.append(numbers[i])
        elif isinstance(value_of(pred), jax.core.Tracer):
            leaves.append(wrap(jnp.where(jnp.reshape(value_of(pred), ()) != 0, numbers[i], others[i])))
        else:
            leaves.append(numbers[i] if pred.item() else others[i])
    return jax.tree.unflatten(branches[0].tree, leaves)


# -- while_loop --------------------------------------------------------------------------------------


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> Any:
    """``carried = body_fn(*carried)`` while ``cond_fn(*carried)``, from ``carried_inputs``, as one loop of XLA.

    Differentiable in reverse, although the number of steps is not known before: the backward counts them,
    keeps the state at intervals and computes the others again: some 60 states in memory at most, and a few
    times the steps of the loop, more beyond ten thousand.

    Args:
        cond_fn: gives a bool tensor without dimensions, or a bool.
        body_fn: gives the next state, of the same structure, shapes and dtypes. Neither may change a tensor that
            it did not make, nor return one as it is.
        carried_inputs: a tuple or list of tensors and integers, possibly in dicts, lists and tuples.

    >>> import torchlike as torch
    >>> from torchlike._higher_order_ops import while_loop
    >>> while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    leaves, structure = _demand_loop(cond_fn, body_fn, carried_inputs)
    carry = [x if isinstance(x, Tensor) else _number(x) for x in leaves]
    test, step = _Tested("while_loop", cond_fn, structure), Returned("while_loop", body_fn, structure, allowed=())
    bodies = [
        Body("while_loop", test, [x.detach() for x in carry], random=False),
        Body("while_loop", step, carry, random=False, n_carry=len(carry)),
    ]
    if isinstance(test.verdict, bool):
        if test.verdict:
            raise RuntimeError("while_loop: cond_fn returns True whatever the state is: the loop would never end")
        return _finished(leaves, carry, step.tree)
    _demand_scalar(bodies[0].outs)
    demand_same("body_fn_output", "carried_inputs", bodies[1].outs, carry, "while_loop")
    n_flags = sum(bool(body.errors) for body in bodies)
    op = operator("WhileLoopAutogradOpBackward", "while_loop", bodies, len(carry), _loop)
    outs = run(op, carry, bodies, n_flags)
    return _finished(leaves, outs, step.tree)


class _Tested(Returned):
    """The condition of a loop."""

    verdict: bool | None = None

    def returned(self, out: Any) -> Any:
        self.verdict = bool(out) if out is None or isinstance(out, bool) else None
        return () if self.verdict is not None else out


def _number(x: Any) -> Tensor:
    t = wrap(jnp.asarray(x))
    return t


def _demand_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
) -> tuple[list[Any], Any]:
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    leaves, structure = leaves_of(carried_inputs)
    if isinstance(carried_inputs, Tensor):
        raise AssertionError("Can't unpack scalar tensors: carried_inputs must be a tuple of tensors, as in (x,)")
    if not all(isinstance(x, Tensor | int) for x in leaves):
        raise AssertionError(
            f"{leaves} can only be of (<class 'torch.Tensor'>, <class 'int'>) but got {tuple(map(type, leaves))}; make "
            "other numbers tensors"
        )
    return leaves, structure


def _demand_scalar(outs: Sequence[Any]) -> None:
    if len(outs) != 1 or outs[0].shape or outs[0].dtype != bool:
        found = [(list(o.shape), str(o.dtype)) for o in outs]
        raise RuntimeError(
            "torch.while_loop: unsupported cond_fn return type: Expected cond_fn to return a scalar tensor or a bool "
            f"but got {found}; compare, and reduce with all() or any()"
        )


def demand_same(left: str, right: str, outs: Sequence[Any], inputs: Sequence[Any], title: str) -> None:
    """Refuse a next state unlike the state before."""
    if len(outs) != len(inputs):
        raise RuntimeError(
            f"{title}: Expected {left} and {right} to have same number of outputs but got {len(outs)} and {len(inputs)}"
        )
    for i, (o, t) in enumerate(zip(outs, inputs, strict=True)):
        for what, a, b in (("shape", tuple(o.shape), tuple(t.shape)), ("dtype", o.dtype, t.dtype.np)):
            if a != b:
                raise RuntimeError(
                    f"{title}: Expected {left} and {right} to have same metadata but found: pair[{i}] differ in "
                    f"'{what}: {a} vs {b}'; the state must keep its shapes and dtypes"
                )


def _loop(bodies: Sequence[Body]) -> Forward:
    test, step = bodies

    def function(*values: Value) -> tuple[Any, ...]:
        carry, of_test, of_step = split_captured(values, bodies)
        n = len(carry)
        flags = [jnp.zeros(len(body.errors), bool) for body in bodies if body.errors]
        constants = (tuple(of_test), tuple(of_step))
        state_, seen = repeat_while(
            lambda c, k: test(*c, *k[0])[0],
            lambda c, k: tuple(step(*c, *k[1])[:n]),
            lambda c, k: [body(*c, *k[j])[-1] for j, body in enumerate(bodies) if body.errors],
            tuple(carry), constants, flags,
        )  # fmt: skip
        return (*state_, *seen)

    return function


def _finished(leaves: list[Any], outs: Iterable[Any], structure: Any) -> Any:
    found = []
    for x, t in zip(leaves, outs, strict=True):
        value = array_of(t)
        found.append(t if isinstance(x, Tensor) or isinstance(value, jax.core.Tracer) else type(x)(value.item()))
    return jax.tree.unflatten(structure, found)
