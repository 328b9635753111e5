"""Products by name or by index notation, and what is made of matrices element by element."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base.dims import broadcast_shapes, wrap_dim, wrap_dims
from torchlike._base.dtypes import from_np
from torchlike._base.promotion import promote_types
from torchlike._base.result_layouts import interleaved
from torchlike._decl import rules
from torchlike._decl.op import op
from torchlike._decl.words import aten, unseen
from torchlike._ops import _composed, _composed_sums, _derivatives
from torchlike._ops._axes import is_floating, refuse, type_name
from torchlike._ops._elementwise import is_reduced, rounded_product
from torchlike._ops.matmul import demand_same, precision, product

# -- products of two tensors -------------------------------------------------------------------------


@product(
    "inner(Tensor self, Tensor other) -> Tensor",
    aten={"calls": _composed.inner},
    node="ViewBackward",
    saved="",
    autocast="inner",
)
def inner(self, other):
    """The products summed over the last dimension of both; a 0-dim tensor scales the other.

    >>> import torchlike as torch
    >>> torch.inner(torch.ones(2, 3), torch.ones(4, 3)).shape
    torch.Size([2, 4])
    """
    if not self.ndim or not other.ndim:
        dtype = rules.common_dtype((self, other)).np
        return self.astype(dtype) * other.astype(dtype)
    demand_same("inner", self, other)
    if self.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(self.shape)} "
            "and "
            f"{list(other.shape)}"
        )
    refuse("inner", self, "b")
    return lax.dot_general(self, other, (((self.ndim - 1,), (other.ndim - 1,)), ((), ())), precision=precision())


def _outer(name, a, b):
    for which, x in (("self", a), ("vec2", b)):
        if x.ndim != 1:
            raise RuntimeError(f"{name}: Expected 1-D argument {which}, but got {x.ndim}-D")
    return a[:, None] * b[None, :]


def _outer_self(grad, vec2):
    rows = aten["sum.dim_IntList"](grad * rules.conj(vec2), [1], True)
    return aten.view(rows, [rows.shape[0]])


def _outer_vec2(grad, self):
    return grad * unseen(lambda x: rules.conj(x)[:, None], self)


_COLUMN = {"calls": lambda aten, self, vec2: aten["mul.Tensor"](aten.view(self, [self.shape[0], 1]), vec2)}
_OF_OUTER = {"vec2": _outer_vec2, "self": _outer_self}


@op(
    "outer(Tensor self, Tensor vec2) -> Tensor",
    out="cast",
    aten=_COLUMN,
    dtype="promote",
    node="MulBackward",
    variants="function method out",
    vjp=_OF_OUTER,
    jvp="kernel",
    saved={"other": "vec2", "self": lambda self: None if self is None else self.unsqueeze(1)},
)
def outer(self, vec2):
    """All products of an element of one vector and one of another, [n] and [m] to [n, m].

    >>> import torchlike as torch
    >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    return _outer("outer", self, vec2)


@op(
    "ger(Tensor self, Tensor vec2) -> Tensor",
    out="cast",
    aten=_COLUMN,
    dtype="promote",
    node="MulBackward",
    variants="function method out",
    vjp=_OF_OUTER,
    jvp="kernel",
)
def ger(self, vec2):
    """Another name of :func:`outer`."""
    return _outer("ger", self, vec2)


@product(
    "tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
    aten={"out": "out", "calls": _composed.tensordot},
    node="ViewBackward",
    variants="function",
    saved="",
    autocast={"cpu": "lower_precision_fp", "cuda": "promote"},
)
def tensordot(self, other, dims_self, dims_other):
    """The products summed over pairs of dimensions; the others of both remain, in order."""
    if len(dims_self) != len(dims_other):
        raise RuntimeError(
            f"tensordot: both dimension lists should have same length, got {list(dims_self)} and {list(dims_other)}"
        )
    if self.dtype != other.dtype:
        raise RuntimeError(f"tensordot: both inputs should have same dtype, got {self.dtype} and {other.dtype}")
    refuse("tensordot", self, "b")
    left, right = wrap_dims(dims_self, self.ndim), wrap_dims(dims_other, other.ndim)
    for i, j in zip(left, right, strict=True):
        n, m = self.shape[i], other.shape[j]
        if n != m and n == 1:
            other = rules.total(other, j, True)
        elif n != m and m == 1:
            self = rules.total(self, i, True)
        elif n != m:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {n} in dim {i} and second has "
                f"size {m} in dim {j}"
            )
    return lax.dot_general(self, other, ((left, right), ((), ())), precision=precision())


@op("kron(Tensor self, Tensor other) -> Tensor", dtype="promote", node="UnsafeViewBackward", layout=interleaved,
    aten={"calls": _composed.kron},
    out="cast", variants="function method out", saved="~self ~other")  # fmt: skip
def kron(self, other):
    """The Kronecker product: every element of the first times the whole second.

    >>> import torchlike as torch
    >>> torch.kron(torch.tensor([1, 10]), torch.tensor([1, 2]))
    tensor([ 1,  2, 10, 20])
    """
    n = max(self.ndim, other.ndim)
    a = self.reshape((1,) * (n - self.ndim) + self.shape)
    b = other.reshape((1,) * (n - other.ndim) + other.shape)
    a_shape = [s for pair in zip(a.shape, (1,) * n, strict=True) for s in pair]
    b_shape = [s for pair in zip((1,) * n, b.shape, strict=True) for s in pair]
    return (a.reshape(a_shape) * b.reshape(b_shape)).reshape([i * j for i, j in zip(a.shape, b.shape, strict=True)])


def _cross(name, a, b, axis):
    refuse("cross", a, "b")
    if a.dtype != b.dtype:
        raise RuntimeError(f"{name}: expected scalar type {type_name(a)} but found {type_name(b)}; use .to(dtype)")
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise RuntimeError(
            f"{name}: inputs dimension {axis} must have length 3. Got {a.shape[axis]} and {b.shape[axis]}"
        )
    shape = broadcast_shapes(a.shape, b.shape)
    a, b = jnp.broadcast_to(a, shape), jnp.broadcast_to(b, shape)
    ahead, behind = (lambda x: jnp.roll(x, -1, axis)), (lambda x: jnp.roll(x, 1, axis))
    return rounded_product(ahead(a), behind(b)) - rounded_product(behind(a), ahead(b))


def _same_rank(name, a, b):
    if a.ndim != b.ndim:
        raise RuntimeError(f"{name}: inputs must have the same number of dimensions, got {a.ndim} and {b.ndim}.")


@op("cross(Tensor self, Tensor other, int? dim=None) -> Tensor", node="LinalgCrossBackward",
    aten={"calls": _composed.cross}, variants="function method out", autocast={"cuda": "promote"},
    backward=_derivatives.cross(lambda shape, dim: shape.index(3) if dim is None else dim))  # fmt: skip
def cross(self, other, dim):
    """The cross product along ``dim``, by default the first dimension of length 3; others are broadcast.

    >>> import torchlike as torch
    >>> torch.cross(torch.tensor([1., 0., 0.]), torch.tensor([0., 1., 0.]), dim=0)
    tensor([0., 0., 1.])
    """
    _same_rank("linalg.cross", self, other)
    if dim is None:
        if 3 not in self.shape:
            raise RuntimeError(f"no dimension of size 3 in input: torch.cross() of shape {list(self.shape)}")
        return _cross("linalg.cross", self, other, self.shape.index(3))
    return _cross("linalg.cross", self, other, wrap_dim(dim, self.ndim))


@op(
    "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    backward=_derivatives.cross(lambda shape, dim: dim),
    variants="out",
)
def linalg_cross(self, other, dim):
    """The cross product along ``dim`` (the last by default); other dimensions are broadcast.

    >>> import torchlike as torch
    >>> torch.linalg.cross(torch.tensor([1., 0., 0.]), torch.tensor([0., 1., 0.]))
    tensor([0., 0., 1.])
    """
    _same_rank("linalg.cross", self, other)
    return _cross("linalg.cross", self, other, wrap_dim(dim, self.ndim))


@op(
    "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
    aten={"calls": _composed.vecdot},
    node="SumBackward1",
    variants="out",
    autocast="lower_precision_fp",
)
def vecdot(x, y, dim):
    """The inner products of vectors along ``dim``, the first conjugated; other dimensions are broadcast.

    >>> import torchlike as torch
    >>> torch.linalg.vecdot(torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    if not is_floating(x):
        raise RuntimeError(f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {type_name(x)}")
    if x.dtype != y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type {type_name(x)} "
            "and y of type "
            f"{type_name(y)} instead"
        )
    broadcast_shapes(x.shape, y.shape)
    out = (jnp.conj(x) if jnp.iscomplexobj(x) else x) * y
    return rules.total(out, wrap_dim(dim, out.ndim)) if out.ndim else out


# -- index notation ----------------------------------------------------------------------------------


def _fail(message):
    raise RuntimeError(f"einsum(): {message}")


def _labels(term, ndim, i):
    """One label per dimension of operand ``i``; the dimensions of ``...`` are numbered from the last."""
    named = len(term.replace("...", ""))
    if "..." not in term:
        if named != ndim:
            _fail(
                f"the number of subscripts in the equation ({named}) does not match the number of "
                f"dimensions ({ndim}) for "
                f"operand {i} and no ellipsis was given"
            )
        return list(term)
    if named > ndim:
        _fail(
            f"the number of subscripts in the equation ({named}) is more than the number of dimensions "
            f"({ndim}) for operand {i}"
        )
    before, after = term.split("...", 1)
    return [*before, *range(ndim - named - 1, -1, -1), *after]


def parse(equation, ndims):
    """(labels of each operand, labels of the result) of an equation; letters, and ints for ``...``."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    for c in left.replace("...", "").replace(",", "") + right.replace("...", ""):
        if not (c.isascii() and c.isalpha()):
            _fail(
                f"invalid subscript given at {c!r} in the equation string {equation!r}, subscripts must be in [a-zA-Z]"
            )
    terms = left.split(",")
    if len(terms) > len(ndims):
        _fail(f"fewer operands were provided than specified in the equation {equation!r}: {len(ndims)} of {len(terms)}")
    if len(terms) < len(ndims):
        _fail(f"more operands were provided than specified in the equation {equation!r}: {len(ndims)} of {len(terms)}")
    inputs = [_labels(term, n, i) for i, (term, n) in enumerate(zip(terms, ndims, strict=True))]
    everything = [label for labels in inputs for label in labels]
    dots = sorted({x for x in everything if isinstance(x, int)}, reverse=True)
    if not arrow:
        once = sorted({x for x in everything if isinstance(x, str) and everything.count(x) == 1})
        return inputs, [*dots, *once]
    return inputs, _output(right, everything, dots)


def _output(right, everything, dots):
    before, _, after = right.partition("...")
    for c in before + after:
        if (before + after).count(c) > 1:
            _fail(f"output subscript {c} appears more than once in the output")
        if c not in everything:
            _fail(f"output subscript {c} does not appear in the equation for any input operand")
    return [*before, *dots, *after] if "..." in right else [*before]


def _narrowed(tensors, inputs):
    """Dimensions of length 1 dropped where another operand gives their label a length."""
    sizes: dict = {}
    for i, (x, labels) in enumerate(zip(tensors, inputs, strict=True)):
        own: dict = {}
        for n, label in zip(x.shape, labels, strict=True):
            if own.setdefault(label, n) != n:
                _fail(f"subscript {label} is repeated for operand {i} but the sizes don't match, {n} != {own[label]}")
            if sizes.get(label, 1) == 1:
                sizes[label] = n
            elif n not in (1, sizes[label]):
                _fail(
                    f"subscript {label} has size {n} for operand {i} which does not broadcast with "
                    "previously seen size "
                    f"{sizes[label]}"
                )
    for x, labels in zip(tensors, inputs, strict=True):
        drop = {i for i, label in enumerate(labels) if x.shape[i] != sizes[label]}
        yield x.squeeze(tuple(drop)), [label for i, label in enumerate(labels) if i not in drop]


def _class_of_einsum(equation):
    """What autocast does: what sums over an index of two operands is a product of matrices."""
    left, arrow, right = equation.replace(" ", "").replace("...", "@").partition("->")
    terms = [set(term) for term in left.split(",")]
    kept = right if arrow else "@"
    shared = {label for i, term in enumerate(terms) for other in terms[:i] for label in term & other}
    return "lower_precision_fp" if shared - set(kept) else None


@op("einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", aten={"out": None},
    variants="", node="ViewBackward", edges=lambda equation: range(equation.count(","), -1, -1),
    autocast={"cpu": _class_of_einsum, "cuda": "lower_precision_fp"}, saved="")  # fmt: skip
def einsum(equation, tensors, path):
    """The sum of products in Einstein's notation."""
    inputs, output = parse(equation, [x.ndim for x in tensors])
    terms = list(_narrowed(tensors, inputs))
    if len({x.dtype for x in tensors}) > 1 or not is_floating(tensors[0]):
        return _in_turn(terms, output)
    options = {"preferred_element_type": np.float32} if is_reduced(tensors[0]) and _sums_alone(inputs, output) else {}
    return _summed(terms, output, tensors[0].dtype, **options)


def _summed(terms, output, dtype, **options):
    """The products of the terms, summed over every label that is not in ``output``."""
    numbers: dict = {}
    arguments = [y for x, labels in terms for y in (x, [numbers.setdefault(c, len(numbers)) for c in labels])]
    return jnp.einsum(*arguments, [numbers[c] for c in output], precision=precision(), **options).astype(dtype)


def _alone(x, labels, kept, least=2):
    """``x`` summed over the labels that are not ``kept``, in int64 if it is of integers."""
    gone = {c for c, n in zip(labels, x.shape, strict=True) if c not in kept and n >= least}
    if not gone:
        return x, labels
    left = [c for c in dict.fromkeys(labels) if c not in gone]
    dtype = x.dtype if is_floating(x) else np.dtype("int64")
    return _summed([(x.astype(dtype), labels)], left, dtype), left


def _in_turn(terms, output):
    """Term by term, for dtypes: sums of one term are int64, products of elements promote, those of matrices do not."""
    (a, names), *rest = terms
    for i, (b, labels) in enumerate(rest):
        kept = {*output, *(c for _, later in rest[i + 1 :] for c in later)}
        a, names = _alone(a, names, kept | set(labels))
        b, labels = _alone(b, labels, kept | set(names))
        sizes = dict(zip(labels, b.shape, strict=True))
        if a.size and b.size and any(sizes[c] > 1 for c in sizes if c in names and c not in kept):
            refuse("bmm", a, "b")
            if a.dtype != b.dtype:
                raise RuntimeError(
                    f"einsum(): expected scalar type {type_name(a)} but found {type_name(b)}; use .to(dtype)"
                )
        dtype = promote_types(from_np(a.dtype), from_np(b.dtype)).np
        left = [c for c in dict.fromkeys([*names, *labels]) if c in kept]
        a, names = _summed([(a.astype(dtype), names), (b.astype(dtype), labels)], left, dtype), left
    if not rest:
        a, names = _alone(a, names, output, 0)
    return _summed([(a, names)], output, a.dtype)


def _sums_alone(inputs, output):
    """Whether a tensor is summed before it is multiplied: halves are to be added up in float32 then."""
    labels = [label for one in inputs for label in set(one)]
    return any(labels.count(label) == 1 and label not in output for label in labels)


@op(
    "linalg_multi_dot(Tensor[] tensors) -> Tensor",
    aten={"out": "out", "calls": _composed_sums.multi_dot},
    node="ViewBackward",
    variants="out",
    saved="",
    autocast="lower_precision_fp",
)
def multi_dot(tensors):
    """The product of several matrices, in the order of multiplication that costs least.

    The first and the last may be vectors.

    >>> import torchlike as torch
    >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
    tensor([12., 12.])
    """
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    return chain("multi_dot", tensors)


def chain(name, tensors):
    """The product of a chain of matrices after PyTorch's checks."""
    last = len(tensors) - 1
    for i, x in enumerate(tensors):
        if not (x.ndim == 2 or (x.ndim == 1 and i in (0, last))):
            raise RuntimeError(f"{name}(): tensor {i} must be {'1D or ' if i in (0, last) else ''}2D but got {x.ndim}D")
        if x.dtype != tensors[0].dtype:
            raise RuntimeError(
                f"{name}(): all tensors must have be the same dtype, got {tensors[0].dtype} and {x.dtype}"
            )
        if i and tensors[i - 1].shape[-1] != x.shape[0]:
            raise RuntimeError(
                f"{name}(): tensors {i - 1} and {i} with shapes {list(tensors[i - 1].shape)} and "
                f"{list(x.shape)} cannot be "
                "multiplied"
            )
    if len(tensors) == 1:
        return tensors[0]
    refuse("addmm_impl_cpu_", tensors[0], "b")
    if len(tensors) == 2:
        return jnp.matmul(*tensors, precision=precision())
    return jnp.linalg.multi_dot(tensors, precision=precision())


# -- parts of matrices -------------------------------------------------------------------------------


@op("trace(Tensor self) -> Tensor", saved="self_sym_sizes", autocast={"cpu": "fp32"}, backward=_derivatives.trace)
def trace(self):
    """The sum of the diagonal of a matrix.

    >>> import torchlike as torch
    >>> torch.trace(torch.tensor([[1., 2.], [3., 4.]]))
    tensor(5.)
    """
    if self.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self.ndim}")
    refuse("trace", self, "b")
    diagonal = jnp.diagonal(self)
    return rules.total(diagonal.astype(np.int64) if self.dtype.kind in "iu" else diagonal)


def _triangle(name, x, keep):
    if x.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions, got {x.ndim}")
    rows, columns = (lax.broadcasted_iota(jnp.int64, x.shape[-2:], i) for i in (0, 1))
    return jnp.where(keep(columns - rows), x, jnp.zeros((), x.dtype))


@op("tril(Tensor self, SymInt diagonal=0) -> Tensor", variants="function method inplace out", jvp="kernel",
    vjp={"self": lambda grad, diagonal: aten.tril(grad, diagonal)})  # fmt: skip
def tril(self, diagonal):
    """The lower triangle of matrices, zero above the ``diagonal``-th diagonal (0: the main one).

    >>> import torchlike as torch
    >>> torch.tril(torch.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _triangle("tril", self, lambda d: d <= diagonal)


@op("triu(Tensor self, SymInt diagonal=0) -> Tensor", variants="function method inplace out", jvp="kernel",
    vjp={"self": lambda grad, diagonal: aten.triu(grad, diagonal)})  # fmt: skip
def triu(self, diagonal):
    """The upper triangle of matrices, zero below the ``diagonal``-th diagonal (0: the main one).

    >>> import torchlike as torch
    >>> torch.triu(torch.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return _triangle("triu", self, lambda d: d >= diagonal)


@op(
    "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    backward=lambda grad, offset, dim1, dim2: aten.diagonal(grad, offset, dim1, dim2),
)
def diag_embed(self, offset, dim1, dim2):
    """Matrices of zeros with the last dimension as a diagonal of ``dim1`` and ``dim2``.

    >>> import torchlike as torch
    >>> torch.diag_embed(torch.tensor([1., 2.]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    rank = self.ndim + 1
    first, second = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if first == second:
        raise RuntimeError(f"diag_embed: diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = (self.shape[-1] if self.ndim else 1) + abs(offset)
    rows, columns = (lax.broadcasted_iota(jnp.int64, (n, n), i) for i in (0, 1))
    x = self if self.ndim else self[None]
    padding = [(0, 0, 0)] * (x.ndim - 1) + [(max(offset, 0), max(-offset, 0), 0)]
    wide = lax.pad(x, jnp.zeros((), x.dtype), padding)  # element j is at column j
    out = jnp.where(columns - rows == offset, wide[..., None, :], jnp.zeros((), x.dtype))
    return jnp.moveaxis(out, (-2, -1), (first, second))


@op("_diagonal(Tensor self, int diagonal) -> Tensor", variants="", node="DiagonalBackward0_copy",
    aten={"calls": _composed_sums.diagonal_copy})  # fmt: skip
def diagonal_copy(self, diagonal):
    """A copy of one diagonal of a matrix."""
    return jnp.diagonal(self, diagonal)


@op(
    "linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor",
    aten={"out": None, "calls": _composed_sums.vander},
    dtype="bool_to_int but bool",
    variants="",
    node="CumprodBackward",
)
def linalg_vander(x, N):
    """The Vandermonde matrix: the powers 0 to ``N`` - 1 of each element, as a new last dimension.

    >>> import torchlike as torch
    >>> torch.linalg.vander(torch.tensor([2, 3]), N=3)
    tensor([[1, 2, 4],
            [1, 3, 9]])
    """
    if is_reduced(x):
        raise RuntimeError(
            f"linalg.vander supports floating point, complex, and integer tensors, but got {type_name(x)}; use .float()"
        )
    x = x if x.ndim else x[None]
    n = x.shape[-1] if N is None else N
    if n <= 1:
        raise RuntimeError(f"N must be greater than 1. (linalg.vander: got {n})")
    ones = jnp.ones((*x.shape, 1), x.dtype)
    powers = lax.cumprod(jnp.broadcast_to(x[..., None], (*x.shape, n - 1)), x.ndim)
    return lax.concatenate([ones, powers], x.ndim)
