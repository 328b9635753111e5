"""The checks of gradcheck, each of which raises GradcheckError."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from torchlike._base import dtypes
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd.backward import grad
from torchlike._core.conversion.factories import as_tensor
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.like import zeros_like
from torchlike._functions.uniform import uniform
from torchlike.autograd import _gradcheck_jacobian as jac
from torchlike.autograd._gradcheck_jacobian import Function, Part, host, pulled
from torchlike.autograd._gradcheck_many import Numerical


class GradcheckError(RuntimeError):
    """Gradients are not what they should be."""


GradcheckError.__module__ = "torchlike.autograd.gradcheck"


class Tolerances(NamedTuple):
    """How far an analytical derivative may be from the numerical one, and a gradient from itself."""

    atol: float
    rtol: float
    nondet: float
    dtypes: bool = False

    def close(self, analytical: Any, numerical: Any, scale: float = 1.0) -> bool:
        """Whether all differences are at most ``scale * atol + rtol * |numerical|``; NaN is close to nothing."""
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(analytical - numerical)
            near = np.isfinite(apart).all() and (apart <= self.atol * scale + self.rtol * np.abs(numerical)).all()
        return bool(near or np.isclose(analytical, numerical, self.rtol, self.atol * scale).all())


# -- Slow mode: whole Jacobians --------------------------------------------------------------------------
def check_jacobians(inputs: tuple, outputs: tuple, which: list[int], numerical: Numerical, tol: Tolerances) -> None:
    """Compare the Jacobians of the outputs numbered ``which`` by every input with the numerical ones."""
    for chosen in jac.passes([outputs[i] for i in which]):
        analytical = {k: _reentrant_jacobians(part.of(outputs[which[k]]), inputs, tol) for k, part in chosen}
        for k, part in chosen:
            for j in range(len(inputs)):
                got = analytical[k][j]
                if not numerical.holds(
                    j, lambda found, k=k, part=part, got=got: tol.close(got, jac.joined(part, found[k]))
                ):
                    raise GradcheckError(_mismatch(part, k, j, inputs[j], jac.joined(part, numerical[j][k]), got))


def _reentrant_jacobians(out: Tensor, inputs: tuple, tol: Tolerances) -> list[np.ndarray]:
    """The Jacobians from the backward, which gives the same twice."""
    first, seen = jac.jacobians(out, inputs)
    if tol.dtypes:
        for x, g in seen:
            _demand_dtype(x, g)
    again, _ = jac.jacobians(out, inputs)
    for a, b in zip(first, again, strict=True):
        _demand_same(a, b, tol)
    return first


def _demand_dtype(x: Tensor, g: Tensor | None) -> None:
    if g is not None and g.dtype is not x.dtype:
        raise GradcheckError(f"Gradient has dtype mismatch: got {g.dtype} for an input of {x.dtype}")


def _demand_same(a: np.ndarray, b: np.ndarray, tol: Tolerances) -> None:
    if not jac.agree(a, b, tol.nondet):
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
            "different values, although analytical gradient matches numerical gradient. The tolerance for "
            f"nondeterminism was {tol.nondet}; pass a larger nondet_tol if the difference is expected."
        )


def _mismatch(part: Part, out: int, inp: int, x: Tensor, numerical: Any, analytical: Any) -> str:
    return (
        f"{part.remark}Jacobian mismatch for output {out} with respect to input {inp},\n"
        f"numerical:{printable(numerical, x)}\nanalytical:{printable(analytical, x)}\n"
    )


def printable(value: Any, x: Tensor) -> Any:
    """A derivative as messages show it: a tensor of the dtype of ``x``, or a number."""
    if np.ndim(value):
        return as_tensor(value, dtype=x.dtype)
    return complex(value) if np.iscomplexobj(value) else float(value)


# -- Fast mode: one number for each Jacobian -------------------------------------------------------------
def random_steps(inputs: tuple, rng: np.random.Generator) -> list[np.ndarray]:
    """A step for each input, of a leading axis for its parts; each of norm 1, without negative elements."""
    return [_unit(rng, (2 if x.is_complex() else 1, *x.shape), x.ndim) for x in inputs]


def check_projections(function: Function, inputs: tuple, outputs: tuple, which: list[int], steps: list, numerical: list,
                      rng: np.random.Generator, tol: Tolerances) -> None:  # fmt: skip
    """Compare ``v @ J @ u`` for the steps u and unit vectors v without negative elements; ``numerical`` is ``J @ u``.

    As those of J, the numbers may differ by ``atol``, summed over the elements of u and v.
    """
    weights = [_unit(rng, outputs[i].shape, outputs[i].ndim) for i in which]
    for chosen in jac.passes([outputs[i] for i in which]):
        analytical = {k: _reentrant_pull(part.of(outputs[which[k]]), inputs, weights[k], tol) for k, part in chosen}
        for j, u in enumerate(steps):
            for k, part in chosen:
                expected = jac.joined(part, numerical[j][k]) @ weights[k].ravel()
                got = _along(analytical[k][j], u)
                if not tol.close(got, expected, weights[k].sum() * u.sum()):
                    raise GradcheckError(
                        _mismatch(part, k, j, inputs[j], expected, got)
                        + _in_slow_mode(function, inputs, outputs, part, which, k, j, tol)
                    )


def _unit(rng: np.random.Generator, shape: tuple[int, ...], last: int) -> np.ndarray:
    """Random elements between 0 and 1; the last axes scaled to norm 1."""
    values, axes = rng.random(shape), tuple(range(len(shape) - last, len(shape)))
    return values / np.sqrt((values**2).sum(axes, keepdims=True)) if values.size else values


def _reentrant_pull(out: Tensor, inputs: tuple, weight: np.ndarray, tol: Tolerances) -> list[np.ndarray]:
    found = []
    for x, a, b in zip(inputs, pulled(out, inputs, weight), pulled(out, inputs, weight), strict=True):
        if tol.dtypes:
            _demand_dtype(x, a)
        zero = np.zeros(x.shape)
        first, again = zero if a is None else host(a), zero if b is None else host(b)
        _demand_same(first, again, tol)
        found.append(first)
    return found


def _along(gradient: np.ndarray, step: np.ndarray) -> complex:
    """The derivatives along the step by real part and, for a complex input, by imaginary part."""
    real = (gradient.real * step[0]).sum()
    return real if len(step) == 1 else real + 1j * (gradient.imag * step[1]).sum()


def _in_slow_mode(function: Function, inputs: tuple, outputs: tuple, part: Part, which: list[int], k: int, j: int,
                  tol: Tolerances) -> str:  # fmt: skip
    """What slow mode says of a mismatch that fast mode found."""
    numerical = jac.joined(part, function.jacobians(inputs[j], outputs, [which[k]])[0])
    analytical = jac.jacobians(part.of(outputs[which[k]]), inputs)[0][j]
    return slow_text(numerical, analytical, inputs[j], tol)


def slow_text(numerical: np.ndarray, analytical: np.ndarray, like: Tensor, tol: Tolerances) -> str:
    """The Jacobians behind sums over them that differ."""
    greatest = np.abs(analytical - numerical).max() if numerical.size else 0.0
    text = (
        "\nThese are sums over the two Jacobians with random weights, as fast mode compares them. The Jacobians "
        f"themselves, from slow mode:\n\nNumerical:\n {printable(numerical, like)}\nAnalytical:\n"
        f"{printable(analytical, like)}\n\nThe max per-element difference (slow mode) is: {greatest}.\n"
    )
    if tol.close(analytical, numerical):
        text += (
            "Fast gradcheck failed but element-wise differences are small. This means that the test might've passed in "
            "slow_mode! Call gradcheck with `fast_mode=False`."
        )
    return text


# -- Both modes ------------------------------------------------------------------------------------------
def check_constant(function: Function, inputs: tuple, outputs: tuple, fast: bool) -> None:
    """A function without differentiable outputs must not depend on its inputs."""
    which = [i for i, out in enumerate(outputs) if out.is_floating_point() or out.is_complex()]
    rng = np.random.default_rng(0)
    for x in inputs:
        if fast:
            found = function.along(x, _unit(rng, (2 if x.is_complex() else 1, *x.shape), x.ndim), outputs, which)
        else:
            found = function.jacobians(x, outputs, which)
        if any(np.any(derivative != 0) for derivative in found):
            raise GradcheckError("Numerical gradient for function expected to be zero")


def check_linear(inputs: tuple, outputs: tuple) -> None:
    """Zero gradients of the outputs give zero gradients of the inputs."""
    found = grad(outputs, inputs, [zeros_like(out) for out in outputs], retain_graph=True, allow_unused=True)
    for g, x in zip(found, inputs, strict=True):
        if g is None:
            continue
        if np.any(host(g) != 0):
            raise GradcheckError("backward not multiplied by grad_output")
        if g.dtype is not x.dtype:
            raise GradcheckError(f"grad is incorrect type: got {g.dtype} for an input of {x.dtype}")
        if g.device != x.device:
            raise GradcheckError(f"grad is incorrect device: got {g.device} for an input on {x.device}")
        if g.shape != x.shape:
            raise GradcheckError(f"grad is incorrect size: got {g.shape} for an input of {x.shape}")


_BATCH = 2


def check_batched(inputs: tuple, outputs: tuple, tol: Tolerances) -> None:
    """A batch of gradients of an output gives the batch of gradients of the inputs."""
    rng = np.random.default_rng(0)
    for i, out in enumerate(outputs):
        seeds = as_tensor(rng.random((_BATCH, *out.shape)), dtype=out.dtype, device=out.device)
        rows = [pulled(out, inputs, seed) for seed in seeds]
        try:
            found = grad(out, inputs, seeds, retain_graph=True, allow_unused=True, is_grads_batched=True)
        except (RuntimeError, jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\nThe backward must consist of operators that "
                "can be vectorized; to leave this check out, pass check_batched_grad=False."
            ) from error
        for j, (got, *expected) in enumerate(zip(found, *rows, strict=True)):
            _demand_batch(i, j, got, expected, tol)


def _demand_batch(i: int, j: int, got: Tensor | None, expected: Sequence, tol: Tolerances) -> None:
    if got is None and expected[0] is None:
        return
    if got is None or expected[0] is None or not tol.close(host(got), np.stack([host(e) for e in expected])):
        raise GradcheckError(
            f"For output {i} and input {j}, the batched gradient is not that of each gradient alone:\nbatched: {got}"
            f"\nalone: {expected}"
        )


# -- Undefined gradients ---------------------------------------------------------------------------------
class UndefinedGrad(nodes.Node):
    """Passes no gradient on: what follows sees None, as below an output that nothing used."""

    __slots__ = ("meta",)
    _python = True

    def __init__(self, out: Tensor):
        self._edges, self._seq, self._ex = (nodes.edge_of(out),), nodes.next_sequence(), None
        self.meta = (jax.ShapeDtypeStruct(tuple(out.shape), out.dtype.np),)

    def _outs(self) -> tuple:
        return self.meta

    def _release(self) -> None:
        """Nothing is saved."""

    def _apply_tensors(self, grads: list, call: Any, made_by: Any = None) -> list:
        return [None]


def _undefined(out: Tensor) -> Tensor:
    t = out.detach()
    t._edge, t._rg = (UndefinedGrad(out), 0), True
    return t


_UNDEFINED = (
    "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may break "
    "existing callers of this function. If this is true for you, you can call this function with "
    '"check_undefined_grad=False" to disable the feature'
)


def check_undefined(inputs: tuple, outputs: tuple) -> None:
    """The backward takes no gradient at all, and none of any single output, for zeros."""
    _check_undefined(inputs, outputs, range(len(outputs)))
    if len(outputs) > 1:
        for i in range(len(outputs)):
            _check_undefined(inputs, outputs, (i,))


def _check_undefined(inputs: tuple, outputs: tuple, undefined: Sequence[int]) -> None:
    roots = [_undefined(out) if i in undefined else out for i, out in enumerate(outputs)]
    try:
        found = grad(roots, inputs, [zeros_like(out) for out in outputs], retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        warnings.warn(_UNDEFINED, UserWarning, stacklevel=2)
        raise GradcheckError(
            "Expected backward function to handle undefined output grads: it must take None for the gradient of an "
            f"output that nothing used; it raised {error!r}"
        ) from error
    if any(g is not None and np.any(host(g) != 0) for g in found):
        warnings.warn(_UNDEFINED, UserWarning, stacklevel=2)
        raise GradcheckError(
            "Expected all input grads to be undefined or zero when all output grads are undefined or zero. Please look "
            'at "Notes about undefined output gradients" in PyTorch\'s "tools/autograd/derivatives.yaml".'
        )


def random_like(out: Tensor, noncontiguous: bool) -> Tensor:
    """Numbers from -1 to 1 in the shape of an output, which require grad; of every second column if asked."""
    dtype = out.dtype if out.is_floating_point() or out.is_complex() else dtypes.float64
    return uniform(tuple(out.shape), dtype, out.device, -1, 1, noncontiguous).detach().requires_grad_()
