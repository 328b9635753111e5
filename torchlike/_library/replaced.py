"""Kernels of users in the place of torchlike's own.

A replaced operator keeps its schema and its derivative. The new kernel is traced and compiled as the old one was; one
that needs values is called on the host, with results of the shapes that the old one gives.
"""

import copy
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from torchlike._aten.lower import arguments
from torchlike._aten.python_dispatch import normalised, without_dispatch
from torchlike._aten.source import overload_of
from torchlike._base.state import no_grad
from torchlike._base.threads import in_own_thread
from torchlike._core.tensor.tensor import Tensor, array_of, wrap
from torchlike._decl import derive
from torchlike._decl.op import REGISTRY, Op
from torchlike._library import keys
from torchlike._transforms.capture.compiled_function import reset_all

_KEYS = {"cpu": "CPU", "gpu": "CUDA", "tpu": "XLA"}
_replaced: dict[Op, tuple[Callable, Op]] = {}  # operator -> (the new kernel, what it was)


class ReplacedOp(Op):
    """An operator whose kernel is a user's function of tensors."""

    __slots__ = ()

    def identity(self) -> None:
        """None: no other process shares the user's function."""

    def forward(self, static: tuple) -> Callable:
        function, before = _replaced[self]
        original = before.forward(static)
        return lambda *values: _run(before, function, original, static, values)

    def derivative(self, static: tuple, avals: Any, wanted: tuple) -> Any:
        return _replaced[self][1].derivative(static, avals, wanted)

    def jvp(self, static: tuple, tangents: tuple) -> Any:
        return self.formula_jvp(static, tangents)


def _run(op: Op, function: Callable, original: Callable, static: tuple, values: tuple) -> Any:
    """The results of the user's kernel on values, in the operator's dtypes; in its shapes too if it needs numbers."""
    shapes = jax.eval_shape(original, *values)

    def compute(*arrays: Any) -> Any:
        inputs = tuple([None if a is None else wrap(jax.numpy.asarray(a)) for a in arrays])
        args, kwargs = normalised(overload_of(op), (), arguments(op, inputs, static))
        with no_grad(), without_dispatch():
            out = function(*args, **kwargs)
        return derive.map_outputs(_value, out)

    try:
        out = compute(*values)
    except jax.errors.JAXTypeError:

        def host(*arrays: Any) -> Any:
            return jax.tree.map(np.asarray, compute(*arrays))

        return jax.pure_callback(in_own_thread(host), shapes, *values, vmap_method="sequential")
    found, expected = derive.as_tuple(out), derive.as_tuple(shapes)
    if [o.dtype for o in found] != [s.dtype for s in expected]:
        raise RuntimeError(
            f"aten::{op.full_name}: the kernel that was registered returned {[str(o.dtype) for o in found]} where the "
            f"operator gives {[str(s.dtype) for s in expected]}: gradients need the same"
        )
    return out


def _value(t: Any) -> Any:
    if not isinstance(t, Tensor):
        raise RuntimeError(f"Unable to cast {t!r} to Tensor: the kernel must return what its schema says")
    return array_of(t)


def replace(name: str, key: str, function: Callable) -> Callable[[], None]:
    """Let ``function`` compute the operator ``aten::name`` from now on; returns what undoes it.

    It acts on the devices of ``key`` (those of the default backend, if it is theirs). NotImplementedError for
    operators that are composed of others or give views, and for other layers than that of kernels.
    """
    op = REGISTRY.get(name)
    if op is None or type(op) not in (Op, ReplacedOp) or key not in (*_KEYS.values(), keys.EXPLICIT):
        what = f"dispatch key {key}" if op is not None and key not in _KEYS.values() else "operator"
        raise NotImplementedError(
            f"aten::{name}: kernels for this {what} cannot be replaced, only those of operators that compute new "
            "values; change what a call does with a torch.utils._python_dispatch.TorchDispatchMode, or define an "
            "operator of your own"
        )
    if key not in (_KEYS.get(jax.default_backend()), keys.EXPLICIT):
        return lambda: None
    before = _replaced.get(op)
    _put(op, (function, before[1] if before else _shadow(op)))

    def undo() -> None:
        if op in _replaced and _replaced[op][0] is function:
            _put(op, before)

    return undo


def _shadow(op: Op) -> Op:
    """The operator as it was, with caches of its own."""
    shadow = copy.copy(op)
    shadow.kernels, shadow.plans, shadow.derived, shadow._other = {}, {}, {}, {}
    shadow.reset()
    return shadow


def _put(op: Op, found: tuple[Callable, Op] | None) -> None:
    original = _replaced.pop(op)[1] if op in _replaced else None
    if found is None:
        op.__class__ = Op
    else:
        op.__class__ = ReplacedOp
        _replaced[op] = found
        original = found[1]
    op.reset()
    reset_all()
    if op.inplace is not None and original is not None:
        op.inplace.op = op if found is None else original  # the in-place form is another operator
