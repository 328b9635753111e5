"""Products with Jacobians and Hessians of functions of tensors, and these matrices themselves.

The functions take a function of tensors and the point where to differentiate it. Of a function ``f`` from
several inputs to several outputs, the Jacobian is a tuple over outputs of tuples over inputs.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torchlike._base.state import enable_grad
from torchlike._core.autograd.backward import grad
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.like import zeros_like
from torchlike._transforms.levels.vmap import over_rows
from torchlike.autograd._functional_steps import _as_tuple as _as_tuple
from torchlike.autograd._functional_steps import _as_tuple_nocheck as _as_tuple_nocheck
from torchlike.autograd._functional_steps import _grad_postprocess as _grad_postprocess
from torchlike.autograd._functional_steps import _grad_preprocess as _grad_preprocess
from torchlike.autograd._functional_steps import _tuple_postprocess as _tuple_postprocess
from torchlike.autograd._functional_steps import given_back, prepared, tuple_of
from torchlike.autograd.forward_ad import dual_level, make_dual, unpack_dual
from torchlike.interop.alias import missing_names

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]

__getattr__ = missing_names(__name__)

Tensors = Tensor | tuple[Tensor, ...]
_OUTPUTS = "outputs of the user-provided function"


# -- What comes in, and what goes out ------------------------------------------------------------------
def _outputs(func: Callable, inputs: tuple[Tensor, ...], name: str, strict: bool) -> tuple[Any, tuple[Tensor, ...]]:
    """What the function returned, and that as a tuple."""
    returned = func(*inputs)
    outputs = tuple_of(returned, _OUTPUTS, name)
    if strict:
        for i, out in enumerate(outputs):
            if not out.requires_grad:
                raise RuntimeError(
                    f"Output {i} of the user-provided function does not require gradients. The outputs must be "
                    "computed in a differentiable manner from the input when running in strict mode."
                )
    return returned, outputs


def _scalar(func: Callable, inputs: tuple[Tensor, ...], name: str, strict: bool) -> Tensor:
    """What the function returned, which is to be a tensor of one element."""
    returned, outputs = _outputs(func, inputs, name, strict)
    if not isinstance(returned, Tensor):
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if returned.numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return outputs[0]


def _direction(v: Any, like: tuple[Tensor, ...], single: bool, name: str, who: str, create: bool) -> tuple:
    """The vector ``v``, checked against the tensors that it multiplies; ``single``: these are one tensor, no tuple."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {who} a single Tensor with a single element.")
        return (FUNCTIONS["ones_like"](like[0].detach()),)
    vectors = prepared(tuple_of(v, "v", name), create, differentiated=False)
    if len(vectors) != len(like):
        if single:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}.")
    for i, (a, t) in enumerate(zip(vectors, like, strict=True)):
        if a.shape != t.shape:
            which = "v" if single else f"Entry {i} in v"
            raise RuntimeError(f"{which} has invalid size: should be {t.shape} but got {a.shape}.")
    return vectors


def _input_direction(v: Any, inputs: tuple[Tensor, ...], single: bool, name: str, create: bool) -> tuple:
    return _direction(v, inputs, single, name, "the input to the user-provided function is", create)


def _like(structure: Any, values: tuple) -> Any:
    """``values`` as a tuple if ``structure`` is one, else the only one."""
    return values if isinstance(structure, tuple) else values[0]


# -- Gradients that may be missing ---------------------------------------------------------------------
def _gradients(outputs, inputs, grad_outputs=None, *, create_graph=False, batched=False):
    """As ``autograd.grad``; None for all that the outputs do not depend on."""
    seeds = (None,) * len(outputs) if grad_outputs is None else grad_outputs
    pairs = [(o, g) for o, g in zip(outputs, seeds, strict=True) if o is not None and o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return grad([o for o, _ in pairs], inputs, [g for _, g in pairs], retain_graph=True, create_graph=create_graph,
                allow_unused=True, is_grads_batched=batched)  # fmt: skip


def _filled(gradients, like, strict: bool, create_graph: bool, missing: str, constant: str) -> tuple[Tensor, ...]:
    """The gradients, zeros for the missing ones; in strict mode an error.

    ``missing``: what to say of one that is None; ``constant``: what to say is independent of the input, where one
    has no history although it should.
    """
    found = []
    for i, (g, t) in enumerate(zip(gradients, like, strict=True)):
        if strict and g is None:
            raise RuntimeError(missing.format(i))
        if strict and create_graph and not g.requires_grad:
            raise RuntimeError(_constant(constant, i))
        found.append(zeros_like(t) if g is None else g)
    return tuple(found)


def _constant(what: str, i: int) -> str:
    return (
        f"The {what} of the user-provided function is independent of input {i}. This is not allowed in strict mode "
        "when create_graph=True."
    )


_NO_OUTPUT = "The output of the user-provided function is independent of input {}. This is not allowed in strict mode."
_NO_JACOBIAN = (
    "The jacobian of the user-provided function is independent of input {}. This is not allowed in strict mode."
)
_NO_TANGENT = (
    "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the double "
    "backward trick to compute forward mode gradients. This is not allowed in strict mode."
)
_NO_HESSIAN = (
    "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. This is not allowed "
    "in strict mode as it prevents from using the double backward trick to replace forward mode AD."
)


def _demand_curved(jacobians) -> None:
    """Strict mode: the gradients that a Hessian differentiates must depend on the inputs."""
    for i, g in enumerate(jacobians):
        if g is None:
            raise RuntimeError(_NO_OUTPUT.format(i))
        if not g.requires_grad:
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided function with respect to "
                f"input {i} is independent of the input. This is not allowed in strict mode. You should ensure that "
                "your function is twice differentiable and that the jacobian depends on the inputs (this would be "
                "violated by a linear function for example)."
            )


def _seeds_like(outputs) -> tuple:
    """Zeros that require grad: gradients are linear in them, so their gradients are forward derivatives."""
    return tuple(None if o is None else zeros_like(o, requires_grad=True) for o in outputs)


# -- Products ------------------------------------------------------------------------------------------
def vjp(
    func: Callable, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensors, Tensors]:
    """The outputs of ``func(*inputs)``, and the product of ``v`` with its Jacobian.

    Args:
        func: takes tensors, returns a tensor or a tuple of tensors.
        inputs: where to differentiate: a tensor or a tuple of tensors.
        v: of the shapes of the outputs; may be left out for one output of one element.
        create_graph: give the results a history, so that they can be differentiated.
        strict: refuse an output, or a product, that does not depend on an input, instead of giving zeros.

    Raises:
        TypeError: something that must be a tensor, or a tuple of them, is not.
        RuntimeError: ``v`` of a wrong length or shape; in strict mode, an independence.

    >>> import torchlike as torch
    >>> torch.autograd.functional.vjp(lambda x: x**2, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        points = prepared(tuple_of(inputs, "inputs", "vjp"), create_graph)
        returned, outputs = _outputs(func, points, "vjp", strict)
        who = "the user-provided function returns"
        vectors = _direction(v, outputs, isinstance(returned, Tensor), "vjp", who, create_graph)
        found = _gradients(outputs, points, vectors, create_graph=create_graph)
        products = _filled(found, points, strict, create_graph, _NO_OUTPUT, "jacobian")
    return given_back(_like(returned, outputs), create_graph), given_back(_like(inputs, products), create_graph)


def jvp(
    func: Callable, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensors, Tensors]:
    """The outputs of ``func(*inputs)``, and the product of its Jacobian with ``v``, of the shapes of the inputs.

    It differentiates the backward pass by what that pass starts from, in which it is linear; so ``func`` must be
    twice differentiable. Arguments and errors are those of :func:`vjp`.

    >>> import torchlike as torch
    >>> torch.autograd.functional.jvp(lambda x: x.sum() * x, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
    (tensor([3., 6.]), tensor([4., 2.]))
    """
    with enable_grad():
        points = prepared(tuple_of(inputs, "inputs", "jvp"), create_graph)
        vectors = _input_direction(v, points, isinstance(inputs, Tensor), "jvp", create_graph)
        returned, outputs = _outputs(func, points, "jvp", strict)
        seeds = _seeds_like(outputs)
        pulled = _gradients(outputs, points, seeds, create_graph=True)
        if strict:
            _filled(pulled, points, True, False, _NO_OUTPUT, "jacobian")
        found = _gradients(pulled, seeds, vectors, create_graph=create_graph)
        products = _filled(found, outputs, strict, create_graph, _NO_TANGENT, "jacobian")
    return given_back(_like(returned, outputs), create_graph), given_back(_like(returned, products), create_graph)


def vhp(
    func: Callable, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensor, Tensors]:
    """The output of ``func(*inputs)``, which has one element, and the product of ``v`` with its Hessian.

    Arguments and errors are those of :func:`vjp`; ``v`` has the shapes of the inputs.

    >>> import torchlike as torch
    >>> torch.autograd.functional.vhp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        points = prepared(tuple_of(inputs, "inputs", "vhp"), create_graph)
        vectors = _input_direction(v, points, isinstance(inputs, Tensor), "vhp", create_graph)
        output = _scalar(func, points, "vhp", strict)
        jacobians = _gradients((output,), points, create_graph=True)
        if strict:
            _demand_curved(jacobians)
        found = _gradients(jacobians, points, vectors, create_graph=create_graph)
        products = _filled(found, points, strict, create_graph, _NO_JACOBIAN, "hessian")
    return given_back(output, create_graph), given_back(_like(inputs, products), create_graph)


def hvp(
    func: Callable, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensor, Tensors]:
    """The output of ``func(*inputs)``, which has one element, and the product of its Hessian with ``v``.

    :func:`vhp` gives the same numbers for less work wherever the Hessian is symmetric. Arguments and errors are
    those of :func:`vjp`; ``v`` has the shapes of the inputs.

    >>> import torchlike as torch
    >>> torch.autograd.functional.hvp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        points = prepared(tuple_of(inputs, "inputs", "hvp"), create_graph)
        vectors = _input_direction(v, points, isinstance(inputs, Tensor), "hvp", create_graph)
        output = _scalar(func, points, "hvp", strict)
        jacobians = _gradients((output,), points, create_graph=True)
        if strict:
            _demand_curved(jacobians)
        seeds = _seeds_like(points)
        pulled = _gradients(jacobians, points, seeds, create_graph=True)
        found = _gradients(pulled, seeds, vectors, create_graph=create_graph)
        products = _filled(found, points, strict, create_graph, _NO_HESSIAN, "hessian")
    return given_back(output, create_graph), given_back(_like(inputs, products), create_graph)


# -- Matrices ------------------------------------------------------------------------------------------
def jacobian(
    func: Callable,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of ``func`` at ``inputs``: for an output and an input, of shape ``output.shape + input.shape``.

    Args:
        func: takes tensors, returns a tensor or a tuple of tensors.
        inputs: where to differentiate: a tensor or a tuple of tensors.
        create_graph: give the result a history, so that it can be differentiated.
        strict: refuse an output that does not depend on an input, instead of giving zeros.
        vectorize: all rows in one batched backward pass, not one pass a row.
        strategy: ``"reverse-mode"``, or with vectorize ``"forward-mode"``: ``func`` is run once, on tensors that carry
            the tangents of all columns, which is less work where there are more outputs than inputs. The result has
            a history if ``inputs`` have one.

    Returns:
        A tensor; with a tuple of inputs a tuple over them, with a tuple of outputs a tuple over those, outermost.

    Raises:
        TypeError: something that must be a tensor, or a tuple of them, is not.
        RuntimeError: an output without elements; strict with vectorize; in strict mode, an independence; in forward
            mode, random operators. ValueError: there, an input that is not floating point.
        NotImplementedError: ``strategy="forward-mode"`` without vectorize or with create_graph; there, an operator
            without forward mode.

    >>> import torchlike as torch
    >>> torch.autograd.functional.jacobian(lambda x: x.flip(0) * x[0], torch.tensor([1.0, 2.0]))
    tensor([[2., 1.],
            [2., 0.]])
    """
    _check_strategy(strategy, create_graph, strict, vectorize)
    if strategy == "forward-mode":
        return _columns_at_once(func, inputs)
    with enable_grad():
        points = prepared(tuple_of(inputs, "inputs", "jacobian"), create_graph)
        returned, outputs = _outputs(func, points, "jacobian", strict)
        rows = _rows_at_once(outputs, points, create_graph) if vectorize else (
            tuple(_rows(i, out, points, create_graph, strict) for i, out in enumerate(outputs))
        )  # fmt: skip
        blocks = tuple(
            _like(inputs, tuple(r.view(out.shape + x.shape) for r, x in zip(row, points, strict=True)))
            for row, out in zip(rows, outputs, strict=True)
        )
    return given_back(_like(returned, blocks), create_graph)


def _check_strategy(strategy: str, create_graph: bool, strict: bool, vectorize: bool) -> None:
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    forward, name = strategy == "forward-mode", "torch.autograd.functional.jacobian"
    if forward and create_graph:
        raise NotImplementedError(
            f'{name}: `create_graph=True` and `strategy="forward-mode"` are not supported together (yet). Please '
            'either set `create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strict and (forward or vectorize):
        other = '`strategy="forward-mode"`' if forward else "`vectorized=True`"
        way_out = '`strategy="reverse-mode"`' if forward else "`vectorize=False`"
        raise RuntimeError(
            f"{name}: `strict=True` and {other} are not supported together{' (yet)' if forward else ''}. Please "
            f"either set `strict=False` or {way_out}."
        )
    if forward and not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
            "`vectorize=True`."
        )


def _rows(i: int, out: Tensor, points: tuple[Tensor, ...], create_graph: bool, strict: bool) -> tuple[Tensor, ...]:
    """The rows of output ``i``, stacked, for each input: one backward pass an element."""
    missing = _NO_OUTPUT.replace("The output", f"Output {i}")
    flat = out.reshape(-1)
    passes = []
    for j in range(out.numel()):
        found = _gradients((flat[j],), points, create_graph=create_graph)
        passes.append(_filled(found, points, strict, create_graph, missing, "jacobian"))
    if not passes:
        raise RuntimeError(f"stack expects a non-empty TensorList: output {i} has no elements; use vectorize=True")
    return tuple(FUNCTIONS["stack"](rows) for rows in zip(*passes, strict=True))


def _rows_at_once(outputs: tuple[Tensor, ...], points: tuple[Tensor, ...], create_graph: bool) -> tuple:
    """The rows of each output, for each input: one backward pass over all unit vectors of the outputs."""
    if not outputs:
        raise AssertionError("jacobian: expected at least one tensor, but the user-provided function returned ()")
    sizes = [out.numel() for out in outputs]
    total = sum(sizes)
    if not total:
        raise IndexError("jacobian: the outputs have no elements; index 0 is out of bounds for dimension 0 with size 0")
    found = _gradients(outputs, points, _unit_vectors(outputs, sizes), create_graph=create_graph, batched=True)
    stacks = [
        (x.new_zeros((total, *x.shape)) if g is None else g).split(sizes) for g, x in zip(found, points, strict=True)
    ]
    return tuple(zip(*stacks, strict=True))


def _unit_vectors(outputs: tuple[Tensor, ...], sizes: list[int]) -> list[Tensor | None]:
    """For each differentiable output, its part of every unit vector of all outputs together."""
    parts = zip(outputs, _construct_standard_basis_for(outputs, sizes), strict=True)
    return [part.reshape((part.shape[0], *out.shape)) if out.requires_grad else None for out, part in parts]


def _columns_at_once(func: Callable, inputs: Tensors) -> Any:
    """The Jacobian from one run of ``func`` with the tangents of all elements of the inputs together."""
    points = tuple_of(inputs, "inputs", "jacobian")
    if not points:
        raise AssertionError("jacobian: expected at least one tensor, but inputs is ()")
    sizes, returned = [x.numel() for x in points], []

    def along(*directions):
        with dual_level():
            duals = [make_dual(x, d.view(x.shape)) for x, d in zip(points, directions, strict=True)]
            returned.append(func(*duals))
            pairs = [unpack_dual(out) for out in tuple_of(returned[0], _OUTPUTS, "jacobian")]
            return [zeros_like(primal) if tangent is None else tangent for primal, tangent in pairs]

    columns = over_rows(along, _construct_standard_basis_for(points, sizes))
    blocks = tuple(
        _like(inputs, tuple(_block(part, x) for part, x in zip(column.split(sizes), points, strict=True)))
        for column in columns
    )
    return _like(returned[0], blocks)


def _block(columns: Tensor, x: Tensor) -> Tensor:
    """The Jacobian by ``x`` from the derivatives by its elements, stacked."""
    return columns.movedim(0, -1).reshape(columns.shape[1:] + x.shape)


def _construct_standard_basis_for(tensors: Sequence[Tensor], tensor_numels: Sequence[int]) -> tuple[Tensor, ...]:
    """The columns of a unit matrix, ``tensor_numels`` of them for each tensor, in its dtype and on its device."""
    total, before, parts = sum(tensor_numels), 0, []
    for t, n in zip(tensors, tensor_numels, strict=True):
        parts.append(FUNCTIONS["eye"](total, dtype=t.dtype, device=t.device)[:, before : before + n])
        before += n
    return tuple(parts)


def hessian(
    func: Callable,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of ``func`` at ``inputs``: for inputs i and j, of shape ``inputs[i].shape + inputs[j].shape``.

    ``func`` returns one tensor of one element. ``vectorize`` and ``outer_jacobian_strategy`` say how the gradient is
    differentiated; the other arguments, and the errors, are those of :func:`jacobian`.

    >>> import torchlike as torch
    >>> torch.autograd.functional.hessian(lambda x: x[0] ** 2 * x[1], torch.tensor([1.0, 2.0]))
    tensor([[4., 2.],
            [2., 0.]])
    """
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    tuple_of(inputs, "inputs", "hessian")

    def scalar(*points):
        return _scalar(func, points, "hessian", strict)

    def gradient(*points):
        if outer_jacobian_strategy == "forward-mode":
            points = tuple(x.requires_grad_() for x in points)
        found = jacobian(scalar, points, create_graph=True)
        if strict:
            _demand_curved(found)
        return _like(inputs, tuple(g.view(x.shape) for g, x in zip(found, points, strict=True)))

    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
