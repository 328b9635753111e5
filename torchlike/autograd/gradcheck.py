"""Gradients compared with differences of values: ``gradcheck`` and ``gradgradcheck``."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from torchlike._core.autograd.backward import grad
from torchlike._core.tensor.tensor import Tensor
from torchlike.autograd import _gradcheck_checks as checks
from torchlike.autograd import _gradcheck_forward as forward_mode
from torchlike.autograd import _gradcheck_jacobian as jac
from torchlike.autograd._gradcheck_checks import GradcheckError, Tolerances
from torchlike.autograd._gradcheck_jacobian import Function, as_tuple, differentiable
from torchlike.autograd._gradcheck_many import Numerical
from torchlike.autograd._gradcheck_sparse import demand_dense, is_sparse, over_dense
from torchlike.interop.alias import missing_names

__all__ = [
    "gradcheck", "gradgradcheck", "GradcheckError", "get_numerical_jacobian", "get_analytical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
]  # fmt: skip

__getattr__ = missing_names(__name__)

Tensors = Tensor | Sequence[Tensor]


def gradcheck(
    func: Callable[..., Tensors],
    inputs: Tensors,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of ``func`` with central differences of its values.

    The inputs that require grad are perturbed, in place and for the time being; the defaults suit float64. Complex
    outputs are checked part by part; of a complex input, the real and the imaginary part are perturbed.

    Of an input of many elements, all perturbations are computed by one call of ``func``, as under :func:`torch.vmap`,
    where it allows that; a few more calls, one by one, show that they agree, and no check fails without them.

    Args:
        func: takes ``inputs``, returns a tensor or a list or tuple of tensors; those that require grad are checked.
        inputs: a tensor, or a list or tuple of tensors and other arguments.
        eps: how far to go for a difference.
        atol, rtol: a derivative may differ by ``atol + rtol * |numerical|``.
        raise_exception: raise if a check fails; else return False.
        nondet_tol: how much two runs of the same backward may differ.
        check_undefined_grad: check that missing gradients of outputs, or tangents of inputs, are taken for zeros.
        check_grad_dtypes: check that gradients have the dtype of their input.
        check_batched_grad: compare ``autograd.grad(is_grads_batched=True)`` with a loop.
        check_batched_forward_grad: compare the tangents under :func:`torch.vmap` with a loop.
        check_forward_ad, check_backward_ad: check derivatives computed forwards, and backwards.
        fast_mode: compare one weighted sum of each Jacobian, for two evaluations of ``func`` for each input.
        masked: of sparse inputs: True perturbs the values that they have, as does fast mode; otherwise all elements
            are perturbed. Without effect on dense ones.

    Raises:
        GradcheckError: a check failed.
        ValueError: no input requires grad; an output is sparse.
        RuntimeError: an input whose elements share memory; what ``func`` raised.
        AssertionError: shapes or dtypes of the outputs change with the values.
        NotImplementedError: check_forward_ad of an operator without forward mode.

    >>> import torchlike as torch
    >>> from torchlike.autograd.gradcheck import gradcheck
    >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    >>> gradcheck(lambda x: x.exp() * x, x)
    True
    """
    flags = Flags(
        fast_mode, check_backward_ad, check_forward_ad, check_undefined_grad, check_batched_grad,
        check_batched_forward_grad,
    )  # fmt: skip
    _check_flags(flags)
    tol = Tolerances(atol, rtol, nondet_tol, check_grad_dtypes)
    func, given = over_dense(func, as_tuple(inputs), bool(masked or fast_mode), bool(masked and not fast_mode))
    try:
        _check(func, given, eps, tol, flags)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


class Flags(NamedTuple):
    """What to check, and how."""

    fast: bool
    backward: bool
    forward: bool
    undefined: bool
    batched: bool
    batched_forward: bool


def _check_flags(flags: Flags) -> None:
    if not (flags.forward or flags.backward):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if flags.batched and not flags.backward:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if flags.batched_forward and not flags.forward:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")


def _check(func: Callable, inputs: tuple, eps: float, tol: Tolerances, flags: Flags) -> None:
    points = _checked_inputs(inputs)
    function = Function(func, inputs, eps)
    outputs = function()
    for out in outputs:
        demand_dense(out)
    which = [i for i, out in enumerate(outputs) if out.requires_grad]
    if not which:
        checks.check_constant(function, points, outputs, flags.fast)
        return
    forward = forward_mode.Forward(function, outputs, which)
    (_check_fast if flags.fast else _check_slow)(function, points, outputs, which, forward, tol, flags)
    if flags.batched_forward:
        forward_mode.check_batched(forward, tol)
    found = differentiable(outputs)
    if flags.batched:
        checks.check_batched(points, found, tol)
    if flags.backward:
        checks.check_linear(points, found)
    if flags.forward and flags.undefined:
        forward_mode.check_undefined(forward, tol)
    if flags.backward and flags.undefined:
        checks.check_undefined(points, differentiable(function()))


def _check_slow(function, points, outputs, which, forward, tol, flags) -> None:  # type: ignore[no-untyped-def]
    """Whole Jacobians."""
    numerical = Numerical(function, points, outputs, which)
    if flags.backward:
        checks.check_jacobians(points, outputs, which, numerical, tol)
    if flags.forward:
        forward_mode.check_jacobians(forward, numerical, tol)


def _check_fast(function, points, outputs, which, forward, tol, flags) -> None:  # type: ignore[no-untyped-def]
    """Derivatives along random steps."""
    rng = np.random.default_rng(0)
    steps = checks.random_steps(points, rng)
    numerical = [function.along(x, u, outputs, which) for x, u in zip(points, steps, strict=True)]
    if flags.backward:
        checks.check_projections(function, points, outputs, which, steps, numerical, rng, tol)
    if flags.forward:
        forward_mode.check_projections(forward, steps, numerical, tol)


def _checked_inputs(inputs: tuple) -> tuple[Tensor, ...]:
    """The inputs that require grad."""
    points = []
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor) or not x.requires_grad:
            continue
        if x.dtype.itemsize < (16 if x.is_complex() else 8):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex.",
                UserWarning,
                stacklevel=4,
            )
        if any(step == 0 and size > 1 for step, size in zip(x.stride(), x.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )
        points.append(x)
    if not points:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    return tuple(points)


def gradgradcheck(
    func: Callable[..., Tensors],
    inputs: Tensors,
    grad_outputs: Tensors | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """:func:`gradcheck` of the gradients of ``func``, as a function of its inputs and of gradients of its outputs.

    Args:
        grad_outputs: the gradients of the outputs; by default random ones that require grad.
        gen_non_contig_grad_outputs: make those with gaps in memory.
        check_fwd_over_rev, check_rev_over_rev: differentiate the backward forwards, and by a backward.

    The other arguments, and the errors, are those of :func:`gradcheck`; TypeError if no output is differentiable.

    >>> import torchlike as torch
    >>> from torchlike.autograd.gradcheck import gradgradcheck
    >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    >>> gradgradcheck(lambda x: x.exp() * x, x)
    True
    """
    _check_second_flags(check_fwd_over_rev, check_rev_over_rev, check_undefined_grad, check_batched_grad)
    _demand_dense_gradients(func, as_tuple(inputs), grad_outputs)
    func, arguments = over_dense(func, as_tuple(inputs), masked or fast_mode, sparse=True)
    seeds = _seeds(func, arguments, grad_outputs, gen_non_contig_grad_outputs)
    count = len(arguments)
    wanted = [i for i, x in enumerate(arguments) if isinstance(x, Tensor) and x.requires_grad]

    def gradients(*args):
        points = [args[i].requires_grad_() for i in wanted]  # in forward mode they come without history
        outputs = differentiable(as_tuple(func(*args[:count])))
        found = grad(outputs, points, args[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients, arguments + seeds, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, fast_mode=fast_mode, masked=masked, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )  # fmt: skip


def _demand_dense_gradients(func: Callable, inputs: tuple, grad_outputs: Any) -> None:
    """Refuse sparse inputs whose gradients, the outputs of what is checked, are sparse as well."""
    points = [x for x in inputs if is_sparse(x) and x.requires_grad]
    if not points:
        return
    outputs = differentiable(as_tuple(func(*inputs)))
    seeds = _seeds(func, inputs, grad_outputs, False)
    for gradient in grad(outputs, points, seeds, allow_unused=True):
        demand_dense(gradient)


def _check_second_flags(forward: bool, reverse: bool, undefined: bool, batched: bool) -> None:
    if not (forward or reverse):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    for flag, name in ((undefined, "check_undefined_grad"), (batched, "check_batched_grad")):
        if flag and not reverse:
            raise AssertionError(f"Setting {name}=True requires check_rev_over_rev to be True")


def _seeds(func: Callable, inputs: tuple, grad_outputs: Any, noncontiguous: bool) -> tuple[Tensor, ...]:
    if grad_outputs is not None:
        return as_tuple(grad_outputs)
    seeds = tuple(checks.random_like(out, noncontiguous) for out in differentiable(as_tuple(func(*inputs))))
    if not seeds and any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        raise TypeError("gradgradcheck: func returned no output that requires grad; expected at least one")
    return seeds


# -- Jacobians, as functions of their own ----------------------------------------------------------------
def _warn_private(name: str) -> None:
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. It is deprecated: use "
        "`torch.autograd.gradcheck`, or `torch.autograd.functional.jacobian`.",
        FutureWarning,
        stacklevel=3,
    )


def _refuse(name: str, grad_out: float, outputs: Sequence[Tensor]) -> None:
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0.")
    if any(out.is_complex() for out in outputs):
        raise ValueError(
            f"Expected output to be non-complex. {name} no longer supports functions that return complex outputs."
        )


def get_numerical_jacobian(fn, inputs, target=None, eps=1e-3, grad_out=1.0):
    """Deprecated: the Jacobians of the first output of ``fn(inputs)``, from differences, of shape (inputs, outputs).

    ``target``: the inputs to perturb, by default all those that require grad.
    """
    _warn_private("get_numerical_jacobian")
    _refuse("get_numerical_jacobian", grad_out, ())
    arguments = as_tuple(inputs)
    function = Function(lambda *args: fn(args), arguments, eps)
    outputs = function()
    _refuse("get_numerical_jacobian", grad_out, outputs)
    perturbed = arguments if target is None else as_tuple(target)
    return tuple(
        _tensor(jac.joined(jac.ALL, function.jacobians(x, outputs, [0])[0]), x)
        for x in perturbed
        if isinstance(x, Tensor) and x.requires_grad
    )


def get_analytical_jacobian(inputs, output, nondet_tol=0.0, grad_out=1.0):
    """Deprecated: the Jacobians of ``output`` from its backward; whether a second run agreed; sizes and dtypes too."""
    _warn_private("get_analytical_jacobian")
    _refuse("get_analytical_jacobian", grad_out, (output,))
    points = differentiable(as_tuple(inputs))
    first, seen = jac.jacobians(output, points)
    again, _ = jac.jacobians(output, points)
    reentrant = all(jac.agree(a, b, nondet_tol) for a, b in zip(first, again, strict=True))
    sizes = all(g.shape == x.shape for x, g in seen)
    dtypes = all(g.dtype is x.dtype for x, g in seen)
    return tuple(_tensor(a, x) for a, x in zip(first, points, strict=True)), reentrant, sizes, dtypes


def get_numerical_jacobian_wrt_specific_input(fn, input_idx, inputs, outputs, eps, input=None, is_forward_ad=False):
    """The Jacobians of ``outputs = fn(*inputs)`` by one of the inputs, from differences.

    Outputs must be real, or with ``is_forward_ad`` the input.
    """
    x = inputs[input_idx] if input is None else input
    if any(out.is_complex() for out in outputs) and (x.is_complex() or not is_forward_ad):
        raise AssertionError("Expected ds_dx to be real-valued, not complex")
    function = Function(fn, tuple(inputs), eps)
    found = function.jacobians(x, outputs, range(len(outputs)))
    pairs = zip(found, outputs, strict=True)
    return tuple(_tensor(jac.joined(jac.ALL, j), out if out.is_complex() else x) for j, out in pairs)


def _tensor(jacobian: Any, x: Tensor) -> Tensor:
    return jac.as_tensor(jacobian, dtype=x.dtype, device=x.device)
