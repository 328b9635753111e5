"""Products in index notation, chains and diagonals, and approximations of low rank."""

from torchlike._base.layout import Layout
from torchlike._base.once import warn_once
from torchlike._core.autocast.composite import in_lower_precision
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import watched
from torchlike._core.dispatch.out import call_out, put_exactly
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import as_number
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.tensor import Tensor
from torchlike._executor.level import mapped
from torchlike._functions._install import both, function, method
from torchlike._functions.einsum_strides import strides_of
from torchlike._functions.linalg import linalg
from torchlike._functions.random import randn
from torchlike._ops import distance
from torchlike._ops import products as named


def _run(op, inputs, static, out):
    return call(op, inputs, static) if out is None else call_out(op, inputs, static, out)


@function()
def einsum(*args):
    """Sums of products in Einstein's notation: ``einsum("ij,jk->ik", A, B)`` is a matrix product.

    Letters of one name run together; those missing after ``->`` are summed (without an arrow: those that
    occur twice or more). ``...`` stands for dimensions that are broadcast. Operands may also alternate with
    lists of ints.

    >>> import torchlike as torch
    >>> torch.einsum("ij,j->i", torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1., 1.]))
    tensor([3., 7.])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand "
            "and its "
            "subscripts list"
        )
    equation, operands = (args[0], args[1:]) if isinstance(args[0], str) else _from_lists(args)
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    for x in operands:
        if not isinstance(x, Tensor):
            raise TypeError(f"einsum(): argument 'operands' must be tuple of Tensors, not {type(x).__name__}")
    if len(operands) == 1 and (shown := _as_view(equation, operands[0])) is not None:
        return shown
    out = call(named.einsum, tuple(operands), (equation, None, (len(operands),)))
    if len(operands) > 1 and out.ndim > 1 and not any([watched(x) or mapped(x) for x in operands]):
        strides = strides_of(equation, tuple([Layout(x.shape, x.stride(), 0) for x in operands]))
        if strides != out.stride():
            restride(out, strides)
    return out


def _as_view(equation, operand):
    """The result where nothing is summed: diagonals and permutations of one operand, which PyTorch shows; else None."""
    (labels,), kept = named.parse(equation, [operand.ndim])
    sizes = dict(zip(labels, operand.shape, strict=True))
    if set(labels) != set(kept) or [sizes[label] for label in labels] != list(operand.shape):
        return None
    shown = in_lower_precision(operand, on_cpu=False)[0]
    for label in kept:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            shown = shown.diagonal(0, first, second)
            labels = [*labels[:first], *labels[first + 1 : second], *labels[second + 1 :], label]
    return shown.permute([labels.index(label) for label in kept])


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _letters(labels):
    text = ""
    for label in labels:
        if label is Ellipsis:
            text += "..."
        elif isinstance(label, int) and 0 <= label < 52:
            text += _LETTERS[label]
        else:
            raise ValueError(
                f"einsum(): subscripts must be ints from 0 to 51 or Ellipsis (got {label!r}) in the list form"
            )
    return text


def _from_lists(args):
    """(equation, operands) of the form that alternates operands and lists of ints."""
    if isinstance(args[0], list | tuple):
        kind = type(args[0]).__name__
        raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {kind}")
    operands, terms = args[: len(args) // 2 * 2 : 2], args[1::2]
    equation = ",".join(map(_letters, terms))
    return (equation + "->" + _letters(args[-1]) if len(args) % 2 else equation), operands


@function()
def tensordot(a, b, dims=2, out=None):
    """The products of two tensors summed over pairs of dimensions; the others of both remain.

    ``dims``: how many of the last of ``a`` go with the first of ``b``, or two lists of dimensions.

    >>> import torchlike as torch
    >>> torch.tensordot(torch.ones(2, 3, 4), torch.ones(3, 4, 5)).shape
    torch.Size([2, 5])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, list | tuple):
        if len(dims) != 2:
            raise ValueError(f"tensordot: dims must be an int or two lists of ints, got {dims!r}")
        left, right = dims
    else:
        if not hasattr(dims, "__index__"):
            raise RuntimeError(f"tensordot expects dims to be an int or two lists of ints, but got {dims!r}")
        n = int(dims)
        if n < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={n}")
        if n > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={n}")
        left, right = [*range(a.ndim - n, a.ndim)], [*range(n)]
    left, right = (arguments.as_ints("tensordot", f"dims_{of}", x) for of, x in (("self", left), ("other", right)))
    return _run(named.tensordot, (a, b), (left, right), out)


@method()
def __rmatmul__(self, other):
    return other @ self if isinstance(other, Tensor) else NotImplemented


_COMPUTE_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}  # fmt: skip


@function()
def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """The ``p``-norm distances between the rows of two (batches of) matrices, [p, m] and [r, m] to [p, r].

    ``compute_mode`` is checked, and changes nothing: the differences are always taken one by one.

    >>> import torchlike as torch
    >>> torch.cdist(torch.zeros(1, 2), torch.tensor([[3., 4.], [0., 1.]]))
    tensor([[5., 1.]])
    """
    if compute_mode not in _COMPUTE_MODES:
        raise ValueError(
            f"{compute_mode} is not a valid value for compute_mode; cdist takes one of {list(_COMPUTE_MODES)}"
        )
    return call(distance.cdist, (x1, x2), distance.cdist.exactly((float(as_number("cdist", "p", p)), None)))


@function()
def chain_matmul(*matrices, out=None):
    """The product of several matrices, in the order that costs least; see ``torch.linalg.multi_dot``."""
    if len(matrices) == 1 and isinstance(matrices[0], list | tuple):
        matrices = tuple(matrices[0])
    for x in matrices:
        if x.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {x.ndim}, expected 2 instead (chain_matmul).")
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    warn_once("torch.chain_matmul is deprecated and may be removed; use torch.linalg.multi_dot, which takes a list.")
    if len(matrices) == 1:
        if out is not None:
            put_exactly("chain_matmul", matrices[0], out)
        return matrices[0].clone() if out is None else out
    return linalg.multi_dot(matrices, out=out)


@both()
def diag(input, diagonal=0, *, out=None):
    """A square matrix with a vector as its ``diagonal``-th diagonal, or a copy of that of a matrix.

    >>> import torchlike as torch
    >>> torch.diag(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    diagonal = arguments.as_int("diag", "diagonal", diagonal)
    if input.ndim == 1:
        return _run(named.diag_embed, (input,), (diagonal, 0, 1), out)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return _run(named.diagonal_copy, (input,), (diagonal,), out)


@both()
def diagflat(input, offset=0):
    """A square matrix with all elements, flattened, as its ``offset``-th diagonal.

    >>> import torchlike as torch
    >>> torch.diagflat(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    return call(named.diag_embed, (Tensor.reshape(input, -1),), (arguments.as_int("diagflat", "offset", offset), 0, 1))


# -- approximations of low rank ----------------------------------------------------------------------


def _range_finder(A, q, niter):
    """An orthonormal basis of about the range of A.

    Halko, Martinsson and Tropp, SIAM Review 53 (2011), algorithm 4.4.
    """
    n = A.shape[-1]
    probe = randn((n, q), dtype=A.dtype, device=A.device)
    basis = linalg.qr(A @ probe)[0]
    for _ in range(niter):
        basis = linalg.qr(A.mH @ basis)[0]
        basis = linalg.qr(A @ basis)[0]
    return basis


@function()
def svd_lowrank(A, q=6, niter=2, M=None):
    """(U, S, V) of about the ``q`` largest singular values of A (of A - M), by random projection.

    ``niter`` power iterations sharpen it. Halko, Martinsson and Tropp, SIAM Review 53 (2011), algorithm 5.1.

    >>> import torchlike as torch
    >>> torch.svd_lowrank(torch.ones(4, 3), q=1)[1]
    tensor([3.4641])
    """
    if M is not None:
        A = A - M.expand(A.shape)
    m, n = A.shape[-2:]
    wide = m < n
    if wide:
        A = A.mH
    basis = _range_finder(A, min(q, m, n), niter)
    u, s, vh = linalg.svd(basis.mH @ A, full_matrices=False)
    u, v = basis @ u, vh.mH
    return (v, s, u) if wide else (u, s, v)


@function()
def pca_lowrank(A, q=None, center=True, niter=2):
    """(U, S, V) of about the ``q`` first principal components of the rows of A, by random projection.

    ``center`` takes the mean of the columns away first. See :func:`svd_lowrank`.

    >>> import torchlike as torch
    >>> torch.pca_lowrank(torch.tensor([[1., 1.], [-1., -1.]]), q=1)[1]
    tensor([2.])
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)} (pca_lowrank)"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer (pca_lowrank)")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
