"""Derivatives of a function of tensors, twice: from differences of its values, and from its backward.

Inputs are perturbed in place, through ``.data``: the function always sees the very tensors it was given.
Jacobians are numpy arrays of shape (elements of the input, elements of the output). Of a complex input, the real
and the imaginary part of an entry are the derivatives by the real and by the imaginary part, as in a gradient.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from torchlike._core.autograd.backward import grad
from torchlike._core.conversion.factories import as_tensor
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.storage import Outer
from torchlike._core.tensor.tensor import Tensor
from torchlike.autograd import _gradcheck_batches as batches


def as_tuple(x: Any) -> tuple:
    """A list or tuple as a tuple; anything else as a tuple of one."""
    return tuple(x) if isinstance(x, (list, tuple)) else (x,)


def differentiable(tensors: Sequence) -> tuple[Tensor, ...]:
    """Those that require grad."""
    return tuple(t for t in tensors if t.requires_grad)


def host(t: Tensor) -> np.ndarray:
    """A copy of the values; low precision as float32."""
    if t._storage.value.__class__ is Outer:  # the numbers are those that the subclass gives, one by one
        return np.array([x.item() for x in t.detach().reshape(-1)]).reshape(tuple(t.shape))
    values = np.array(t._host() if t.__class__ is Tensor else t.detach()._host())
    return values.astype(np.float32) if values.dtype.kind == "V" or values.dtype.itemsize < 4 else values


# -- Parts: a complex output is two real ones -----------------------------------------------------------
class Part(NamedTuple):
    """What is checked of an output: all of a real one, one of the two parts of a complex one."""

    name: str

    def of(self, x: Any) -> Any:
        """The part of a tensor or an array."""
        if not self.name:
            return x
        if isinstance(x, Tensor):
            return FUNCTIONS["imag" if self.name == "imaginary" else "real"](x)
        return x.imag if self.name == "imaginary" else x.real

    @property
    def remark(self) -> str:
        """How messages begin."""
        return f"While considering the {self.name} part of complex outputs only, " if self.name else ""


ALL, IMAGINARY, REAL = Part(""), Part("imaginary"), Part("real")


def passes(outputs: Sequence[Tensor]) -> list[list[tuple[int, Part]]]:
    """The parts to check, in order: first real outputs and imaginary parts, then real parts."""
    first = [(k, IMAGINARY if out.is_complex() else ALL) for k, out in enumerate(outputs)]
    return [first, [(k, REAL) for k, out in enumerate(outputs) if out.is_complex()]]


# -- From values ----------------------------------------------------------------------------------------
def _moved_along(x: Tensor, step: np.ndarray) -> Generator:
    """Twice: with ``x`` moved by ``-step``, then by ``step``."""
    data = x.data
    for by in (-step, step):
        old = data.clone()
        data.copy_(as_tensor(host(x) + by))
        try:
            yield
        finally:
            data.copy_(old)


class Function:
    """A function of tensors, called again near the point where its inputs are.

    Its derivatives are arrays with an axis before the last for the parts of the input: of length 2 if complex.
    """

    def __init__(self, func: Callable, inputs: tuple, eps: float):
        self.func, self.inputs, self.eps = func, inputs, eps

    def __call__(self) -> tuple[Tensor, ...]:
        return as_tuple(self.func(*self.inputs))

    def jacobians(self, x: Tensor, outputs: Sequence[Tensor], which: Sequence[int]) -> list[np.ndarray]:
        """Of the outputs numbered ``which``: [element of ``x``, part of ``x``, element of the output]."""
        elements, eps = batches.Elements(x), self.eps
        rows = [
            [self._change(elements.moved(at, i, eps * unit), outputs, which, f"on index {i} ") for unit in _units(x)]
            for at, i in enumerate(np.ndindex(*x.shape))
        ]
        by_output = [[[parts[n] for parts in row] for row in rows] for n in range(len(which))]
        return [
            np.array(block, dtype=None if block else float).reshape(len(rows), len(_units(x)), outputs[i].numel())
            for block, i in zip(by_output, which, strict=True)
        ]

    def change(self, x: Tensor, at: int, unit: complex, outputs: Sequence[Tensor], which: Sequence[int]) -> list:
        """The derivative of each output by the element number ``at`` alone, or by one of its parts."""
        index = tuple(int(i) for i in np.unravel_index(at, tuple(x.shape)))
        moves = batches.Elements(x).moved(at, index, self.eps * unit)
        return self._change(moves, outputs, which, f"on index {index} ")

    def along(self, x: Tensor, step: np.ndarray, outputs: Sequence[Tensor], which: Sequence[int]) -> list[np.ndarray]:
        """The same along a step, of a leading axis for the parts of ``x``: [part of ``x``, element of the output]."""
        changes = [
            self._change(_moved_along(x, self.eps * unit * direction), outputs, which, "")
            for direction, unit in zip(step, _units(x), strict=True)
        ]
        return [np.array(change) for change in zip(*changes, strict=True)]

    def _change(self, moves: Generator, outputs: Sequence[Tensor], which: Sequence[int], where: str) -> list:
        """The central difference of each output, flat, between two places that ``moves`` goes to."""
        values = []
        try:
            for _ in moves:
                there = as_tuple(self.func(*self.inputs))
                for i in which:
                    if there[i].shape != outputs[i].shape or there[i].dtype is not outputs[i].dtype:
                        _refuse_unlike(outputs[i], there[i], f"when inputs are perturbed {where}by {self.eps}")
                values.append([host(there[i]).ravel() for i in which])
        finally:
            moves.close()  # also where the function raises: the inputs are then what they were
        with np.errstate(invalid="ignore", over="ignore"):
            return [(b - a) / (2 * self.eps) for a, b in zip(*values, strict=True)]


def _units(x: Tensor) -> tuple[complex, ...]:
    return (1, 1j) if x.is_complex() else (1,)


def joined(part: Part, derivative: np.ndarray) -> np.ndarray:
    """The derivative of a part of the output, those by the two parts of the input in one complex number."""
    derivative = part.of(derivative)
    if derivative.shape[-2] == 1:
        return derivative[..., 0, :]
    return derivative[..., 0, :] + 1j * derivative[..., 1, :]


def _refuse_unlike(expected: Tensor, got: Tensor, when: str) -> NoReturn:
    if got.shape != expected.shape:
        raise AssertionError(
            f"Expected `func` to return outputs with the same shape {when}, but got: shapes {got.shape} and "
            f"{expected.shape}."
        )
    raise AssertionError(
        f"Expected `func` to return outputs with the same dtype {when}, but got: dtypes {got.dtype} and "
        f"{expected.dtype}."
    )


# -- From the backward ----------------------------------------------------------------------------------
def pulled(out: Tensor, inputs: Sequence[Tensor], cotangent: np.ndarray | Tensor) -> list[Tensor | None]:
    """The gradients of the inputs for a gradient of ``out``; the graph is kept."""
    seed = as_tensor(cotangent, dtype=out.dtype, device=out.device).reshape(out.shape)
    return list(grad(out, inputs, seed, retain_graph=True, allow_unused=True))


def jacobians(out: Tensor, inputs: Sequence[Tensor]) -> tuple[list[np.ndarray], list]:
    """The Jacobian of ``out`` by each input, and all (input, gradient) it was made of."""
    if batches.is_worth(out, inputs) and batches.is_plain(out):
        return _by_batches(out, inputs)
    columns: list[list[np.ndarray]] = [[] for _ in inputs]
    seen = []
    for unit in np.eye(out.numel()):
        for x, g, column in zip(inputs, pulled(out, inputs, unit), columns, strict=True):
            column.append(np.zeros(x.numel()) if g is None else host(g).ravel())
            seen += [] if g is None else [(x, g)]
    return [
        np.array(column, dtype=None if column else float).reshape(out.numel(), x.numel()).T
        for x, column in zip(inputs, columns, strict=True)
    ], seen


def _by_batches(out: Tensor, inputs: Sequence[Tensor]) -> tuple[list[np.ndarray], list]:
    """As :func:`jacobians`, by a backward of many rows at once."""
    found = batches.rows(out, inputs)
    jacobians = [
        np.zeros((x.numel(), out.numel()))
        if parts is None
        else np.concatenate([host(g).reshape(len(g), x.numel()) for g in parts]).T
        for x, parts in zip(inputs, found, strict=True)
    ]
    return jacobians, [(x, g) for x, parts in zip(inputs, found, strict=True) for g in parts or ()]


_ROUNDINGS = 16  # a kernel may be compiled anew between two runs, which changes how it rounds


def agree(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    """Whether two runs of the same backward gave the same, but for ``tolerance`` and the rounding of kernels."""
    if not a.size:
        return True
    rounding = _ROUNDINGS * np.finfo(a.dtype).eps * np.abs(a).max()
    return not np.abs(a - b).max() > tolerance + rounding
