"""``torch.library.opcheck``: whether what was registered for an operator tells the truth."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from torchlike._aten.packets import OpOverload, OpOverloadPacket
from torchlike._core.autograd.backward import grad
from torchlike._core.tensor.tensor import Tensor, is_tensor
from torchlike._library import registry
from torchlike._library.binding import tensors
from torchlike._library.custom_ops import CustomOpDef
from torchlike._library.operator import Operator
from torchlike.compiler import compile
from torchlike.testing import assert_close

_DEFAULT = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
_ALL = (
    "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static",
    "test_aot_dispatch_dynamic",
)  # fmt: skip


class OpCheckError(Exception):
    """A check of :func:`opcheck` has failed."""


class MetadataMismatchError(RuntimeError):
    """A fake implementation says something else than the kernel does."""


def opcheck(
    op: Any,
    args: Sequence,
    kwargs: dict | None = None,
    *,
    test_utils: str | Sequence[str] = _DEFAULT,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Check an operator on sample arguments.

    ``test_schema``: it changes and aliases what its schema says, and nothing else. ``test_autograd_registration``: if
    its results require grad, a derivative was registered. ``test_faketensor``: the fake implementation agrees with
    the real one in shapes, strides, dtypes and devices. ``test_aot_dispatch_static``, ``test_aot_dispatch_dynamic``: a
    compiled program gives the results and gradients of eager code.

    Args:
        op: an overload, a packet with one overload, or a custom operator. args, kwargs: sample arguments.
        test_utils: the checks to make. raise_exception: whether the first failure is raised, as OpCheckError.
        atol, rtol: of the comparison of results; both or none.

    Returns a dict from the names of the checks to ``"SUCCESS"`` or the exception.

    >>> import torchlike as torch
    >>> @torch.library.custom_op("docs::plus_one", mutates_args=())
    ... def plus_one(x: torch.Tensor) -> torch.Tensor:
    ...     return x + 1
    >>> _ = plus_one.register_fake(lambda x: torch.empty_like(x))
    >>> torch.library.opcheck(plus_one, (torch.ones(2),), test_utils="test_faketensor")
    {'test_faketensor': 'SUCCESS'}
    """
    overload = _overload(op)
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not set(names) <= set(_ALL):
        raise ValueError(
            f"opcheck(op, ..., test_utils={names}), expected test_utils to be subset of {_ALL} but it was not"
        )
    if (atol is None) != (rtol is None):
        raise ValueError("opcheck(op, ...): if you specify one of rtol/atol, you must specify both")
    check = _Check(overload, tuple(args), dict(kwargs or {}), {"atol": atol, "rtol": rtol})
    found: dict[str, Any] = {}
    for name in names:
        try:
            getattr(check, name)()
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                message = f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                raise OpCheckError(message) from error
            found[name] = error
    return found


def _overload(op: Any) -> OpOverload:
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, OpOverloadPacket) and len(op.overloads()) == 1:
        return op.op_overloads[0]
    if not isinstance(op, OpOverload):
        raise ValueError(
            "opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. torch.ops.aten.sin.default, got "
            f"{type(op)}"
        )
    return op


class _Check:
    def __init__(self, overload: OpOverload, args: tuple, kwargs: dict, tolerance: dict) -> None:
        self.overload, self.args, self.kwargs, self.tolerance = overload, args, kwargs, tolerance

    def copies(self, make: Callable[[Tensor], Any]) -> tuple[tuple, dict]:
        return jax.tree.map(lambda x: make(x) if is_tensor(x) else x, (self.args, self.kwargs), is_leaf=is_tensor)

    # -- the checks --------------------------------------------------------------------------------

    def test_schema(self) -> None:
        args, kwargs = self.copies(lambda t: t.detach().clone())
        given = _named(self.overload._schema, args, kwargs)
        before = {name: [(t, t.clone()) for t in tensors((value,))] for name, value in given.items()}
        out = self.overload(*args, **kwargs)
        results = {id(t._storage) for t in tensors((out,))}
        for a in self.overload._schema.arguments:
            for t, old in before.get(a.name, ()):
                if not a.is_write and not _same(t, old):
                    raise RuntimeError(f"Argument {a.name} is not defined as mutable but was mutated")
                if a.alias_info is None and id(t._storage) in results:
                    raise RuntimeError(f"Argument {a.name} is not defined to alias output but was aliasing")
        spread = [t._storage for t in tensors((out,))]
        distinct = len({id(s) for s in spread}) == len(spread)
        if not distinct and not any(r.alias_info for r in self.overload._schema.returns):
            raise RuntimeError("Outputs alias each other, which the schema does not say")

    def test_autograd_registration(self) -> None:
        operator = registry.find(self.overload)
        if operator is None or operator.owner is not None or operator.has_autograd():
            return
        args, kwargs = self.copies(_leaf)
        if not any(t.requires_grad for t in tensors((*args, *kwargs.values()))):
            return
        given = {id(t) for t in tensors((*args, *kwargs.values()))}
        if any(t.requires_grad and id(t) not in given for t in tensors((self.overload(*args, **kwargs),))):
            raise AssertionError(_UNREGISTERED.format(operator.qualname))

    def test_faketensor(self) -> None:
        args, kwargs = self.copies(lambda t: t.detach().clone())
        fake_args, fake_kwargs = self.copies(_without_numbers)
        fake = self._fake(fake_args, fake_kwargs)
        real = self.overload(*args, **kwargs)
        if _aliases((*args, *kwargs.values()), real) != _aliases((*fake_args, *fake_kwargs.values()), fake):
            raise MetadataMismatchError(f"{self._of()} one of them aliases an argument, the other does not!")
        found, expected = list(tensors((fake,))), list(tensors((real,)))
        if len(found) != len(expected):
            raise MetadataMismatchError(f"{self._of()} it returns {len(found)} tensors, the kernel {len(expected)}")
        for f, r in zip(found, expected, strict=True):
            self._compare(r, f)

    def test_aot_dispatch_static(self) -> None:
        self._compiled()

    def test_aot_dispatch_dynamic(self) -> None:
        self._compiled()

    # -- parts ---------------------------------------------------------------------------------------

    def _of(self) -> str:
        what = f"When comparing the output of {self.overload} on FakeTensor and concrete Tensors"
        return f"{what}, found mismatched tensor metadata:"

    def _fake(self, args: tuple, kwargs: dict) -> Any:
        operator: Operator | None = registry.find(self.overload)
        if operator is not None and operator.owner is not None and not operator.has_fake():
            operator.run_fake(args, kwargs)
        return self.overload(*args, **kwargs)

    def _compare(self, real: Tensor, fake: Tensor) -> None:
        if real.shape != fake.shape:
            raise MetadataMismatchError(f"{self._of()} Shapes {real.shape} and {fake.shape} are not equal!")
        if real.dtype is not fake.dtype:
            raise MetadataMismatchError(f"{self._of()} Dtypes {real.dtype} and {fake.dtype} are not equal!")
        a, b = real.stride(), fake.stride()
        if a != b and real.numel():
            at = next((i for i, (p, q) in enumerate(zip(a, b, strict=True)) if p != q and real.shape[i] > 1), None)
            if at is not None:
                raise MetadataMismatchError(
                    f"{self._of()} Stride mismatch! Strides are {a} and {b} (mismatched at {at})!"
                )

    def _compiled(self) -> None:
        self._fake(*self.copies(_without_numbers))
        eager = self._outcome(lambda *a, **k: self.overload(*a, **k))
        program = self._outcome(compile(lambda *a, **k: self.overload(*a, **k), fullgraph=True))
        for what, a, b in zip(("results", "changed arguments", "gradients"), eager, program, strict=True):
            if len(a) != len(b):
                raise AssertionError(f"{self.overload}: a program gives {len(b)} {what}, eager code {len(a)}")
            for p, q in zip(a, b, strict=True):
                message = f"{self.overload}: {what} differ between eager code and a compiled program"
                assert_close(q, p, equal_nan=True, msg=lambda m, said=message: f"{said}: {m}", **self.tolerance)

    def _outcome(self, function: Callable) -> tuple[list, list, list]:
        """(results, arguments afterwards, gradients) of a call."""
        args, kwargs = self.copies(_leaf)
        given = list(tensors((*args, *kwargs.values())))
        out = function(*args, **kwargs)
        results = list(tensors((out,)))
        leaves = [t for t in given if t.requires_grad]
        roots = [t for t in results if t.requires_grad]
        grads: list = []
        if leaves and roots:
            got = grad([t.abs().sum() if t.is_complex() else t.sum() for t in roots], leaves, allow_unused=True)
            grads = [g for g in got if g is not None]
        return [t.detach() for t in results], [t.detach() for t in given], grads


_UNREGISTERED = (
    "{}: at least one output of this operator has requires_grad=True but the operator does not have an autograd kernel "
    "defined at an autograd key (e.g. DispatchKey::Autograd). This could mean that you have incorrectly registered an "
    "autograd kernel to another key, which may lead to silently incorrect results. If your operator consists of "
    "regular "
    "operators, consider registering it as CompositeImplicitAutograd, or use torch.library.register_autograd()."
)


def _named(schema: Any, args: tuple, kwargs: dict) -> dict[str, Any]:
    positional = [a.name for a in schema.arguments if not a.kwarg_only]
    return dict(zip(positional, args, strict=False)) | kwargs


def _same(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape:
        return False
    return bool(((a == b) | ((a != a) & (b != b))).all())


def _aliases(given: tuple, out: Any) -> list[int]:
    """For each result, the first argument that it shares memory with, or -1."""
    storages = [id(t._storage) for t in tensors(given)]
    return [storages.index(id(t._storage)) if id(t._storage) in storages else -1 for t in tensors((out,))]


def _leaf(t: Tensor) -> Tensor:
    return t.detach().clone().requires_grad_(t.requires_grad)


def _without_numbers(t: Tensor) -> Tensor:
    return t.detach().to("meta")
