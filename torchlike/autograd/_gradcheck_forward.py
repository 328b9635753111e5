"""The checks of gradcheck in forward mode, in which the derivative by a part of a complex input is a matter of its own.

The function is run on its inputs without history; those that are checked carry tangents.
"""

from collections.abc import Mapping, Sequence

import jax
import numpy as np

from torchlike._core.conversion.factories import as_tensor
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.levels.vmap import over_rows
from torchlike.autograd import _gradcheck_jacobian as jac
from torchlike.autograd._gradcheck_checks import GradcheckError, Tolerances, printable, slow_text
from torchlike.autograd._gradcheck_jacobian import Function, Part, host
from torchlike.autograd._gradcheck_many import Numerical
from torchlike.autograd.forward_ad import dual_level, make_dual, unpack_dual


class Forward:
    """A function of tensors, and the derivatives of its outputs numbered ``which`` along tangents of its inputs."""

    def __init__(self, function: Function, outputs: Sequence[Tensor], which: Sequence[int]):
        self.function, self.which = function, which
        self.outputs = [outputs[i] for i in which]
        inputs = enumerate(function.inputs)
        self.places = [i for i, x in inputs if isinstance(x, Tensor) and x.requires_grad]
        self.points = [function.inputs[i] for i in self.places]

    def tangents(self, directions: Mapping[int, Tensor]) -> list[Tensor | None]:
        """Those of the outputs, where the points with these numbers carry these tangents, the others none."""
        given = list(self.function.inputs)
        with dual_level():
            for j, place in enumerate(self.places):
                x = given[place].detach()
                given[place] = make_dual(x, directions[j]) if j in directions else x
            outputs = jac.as_tuple(self.function.func(*given))
            return [unpack_dual(outputs[i]).tangent for i in self.which]

    def along(self, j: int, direction: np.ndarray) -> list[np.ndarray]:
        """The derivatives, flat, where point ``j`` moves in a direction and the others stay."""
        directions = {i: _like(np.zeros(tuple(x.shape)), x) for i, x in enumerate(self.points)}
        found = self.tangents({**directions, j: _like(direction, self.points[j])})
        return [self.values(k, t).ravel() for k, t in enumerate(found)]

    def values(self, k: int, tangent: Tensor | None) -> np.ndarray:
        """The numbers of a tangent of an output; zeros if it has none."""
        return np.zeros(tuple(self.outputs[k].shape)) if tangent is None else host(tangent)

    def jacobians(self, j: int, part: Part) -> list[np.ndarray]:
        """Of each output: [element of point ``j``, element of the output]."""
        x = self.points[j]
        rows = [self.along(j, unit.reshape(x.shape) * _UNITS[part]) for unit in np.eye(x.numel())]
        return [
            np.array([row[k] for row in rows], dtype=None if rows else float).reshape(x.numel(), out.numel())
            for k, out in enumerate(self.outputs)
        ]


_UNITS = {jac.ALL: 1, jac.REAL: 1, jac.IMAGINARY: 1j}


def _like(values: np.ndarray, x: Tensor) -> Tensor:
    return as_tensor(values, dtype=x.dtype, device=x.device)


def _by_part(numerical: np.ndarray, part: Part) -> np.ndarray:
    """The derivative by a part of the input, from that by all, with an axis before the last for the parts."""
    return numerical[..., int(part is jac.IMAGINARY), :]


def check_jacobians(forward: Forward, numerical: Numerical, tol: Tolerances) -> None:
    """Compare whole Jacobians with the numerical ones, each [element of the input, its part, element of the output]."""
    for chosen in jac.passes(forward.points):
        analytical = {j: forward.jacobians(j, part) for j, part in chosen}
        for k, out in enumerate(forward.outputs):
            for j, part in chosen:
                got = analytical[j][k]
                if not numerical.holds(
                    j, lambda found, k=k, part=part, got=got: tol.close(got, _by_part(found[k], part))
                ):
                    raise GradcheckError(_mismatch(part, k, j, out, _by_part(numerical[j][k], part), got))


def check_projections(forward: Forward, steps: list, numerical: list, tol: Tolerances) -> None:
    """Compare derivatives along one step for each input, of a leading axis for its parts."""
    for chosen in jac.passes(forward.points):
        for j, part in chosen:
            step = steps[j][int(part is jac.IMAGINARY)]
            found = forward.along(j, step * _UNITS[part])
            for k, got in enumerate(found):
                expected = _by_part(numerical[j][k], part)
                if not tol.close(got, expected, step.sum()):
                    message = _mismatch(part, k, j, forward.outputs[k], expected, got)
                    raise GradcheckError(message + _in_slow_mode(forward, part, k, j, tol))


def _mismatch(part: Part, out: int, inp: int, like: Tensor, numerical: np.ndarray, analytical: np.ndarray) -> str:
    remark = f"While considering the {part.name} part of complex inputs only, " if part.name else ""
    return (
        f"{remark}Jacobian computed with forward mode mismatch for output {out} with respect to input {inp},\n"
        f"numerical:{printable(numerical, like)}\nanalytical:{printable(analytical, like)}\n"
    )


def _in_slow_mode(forward: Forward, part: Part, k: int, j: int, tol: Tolerances) -> str:
    function, x, out = forward.function, forward.points[j], forward.outputs[k]
    whole = function.jacobians(x, function(), [forward.which[k]])[0]
    return slow_text(_by_part(whole, part), forward.jacobians(j, part)[k], out, tol)


def check_undefined(forward: Forward, tol: Tolerances) -> None:
    """No tangent of an input is as good as zeros."""
    if len(forward.points) == 1:
        forward.tangents({0: _like(np.zeros(tuple(forward.points[0].shape)), forward.points[0])})  # which may raise
        return
    rng = np.random.default_rng(0)
    for j, x in enumerate(forward.points):
        directions = {i: _like(rng.random(tuple(y.shape)), y) for i, y in enumerate(forward.points) if i != j}
        zero = forward.tangents({**directions, j: _like(np.zeros(tuple(x.shape)), x)})
        for k, pair in enumerate(zip(zero, forward.tangents(directions), strict=True)):
            got, expected = (forward.values(k, t) for t in pair)
            if not tol.close(got, expected):
                raise GradcheckError(
                    f"Mismatch in tangent values for output with index: {k} when input: {x} has an undefined tangent "
                    f"value. Got: {pair[0]} but expected: {pair[1]}"
                )


_BATCH = 2


def check_batched(forward: Forward, tol: Tolerances) -> None:
    """A batch of tangents of an input gives the batch of tangents of the outputs."""
    rng = np.random.default_rng(0)
    for j, x in enumerate(forward.points):
        rows = _like(rng.random((_BATCH, *x.shape)), x)
        alone = [forward.tangents({j: row}) for row in rows]
        try:
            found = over_rows(lambda row, j=j: forward.tangents({j: row}), [rows])
        except (RuntimeError, jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\ngradcheck failed while testing batched gradient "
                "computation with forward-mode AD. The function must consist of operators whose tangents can be "
                "vectorized; to leave this check out, pass check_batched_forward_grad=False."
            ) from error
        for k, (got, *expected) in enumerate(zip(found, *alone, strict=True)):
            stacked = np.stack([forward.values(k, t) for t in expected])
            if not tol.close(np.zeros_like(stacked) if got is None else host(got), stacked):
                raise GradcheckError(
                    f"For output {k} and input {j}, the batched tangent is not that of each tangent alone:\n"
                    f"batched: {got}\nalone: {expected}"
                )
