"""Gradients compared with differences of values: ``gradcheck`` and ``gradgradcheck``."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torchlike._core.backward import grad
from torchlike._core.tensor import Tensor
from torchlike.autograd import _gradcheck_checks as checks
from torchlike.autograd import _gradcheck_jacobian as jac
from torchlike.autograd._gradcheck_checks import GradcheckError, Tolerances
from torchlike.autograd._gradcheck_jacobian import Function, as_tuple, differentiable
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

    Args:
        func: takes ``inputs``, returns a tensor or a list or tuple of tensors; those that require grad are checked.
        inputs: a tensor, or a list or tuple of tensors and other arguments.
        eps: how far to go for a difference.
        atol, rtol: a derivative may differ by ``atol + rtol * |numerical|``.
        raise_exception: raise if a check fails; else return False.
        nondet_tol: how much two runs of the same backward may differ.
        check_undefined_grad: check that the backward takes missing gradients of outputs for zeros.
        check_grad_dtypes: check that gradients have the dtype of their input.
        check_batched_grad: compare ``autograd.grad(is_grads_batched=True)`` with a loop.
        check_forward_ad, check_batched_forward_grad: not supported.
        fast_mode: compare one weighted sum of each Jacobian, for two evaluations of ``func`` for each input.
        masked: of sparse inputs; without effect on dense ones.

    Raises:
        GradcheckError: a check failed.
        ValueError: no input requires grad.
        RuntimeError: an input whose elements share memory; what ``func`` raised.
        AssertionError: shapes or dtypes of the outputs change with the values.
        NotImplementedError: check_forward_ad.

    >>> import torchlike as torch
    >>> from torchlike.autograd.gradcheck import gradcheck
    >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    >>> gradcheck(lambda x: x.exp() * x, x)
    True
    """
    _check_flags(check_forward_ad, check_backward_ad, check_batched_grad, check_batched_forward_grad)
    tol = Tolerances(atol, rtol, nondet_tol, check_grad_dtypes)
    try:
        _check(func, as_tuple(inputs), eps, tol, fast_mode, check_batched_grad, check_undefined_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_flags(forward: bool, backward: bool, batched: bool, batched_forward: bool) -> None:
    if not (forward or backward):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if batched and not backward:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if batched_forward and not forward:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    if forward:
        raise NotImplementedError(
            "gradcheck(check_forward_ad=True) needs forward-mode AD, which torchlike does not support yet"
        )


def _check(func: Callable, inputs: tuple, eps: float, tol: Tolerances, fast: bool, batched: bool, undefined: bool):
    points = _checked_inputs(inputs)
    function = Function(func, inputs, eps)
    outputs = function()
    which = [i for i, out in enumerate(outputs) if out.requires_grad]
    if not which:
        checks.check_constant(function, points, outputs, fast)
        return
    (checks.check_projections if fast else checks.check_jacobians)(function, points, outputs, which, tol)
    found = differentiable(outputs)
    if batched:
        checks.check_batched(points, found, tol)
    checks.check_linear(points, found)
    if undefined:
        checks.check_undefined(points, differentiable(function()))


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
        check_fwd_over_rev: not supported. check_rev_over_rev: differentiate the backward by a backward.

    The other arguments, and the errors, are those of :func:`gradcheck`; TypeError if no output is differentiable.

    >>> import torchlike as torch
    >>> from torchlike.autograd.gradcheck import gradgradcheck
    >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    >>> gradgradcheck(lambda x: x.exp() * x, x)
    True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_fwd_over_rev:
        raise NotImplementedError(
            "gradgradcheck(check_fwd_over_rev=True) needs forward-mode AD, which torchlike does not support yet"
        )
    arguments = as_tuple(inputs)
    seeds = _seeds(func, arguments, grad_outputs, gen_non_contig_grad_outputs)
    count = len(arguments)

    def gradients(*args):
        points = differentiable([x for x in args[:count] if isinstance(x, Tensor)])
        outputs = differentiable(as_tuple(func(*args[:count])))
        found = grad(outputs, points, args[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients, arguments + seeds, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


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
        raise ValueError(
            f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0."
        )
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
    reentrant = all(abs(a - b).max() <= nondet_tol for a, b in zip(first, again, strict=True) if a.size)
    sizes = all(g.shape == x.shape for x, g in seen)
    dtypes = all(g.dtype is x.dtype for x, g in seen)
    return tuple(_tensor(a, x) for a, x in zip(first, points, strict=True)), reentrant, sizes, dtypes


def get_numerical_jacobian_wrt_specific_input(fn, input_idx, inputs, outputs, eps, input=None, is_forward_ad=False):
    """The Jacobians of ``outputs = fn(*inputs)`` by one of the inputs, from differences; outputs must be real."""
    x = inputs[input_idx] if input is None else input
    if any(out.is_complex() for out in outputs):
        raise AssertionError("Expected ds_dx to be real-valued, not complex")
    function = Function(fn, tuple(inputs), eps)
    found = function.jacobians(x, outputs, range(len(outputs)))
    return tuple(_tensor(jac.joined(jac.ALL, j), x) for j in found)


def _tensor(jacobian: Any, x: Tensor) -> Tensor:
    return jac.as_tensor(jacobian, dtype=x.dtype, device=x.device)
