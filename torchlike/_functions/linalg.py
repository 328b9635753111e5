"""Matrix products and linear algebra under their public names, and what is made of several operators."""

import math
from types import SimpleNamespace

import jax

import torchlike._base.dtypes as dtypes
from torchlike._base.dims import wrap_dim, wrap_dims
from torchlike._base.once import warn_once
from torchlike._base.state import state
from torchlike._core.autocast.composite import in_float32_off_cpu, in_float32_on_cpu
from torchlike._core.dispatch.bind import front
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import one_call
from torchlike._core.dispatch.out import demand_as_many, demand_castable, demand_dtype, demand_fits
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import as_str, bools
from torchlike._core.tensor.tensor import Tensor, array_of
from torchlike._decl.op import REGISTRY
from torchlike._functions._install import FUNCTIONS, both, function, method
from torchlike._ops import matmul as products
from torchlike._ops import spectral

function("get_float32_matmul_precision")(products.get_float32_matmul_precision)
function("set_float32_matmul_precision")(products.set_float32_matmul_precision)

# The functions of torch.linalg that are one operator each.
linalg = SimpleNamespace(**{
    name.removeprefix("linalg_"): front([op], "function")
    for name, op in REGISTRY.items()
    if name.startswith("linalg_") and "." not in name
})  # fmt: skip
for _function in vars(linalg).values():
    _function.__module__ = "torchlike._C._linalg"  # which has them by their own names
vector_norm = linalg.vector_norm


def _written(name, result, out, what="result"):
    """``result`` in ``out`` if that is given, after the checks that ``out=`` makes; without ``what`` of any dtype."""
    if out is None:
        return result
    if state.grad and (result.requires_grad or out.requires_grad):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one "
            "of the "
            "arguments requires grad."
        )
    if what is not None:
        demand_castable(name, result.dtype.np, out, what)
    demand_fits(name, result, out)
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)


def _all_written(name, results, outs):
    """As ``_written`` for several results; ``outs`` is a tuple of as many, or None."""
    if outs is None:
        return tuple(results)
    demand_as_many(name, len(results), outs)
    named = arguments.RETURN_TYPES.get(name)
    names = (None,) * len(outs) if named is None else named.__match_args__
    return tuple(_written(name, *each) for each in zip(results, outs, names, strict=True))


# -- norms -------------------------------------------------------------------------------------------

_ORDERS = (2, -2, 1, -1, math.inf, -math.inf)


def _matrix_dims(ndim, dim):
    if ndim < 2:
        raise RuntimeError(f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions, got {ndim}.")
    dim = arguments.as_ints("linalg_matrix_norm", "dim", dim)
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    first, second = wrap_dim(dim[0], ndim), wrap_dim(dim[1], ndim)
    if first == second:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return first, second


def _check_matrix_norm(A, ord, dtype):
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        raise RuntimeError(
            f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {A.dtype.scalar_name}"
        )
    if dtype is not None and dtype.is_complex is not A.dtype.is_complex:
        kind = "complex" if A.dtype.is_complex else "real"
        raise RuntimeError(f"linalg.matrix_norm: dtype should be {kind} for {kind} inputs, but got {dtype.scalar_name}")
    if ord not in ("fro", "nuc") if isinstance(ord, str) else abs(ord) not in _ORDERS:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")


@in_float32_off_cpu
def matrix_norm(input, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
    """A norm of the matrices in the dimensions ``dim``: "fro", "nuc", 1, -1, 2, -2, inf or -inf.

    Raises RuntimeError for any other order, and for integers.

    >>> import torchlike as torch
    >>> torch.linalg.matrix_norm(torch.tensor([[1., 2.], [3., 4.]]), 1)
    tensor(6.)
    """
    bools("linalg_matrix_norm", keepdim=keepdim)
    dims = _matrix_dims(input.ndim, dim)
    _check_matrix_norm(input, ord, dtype)
    if ord == "fro":
        return vector_norm(input, 2, dims, keepdim, dtype=dtype, out=out)
    if dtype is not None:
        input = input.to(dtype)
    result = (_by_singular_values if ord in ("nuc", 2, -2) else _by_sums)(input, ord, dims, keepdim)
    if out is not None:
        demand_dtype("linalg.matrix_norm", result.dtype.np, out)
    return _written("linalg_matrix_norm", result, out)


def _by_singular_values(A, ord, dims, keepdim):
    s = linalg.svdvals(A.movedim(dims, (-2, -1)))
    if ord == "nuc" or ord == 2 and not s.shape[-1]:
        found = s.sum(-1, keepdim)
    else:
        found = s.amax(-1, keepdim) if ord == 2 else s.amin(-1, keepdim)
    return found.unsqueeze(-1).movedim((-2, -1), dims) if keepdim else found


def _by_sums(A, ord, dims, keepdim):
    rows, columns = dims if abs(ord) == 1 else dims[::-1]
    sums = vector_norm(A, 1, rows, keepdim)
    columns -= rows < columns and not keepdim
    if ord > 0 and not sums.shape[columns]:
        return sums.sum(columns, keepdim)
    return sums.amax(columns, keepdim) if ord > 0 else sums.amin(columns, keepdim)


def norm(input, ord=None, dim=None, keepdim=False, *, dtype=None, out=None):
    """A vector or matrix norm: of a vector if ``dim`` is one dimension, of matrices if it is two.

    Without ``ord`` the 2-norm of all elements (or over ``dim``); without ``dim`` the rank of ``input`` decides.

    >>> import torchlike as torch
    >>> torch.linalg.norm(torch.tensor([[3., 0.], [0., 4.]]))
    tensor(5.)
    """
    if dim is not None and not isinstance(dim, list | tuple):
        dim = (dim,)
    if dim is not None and len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if ord is None:
        return vector_norm(input, 2, dim, keepdim, dtype=dtype, out=out)
    if dim is None and input.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {input.ndim}D."
        )
    if isinstance(ord, str) or (input.ndim == 2 if dim is None else len(dim) == 2):
        return matrix_norm(input, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    return vector_norm(input, ord, dim, keepdim, dtype=dtype, out=out)


def cond(input, p=None, *, out=None):
    """The condition number of matrices in the ``p``-norm of :func:`matrix_norm` (2 by default).

    It is inf for a singular matrix.

    >>> import torchlike as torch
    >>> torch.linalg.cond(torch.tensor([[4., 0.], [0., 2.]]))
    tensor(2.)
    """
    if p is not None and (p not in ("fro", "nuc") if isinstance(p, str) else abs(p) not in _ORDERS):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if input.ndim >= 2 and input.numel() == 0 and not (p in ("fro", "nuc") and input.shape[-1] != input.shape[-2]):
        result = input.new_zeros(input.shape[:-2], dtype=input.dtype.to_real())
    elif p is None or abs(p if not isinstance(p, str) else 0) == 2:
        s = linalg.svdvals(input)
        first, last = s.narrow(-1, 0, 1), s.narrow(-1, s.shape[-1] - 1, 1)
        result = (first / last if p != -2 else last / first).squeeze(-1)
    else:
        if input.ndim >= 2 and input.shape[-1] != input.shape[-2]:
            raise RuntimeError(
                f"linalg.cond(ord={p}): A must be batches of square matrices, but they are "
                f"{input.shape[-2]} by {input.shape[-1]} "
                "matrices"
            )
        inverse, info = linalg.inv_ex(input)
        singular = info != 0
        inverse = inverse.masked_fill(singular[..., None, None], 0)
        result = matrix_norm(input, p) * matrix_norm(inverse, p).masked_fill(singular, math.inf)
        if p != "nuc":  # PyTorch's of zeros is 0 * inf there
            result = result.masked_fill(singular, math.inf)
    return _written("linalg_cond", result, out)


# -- tolerances and shapes ---------------------------------------------------------------------------


def pinv(input, rcond=None, hermitian=False, *, atol=None, rtol=None, out=None):
    """The pseudo-inverse of matrices; see ``torch.linalg.matrix_rank`` for the tolerances.

    >>> import torchlike as torch
    >>> torch.linalg.pinv(torch.tensor([[2., 0.], [0., 0.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    if isinstance(rcond, Tensor) and atol is None:
        atol = FUNCTIONS["zeros"]((), dtype=dtypes.float64, device=input.device)
    return linalg_pinv(input, atol=atol, rtol=rtol if rcond is None else rcond, hermitian=hermitian, out=out)


linalg_pinv = linalg.pinv


@both()
@in_float32_on_cpu
def pinverse(input, rcond=1e-15):
    """The pseudo-inverse, with singular values up to ``rcond`` times the largest counted as zero."""
    return linalg_pinv(input, rtol=rcond)


def matrix_rank(input, tol=None, hermitian=False, *, atol=None, rtol=None, out=None):
    """How many singular values of each matrix are above max(atol, rtol * the largest).

    ``rtol`` is by default the precision of the dtype times the longer side, 0 beside an ``atol``;
    ``tol`` is an absolute tolerance.

    >>> import torchlike as torch
    >>> torch.linalg.matrix_rank(torch.ones(2, 2))
    tensor(1)
    """
    if tol is not None:
        if atol is not None or rtol is not None:
            raise TypeError(
                "linalg_matrix_rank() received an invalid combination of arguments: tol, or atol and rtol, not both"
            )
        atol, rtol = tol, 0.0
    return linalg_matrix_rank(input, atol=atol, rtol=rtol, hermitian=hermitian, out=out)


linalg_matrix_rank = linalg.matrix_rank

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")
LuWithInfo = arguments.named_results("_lu_with_info", ("LU", "pivots", "info"))
_LSTSQ = "solution", "residuals", "rank", "singular_values"
LstsqResult = arguments.named_results("linalg_lstsq", _LSTSQ)
_LstsqOut = arguments.named_results("linalg_lstsq_out", _LSTSQ)


@one_call("linalg_lstsq", LstsqResult)
def lstsq(input, b, rcond=None, *, driver=None, out=None):
    """(solution, residuals, rank, singular_values) of least squares ``input @ X = B``.

    The solution has the least norm if there are several.

    As in LAPACK: "gels" takes full rank for granted, whatever ``rcond`` says; "gelss" takes a negative one, "gelsd" one
    that is not between 0 and 1, for the precision of the dtype. Residuals are empty unless ``driver`` is "gels",
    "gelsd" or "gelss" and A is tall and of full rank; singular values are given by "gelsd" and "gelss",
    ranks by all but "gels".

    >>> import torchlike as torch
    >>> torch.linalg.lstsq(torch.tensor([[1., 0.], [0., 2.]]), torch.tensor([[1.], [2.]])).solution
    tensor([[1.],
            [1.]])
    """
    if driver is None:
        driver = "gelsy"
    if as_str("linalg_lstsq", "driver", driver) not in _DRIVERS:
        raise RuntimeError(
            f"torch.linalg.lstsq: parameter `driver` should be one of ({', '.join(_DRIVERS)}), got {driver}"
        )
    solution, residuals, rank, s = call(spectral.lstsq, (input, b, _as_lapack(rcond, driver, input)), ())
    m, n = input.shape[-2:]
    if driver == "gelsy" or m <= n or not _full_rank(rank, n, driver):
        residuals = residuals.reshape(-1)[:0]
    if driver == "gels":
        rank = rank.reshape(-1)[:0]
    if driver in ("gels", "gelsy"):
        s = s.reshape(-1)[:0]
    made = LstsqResult if out is None else _LstsqOut
    return made(_all_written("linalg_lstsq", (solution, residuals, rank, s), out))


def _as_lapack(rcond, driver, input):
    """``rcond`` as LAPACK's ``driver`` takes it: the precision where it means none, and none for full rank."""
    if rcond is None or driver == "gelsy":
        return rcond
    if driver == "gels":
        return None
    given = float(rcond)
    if given < 0 or driver == "gelsd" and not 0 < given < 1:
        return dtypes.finfo(input.dtype).eps / 2
    return rcond


def _full_rank(rank, n, driver):
    """Whether every matrix has rank n; taken for granted by "gels", and where the values are not known."""
    value = array_of(rank)
    return (
        driver == "gels"
        or not isinstance(value, jax.Array)
        or isinstance(value, jax.core.Tracer)
        or bool((value == n).all())
    )


def tensorinv(input, ind=2, *, out=None):
    """The inverse of the map that ``tensordot(A, x, A.ndim - ind)`` is.

    The first ``ind`` dimensions of A are its rows.

    >>> import torchlike as torch
    >>> torch.linalg.tensorinv(torch.eye(6).reshape(2, 3, 6)).shape
    torch.Size([6, 2, 3])
    """
    if arguments.as_int("linalg_tensorinv", "ind", ind) <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind' (linalg.tensorinv), got {ind}")
    first, last = tuple(input.shape[:ind]), tuple(input.shape[ind:])
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
            "but got "
            f"{math.prod(last)} != {math.prod(first)} (linalg.tensorinv)"
        )
    inverse = linalg.inv(Tensor.reshape(input, (math.prod(last), math.prod(first))))
    return _written("linalg_tensorinv", inverse.reshape((*last, *first)), out)


def tensorsolve(input, other, dims=None, *, out=None):
    """The X with ``tensordot(A, X, X.ndim) = B``; ``dims`` of A are moved to its end first.

    >>> import torchlike as torch
    >>> torch.linalg.tensorsolve(torch.eye(6).reshape(2, 3, 6), torch.ones(2, 3)).shape
    torch.Size([6])
    """
    if dims is not None:
        moved = wrap_dims(dims, input.ndim)
        input = Tensor.permute(input, [d for d in range(input.ndim) if d not in moved] + moved)
    shape = tuple(input.shape[other.ndim :])
    if math.prod(shape) != math.prod(input.shape[: other.ndim]):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            "prod(self.shape[:other.ndim]), but "
            f"got {math.prod(shape)} != {math.prod(input.shape[: other.ndim])} (linalg.tensorsolve)"
        )
    x = linalg.solve(Tensor.reshape(input, (math.prod(shape),) * 2), Tensor.flatten(other))
    return _written("linalg_tensorsolve", x.reshape(shape), out)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices, as the last dimension; a view."""
    return Tensor.diagonal(A, offset, dim1, dim2)


# -- older names -------------------------------------------------------------------------------------

_Svd = arguments.named_results("svd", ("U", "S", "V"))
_SvdOut = arguments.named_results("svd_out", ("U", "S", "V"))


@both()
def svd(input, some=True, compute_uv=True, *, out=None):
    """(U, S, V) with ``input = U @ diag(S) @ V.mH``; the older form of ``torch.linalg.svd``.

    ``some=False``: U and V are square. ``compute_uv=False``: they are zeros.

    >>> import torchlike as torch
    >>> torch.svd(torch.tensor([[3., 0.], [0., 4.]])).S
    tensor([4., 3.])
    """
    bools("svd", some=some, compute_uv=compute_uv)
    if compute_uv:
        u, s, vh = linalg.svd(input, full_matrices=not some)
        return _svd_written((u, s, vh.mH), out)
    batch, m, n = tuple(input.shape[:-2]), input.shape[-2], input.shape[-1]
    results = input.new_zeros((*batch, m, m)), linalg.svdvals(input), input.new_zeros((*batch, n, n))
    return _svd_written(results, out)


def _svd_written(results, outs):
    for result, out in zip(results, outs or (), strict=False):
        demand_dtype("svd", result.dtype.np, out)
    return (_Svd if outs is None else _SvdOut)(_all_written("svd", results, outs))


@both()
def orgqr(input, input2, *, out=None):
    """Another name of ``torch.linalg.householder_product``."""
    return linalg.householder_product(input, input2, out=out)


@both()
@in_float32_on_cpu
def lu_solve(b, LU_data, LU_pivots, *, out=None):
    """The X with ``A @ X = b`` from the factors of A; the older form of ``torch.linalg.lu_solve``."""
    warn_once(
        "torch.lu_solve is deprecated in favor of torch.linalg.lu_solve and may be removed: use "
        "torch.linalg.lu_solve(LU, pivots, B), whose arguments stand in another order."
    )
    return linalg.lu_solve(LU_data, LU_pivots, b, out=out)


@function()
@in_float32_on_cpu
def lu(A, pivot=True, get_infos=False, out=None):
    """(LU, pivots), and infos if asked for; the older form of ``torch.linalg.lu_factor``."""
    warn_once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and may be removed: use "
        "torch.linalg.lu_factor(A, pivot=pivot)."
    )
    result = linalg.lu_factor_ex(A, pivot=pivot)
    if out is not None:
        _all_written("lu", tuple(result)[: len(out)], out)
        return out
    return LuWithInfo(result) if get_infos else (result.LU, result.pivots)


@method("lu")
def _lu(self, pivot=True, get_infos=False):
    """As :func:`torch.lu`, in a tuple without names."""
    return tuple(lu(self, pivot, get_infos))


@both()
@one_call()
def dist(input, other, p=2):
    """The ``p``-norm of the difference of two tensors, which are broadcast.

    >>> import torchlike as torch
    >>> torch.dist(torch.tensor([1., 2.]), torch.tensor([4., 6.]))
    tensor(5.)
    """
    input = arguments.as_tensor_arg("dist", "input", input)
    return vector_norm(input - arguments.as_tensor_arg("dist", "other", other), p)
