"""Matrix products."""

import math
import warnings
from functools import partial

import jax.numpy as jnp
from jax import lax

from torchlike._base import result_layouts
from torchlike._base.dtypes import from_np
from torchlike._decl import rules
from torchlike._decl.op import op
from torchlike._decl.settings import reset_kernels
from torchlike._decl.words import aten, later, unseen
from torchlike._ops._axes import refuse
from torchlike._ops._blend import blended, expandable, long, scale, scaled
from torchlike._ops._derivatives import ADDBMM, ADDR, times
from torchlike._ops._elementwise import demand_factor, is_reduced, once, rounded_product

product = partial(op, variants="function method out", autocast="lower_precision_fp")
blend = partial(op, variants="function method inplace out", autocast="lower_precision_fp", out="after")

_PRECISIONS = {"highest": lax.Precision.HIGHEST, "high": lax.Precision.HIGH, "medium": lax.Precision.DEFAULT}
_precision = "highest"


def get_float32_matmul_precision():
    """The precision of float32 matrix products: "highest", "high" or "medium"."""
    return _precision


def set_float32_matmul_precision(precision):
    """Set the precision of float32 matrix products, for the whole process.

    "highest" computes in float32; "high" and "medium" let an accelerator use faster, shorter formats.
    Warns about any other value, and ignores it.

    >>> import torchlike as torch
    >>> torch.set_float32_matmul_precision("high")
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    global _precision
    if precision not in _PRECISIONS:
        warnings.warn(
            f"{precision!r} is not one of 'highest', 'high', and 'medium'; the precision stays {_precision!r}.",
            stacklevel=2,
        )
    elif precision != _precision:
        _precision = precision
        reset_kernels("float32_matmul_precision", precision, "highest")


def precision():
    """What jax calls the present precision."""
    return _PRECISIONS[_precision]


def demand_same(name, a, b):
    """RuntimeError unless the operands have one dtype."""
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {_cpp(a)} != {_cpp(b)} ({name}; convert "
            "one with .to(dtype))"
        )


def _check(name, a, b):
    """Equal dtypes, and one that has products."""
    demand_same(name, a, b)
    refuse(name, a, "b", hint="convert the operands to an integer or floating dtype")


_CPP = {"float32": "float", "float64": "double", "int64": "long", "int32": "int", "float16": "c10::Half",
        "bfloat16": "c10::BFloat16", "complex64": "c10::complex<float>",
        "complex128": "c10::complex<double>"}  # fmt: skip


def _cpp(x):
    name = from_np(x.dtype).name
    return _CPP.get(name, name)


def _rank(name, what, x, n, kind):
    if x.ndim != n:
        raise RuntimeError(f"{name}: {what} must be {kind}, got {x.ndim}-D {list(x.shape)}")


def _kept(a, wide):
    return jnp.float32 if wide and is_reduced(a) else None


def _contract(a, b, left, right, wide=False):
    """Sum over axis ``left`` of ``a`` and ``right`` of ``b``; ``wide`` is not rounded to short floats yet."""
    return lax.dot_general(a, b, (((left,), (right,)), ((), ())), precision(), _kept(a, wide))


def _mm(name, a, b, first="self", wide=False):
    """The product of two matrices after PyTorch's checks."""
    _rank(name, first, a, 2, "a matrix")
    _rank(name, "mat2", b, 2, "a matrix")
    if a.shape[1] != b.shape[0]:
        _no_match(a.shape[0], a.shape[1], *b.shape)
    _check(name, a, b)
    return _contract(a, b, 1, 0, wide)


def _no_match(n, k, k2, m):
    raise RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {k2}x{m}): the columns of the first must "
        "be the rows of the second"
    )


def _bmm(name, a, b, wide=False):
    _rank(name, "batch1", a, 3, "a 3D tensor")
    _rank(name, "batch2", b, 3, "a 3D tensor")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, {a.shape[2]}] "
            f"but got: [{b.shape[0]}, {b.shape[1]}] ({name})."
        )
    _check(name, a, b)
    return lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,))), precision(), _kept(a, wide))


def _mv(name, mat, vec, wide=False):
    if mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"{name}: vector + matrix @ vector expected, got {mat.ndim}-D mat and {vec.ndim}-D vec")
    if mat.shape[1] != vec.shape[0]:
        n, m = mat.shape
        raise RuntimeError(
            f"size mismatch, got input ({n}), mat ({n}x{m}), vec ({vec.shape[0]}); {name} needs a vec of {m} elements"
        )
    _check(name, mat, vec)
    return _contract(mat, vec, 1, 0, wide)


# -- gradients of products: each is a product of the other factor, turned ----------------------------


def _t(x):
    return rules.conj(aten.t(x))


def _turned(x):
    return aten["transpose.int"](rules.conj(x), 1, 2)


def _right(grad, left):
    return aten.mm(_t(left), grad)


def _left(grad, right):
    return aten.mm(grad, _t(right))


def _to_first(grad, right, by_columns):
    """As :func:`_left`, for modes: the product is turned where the elements of the factor lie column by column."""
    if by_columns:
        right = rules.conj(right)
        return aten.t(aten.mm(right, aten.t(grad)))
    return _left(grad, right)


def _to_second(grad, left, by_columns):
    if by_columns:
        turned = aten.t(grad)
        return aten.t(aten.mm(turned, rules.conj(left)))
    return _right(grad, left)


_OF_MATRIX = {
    "self": lambda grad, vec: aten.view(grad, [grad.shape[0], 1]) * rules.conj(vec),
    "vec": lambda grad, self: aten.mv(_t(self), grad),
}


@product("mm(Tensor self, Tensor mat2) -> Tensor", saved="mat2 mat2_sym_sizes self self_sym_sizes", jvp="kernel",
         vjp={"mat2": lambda grad, self: _right(grad, self), "self": lambda grad, mat2: _left(grad, mat2)},
         backward={
             "mat2": lambda grad, self, mat2_by_columns: _to_second(grad, self, mat2_by_columns),
             "self": lambda grad, mat2, self_by_columns: _to_first(grad, mat2, self_by_columns)})  # fmt: skip
def mm(self, mat2):
    """The product of two matrices, [n, k] and [k, m] to [n, m]; nothing is broadcast.

    Raises RuntimeError for other ranks, sizes that do not fit, or different dtypes.

    >>> import torchlike as torch
    >>> torch.mm(torch.tensor([[1., 2.]]), torch.tensor([[3.], [4.]]))
    tensor([[11.]])
    """
    return _mm("mm", self, mat2)


@product("bmm(Tensor self, Tensor mat2) -> Tensor", jvp="kernel",
         vjp={"mat2": lambda grad, self: aten.bmm(_turned(self), grad),
              "self": lambda grad, mat2: aten.bmm(grad, _turned(mat2))})  # fmt: skip
def bmm(self, mat2):
    """The products of two batches of matrices, [b, n, k] and [b, k, m] to [b, n, m].

    >>> import torchlike as torch
    >>> torch.bmm(torch.ones(5, 2, 3), torch.ones(5, 3, 4)).shape
    torch.Size([5, 2, 4])
    """
    return _bmm("bmm", self, mat2)


@product("mv(Tensor self, Tensor vec) -> Tensor", vjp=_OF_MATRIX, jvp="kernel", autocast={"cuda": "lower_precision_fp"})
def mv(self, vec):
    """The product of a matrix and a vector, [n, k] and [k] to [n].

    >>> import torchlike as torch
    >>> torch.mv(torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1., 1.]))
    tensor([3., 7.])
    """
    return _mv("mv", self, vec)


def _dot(name, a, b):
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors ({name})")
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name} : expected both vectors to have same dtype, but found {_cpp(a)} and {_cpp(b)}; convert "
            "one with .to(dtype)"
        )
    if a.shape != b.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a.shape[0]}] and src [{b.shape[0]}] to have the "
            "same number of "
            f"elements, but got {a.shape[0]} and {b.shape[0]} elements respectively ({name})"
        )
    refuse(name, a, "b")
    return _contract(a, b, 0, 0)


@product("dot(Tensor self, Tensor tensor) -> Tensor", jvp="kernel",
         vjp={"self": lambda grad, tensor: grad * rules.conj(tensor),
              "tensor": lambda grad, self: grad * rules.conj(self)}, autocast={"cuda": "promote"})  # fmt: skip
def dot(self, tensor):
    """The sum of the products of two vectors, without conjugation.

    >>> import torchlike as torch
    >>> torch.dot(torch.tensor([2., 3.]), torch.tensor([4., 1.]))
    tensor(11.)
    """
    return _dot("dot", self, tensor)


@product("vdot(Tensor self, Tensor other) -> Tensor", jvp="kernel",
         vjp={"self": lambda grad, other: rules.conj(grad) * other, "other": lambda grad, self: grad * self},
         autocast={"cuda": "promote"})  # fmt: skip
def vdot(self, other):
    """The inner product of two vectors: the first is conjugated.

    >>> import torchlike as torch
    >>> torch.vdot(torch.tensor([1j]), torch.tensor([1j]))
    tensor(1.+0.j)
    """
    return _dot("vdot", jnp.conj(self) if jnp.iscomplexobj(self) else self, other)


def _last_step(self, other):
    """The node of the last of the steps that PyTorch takes for operands of these ranks."""
    ranks = len(self.shape), len(other.shape)
    named = {(1, 1): "DotBackward", (2, 1): "MvBackward", (2, 2): "MmBackward", (1, 2): "SqueezeBackward4"}
    return named.get(ranks) or ("CloneBackward" if ranks[0] == 2 else "UnsafeViewBackward")


def _last_saved(self, other):
    """What that node saves."""
    matrices = {name: name for name in ("self", "self_sym_sizes")}
    return {
        "DotBackward": {"self": "self", "tensor": "other"},
        "MvBackward": {"self": "self", "vec": "other"},
        "MmBackward": matrices | {"mat2": "other", "mat2_sym_sizes": "other_sym_sizes"},
    }.get(_last_step(self, other), {})


def _rows_of(x, width):
    """A stack of vectors as a matrix; PyTorch's forward did that."""
    rows = math.prod(x.shape[:-1])
    return unseen(lambda x: x.reshape(rows, width), x) if x.ndim != 2 else x


def _matmul_other(grad, self, other_aval):
    """The gradient of the right factor."""
    a, b, shape = self.ndim, len(other_aval.shape), other_aval.shape
    if a == b == 1:
        return grad * rules.conj(self)
    if b == 1 and a == 2:
        return aten.mv(_t(self), grad)
    if a == 1 and b == 2:
        return _right(aten.unsqueeze(grad, 0), unseen(lambda x: x[None], self))
    if b == 2:
        return _right(jnp.reshape(grad, (math.prod(grad.shape[:-1]), shape[1])), _rows_of(self, self.shape[-1]))
    if a == 1 or b == 1:
        return _adjoint(grad, self, other_aval, 1)
    whole, grads, lefts = _stacks(grad, self)
    made = aten.bmm(_turned(lefts), grads)
    return later(lambda made: _unstacked(made, whole, shape), made)


def _matmul_self(grad, other, self_aval):
    """The gradient of the left factor."""
    a, b, shape = len(self_aval.shape), other.ndim, self_aval.shape
    if a == b == 1:
        return grad * rules.conj(other)
    if b == 1 and a == 2:
        return aten.view(grad, [shape[0], 1]) * rules.conj(other)
    if a == 1 and b == 2:
        made = _left(aten.unsqueeze(grad, 0), other)
        return later(lambda made: aten["squeeze.dim"](made, 0), made)
    if b == 2:
        made = _left(jnp.reshape(grad, (math.prod(grad.shape[:-1]), other.shape[1])), other)
        return later(lambda made: aten.view(made, list(shape)), made) if a > 2 else made
    if a == 1 or b == 1:
        return _adjoint(grad, other, self_aval, 0)
    whole, grads, rights = _stacks(grad, other)
    made = aten.bmm(grads, _turned(rights))
    return later(lambda made: _unstacked(made, whole, shape), made, rank=2)


def _adjoint(grad, known, aval, place):
    """jax's own, where a vector meets a stack of matrices."""
    run = lambda x: jnp.matmul(*((known, x) if place else (x, known)), precision=precision())  # noqa: E731
    return rules.adjoint(run, jnp.zeros(aval.shape, aval.dtype))(grad)[0]


def _stacks(grad, factor):
    """(leading sizes, gradients and factors as stacks of matrices)."""
    lead = grad.shape[:-2]
    count = math.prod(lead)
    broadcast = lambda x: jnp.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(count, *x.shape[-2:])  # noqa: E731
    return lead, aten.view(grad, [count, *grad.shape[-2:]]), unseen(broadcast, factor)


def _unstacked(made, lead, shape):
    """A stack of gradients in the shape of the factor, whose leading dimensions were broadcast."""
    made = aten.view(made, [*lead, *made.shape[-2:]])
    extra = made.ndim - len(shape)
    dims = [i for i in range(made.ndim - 2) if i < extra or shape[i - extra] == 1 != made.shape[i]]
    made = aten["sum.dim_IntList"](made, dims, True) if dims else made
    return aten.view(made, list(shape)) if extra else made


def _vector_last(self_aval, other_aval):
    """PyTorch computes the gradient of a matrix before that of the vector it is multiplied with."""
    return (len(self_aval.shape), len(other_aval.shape)) == (2, 1)


_matmul_other.turn = _vector_last


def _by_matrix(grad, self, other, self_by_columns, other_by_columns, needs):
    """Of a product with a matrix on the right."""
    grad, shape = _flat(grad) if grad.ndim > 2 else grad, list(self.shape)
    second = _to_second(grad, _rows_of(self, shape[-1]), other_by_columns) if "other" in needs else None
    first = _to_first(grad, other, self_by_columns) if "self" in needs else None
    if first is not None and len(shape) > 2:
        first = later(lambda made: aten.view(made, shape), first)
    return second, first


_MATRIX = {"when": lambda self_aval, other_aval: len(self_aval.shape) > 1 and len(other_aval.shape) == 2}


@product("matmul(Tensor self, Tensor other) -> Tensor", operator="@", node=_last_step, saved=_last_saved,
         vjp={"other": _matmul_other, "self": _matmul_self}, jvp="kernel",
         backward={"other, self": (_by_matrix, _MATRIX)})  # fmt: skip
def matmul(self, other):
    """The matrix product, over the last two dimensions; leading dimensions are broadcast.

    A 1-dim operand is a row on the left, a column on the right, and its dimension disappears.
    Raises RuntimeError for a 0-dim operand, sizes that do not fit, or different dtypes.

    >>> import torchlike as torch
    >>> (torch.ones(5, 2, 3) @ torch.ones(3)).shape
    torch.Size([5, 2])
    """
    if not self.ndim or not other.ndim:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {self.ndim}D and {other.ndim}D; "
            "use * for scalars"
        )
    if self.ndim == other.ndim == 1:
        return _dot("matmul", self, other)
    if self.ndim == 2 and other.ndim == 1:
        return _mv("matmul", self, other)
    _fits(self, other)
    _check("matmul", self, other)
    return jnp.matmul(self, other, precision=precision())


def _fits(a, b):
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.ndim > 2 and b.ndim > 2:
        _batches(a.shape[:-2], b.shape[:-2])
    if a.shape[-1] != inner:
        if a.ndim > 2 and b.ndim > 2:
            batch = max(a.shape[0], b.shape[0])
            raise RuntimeError(
                f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {a.shape[-1]}] "
                f"but got: [{batch}, {inner}] (matmul)."
            )
        _no_match(_rows(a), a.shape[-1], inner, b.shape[-1] if b.ndim > 1 else 1)


def _rows(a):
    return math.prod(a.shape[:-1])


def _batches(a, b):
    for i in range(1, min(len(a), len(b)) + 1):
        if a[-i] != b[-i] and 1 not in (a[-i], b[-i]):
            raise RuntimeError(
                f"The size of tensor a ({a[-i]}) must match the size of tensor b ({b[-i]}) at non-singleton "
                "dimension "
                f"{max(len(a), len(b)) - i} (the leading dimensions of matmul are broadcast)"
            )


@blend("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
       held="beta:wide:negative alpha:wide:negative",
       saved="alpha beta mat1 mat1_sym_sizes mat2 mat2_sym_sizes", jvp="kernel", vjp={
           "mat1": lambda grad, mat2, alpha: scaled(_left(grad, mat2), alpha),
           "mat2": lambda grad, mat1, alpha: scaled(_right(grad, mat1), alpha),
           "self": lambda grad, beta: scaled(grad, beta)}, backward={
           "mat1": lambda grad, mat2, alpha, mat1_by_columns: times(_to_first(grad, mat2, mat1_by_columns), alpha),
           "mat2": lambda grad, mat1, alpha, mat2_by_columns: times(_to_second(grad, mat1, mat2_by_columns), alpha),
           "self": lambda grad, beta: times(grad, beta)})  # fmt: skip
def addmm(self, mat1, mat2, beta, alpha):
    """``beta * self + alpha * (mat1 @ mat2)``; ``self`` is broadcast to [n, m], ignored where beta is 0.

    >>> import torchlike as torch
    >>> torch.addmm(torch.ones(1), torch.ones(2, 3), torch.ones(3, 1))
    tensor([[4.],
            [4.]])
    """
    product = _mm("addmm", mat1, mat2, "mat1", wide=True)
    return blended("addmm", self, product, mat1.dtype, beta, alpha, long(mat1.dtype))


@blend("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
       held="beta alpha",
       vjp={"mat": lambda grad, vec, alpha: scaled(_OF_MATRIX["self"](grad, vec), alpha),
            "self": lambda grad, beta: scaled(grad, beta),
            "vec": lambda grad, mat, alpha: scaled(_OF_MATRIX["vec"](grad, mat), alpha)},
       saved="alpha beta mat vec", autocast={"cuda": "lower_precision_fp"}, jvp="kernel")  # fmt: skip
def addmv(self, mat, vec, beta, alpha):
    """``beta * self + alpha * (mat @ vec)``; ``self`` is broadcast to [n].

    >>> import torchlike as torch
    >>> torch.addmv(torch.zeros(2), torch.ones(2, 3), torch.ones(3), alpha=2)
    tensor([6., 6.])
    """
    product, skips = _mv("addmv", mat, vec, wide=True), long(mat.dtype) and mat.dtype.kind == "f"
    return blended("addmv", self, product, mat.dtype, beta, alpha, skips)


@blend("addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
       held="beta:wide:negative alpha:wide:negative", backward=ADDBMM,
       saved="alpha batch1 batch1_sym_argsize_0 batch1_sym_argsize_1 batch2 batch2_sym_argsize_2 beta")  # fmt: skip
def addbmm(self, batch1, batch2, beta, alpha):
    """``beta * self + alpha * sum_b (batch1[b] @ batch2[b])``; ``self`` is broadcast to [n, m].

    >>> import torchlike as torch
    >>> torch.addbmm(torch.zeros(1, 1), torch.ones(5, 1, 2), torch.ones(5, 2, 1))
    tensor([[10.]])
    """
    product = rules.total(_bmm("addbmm", batch1, batch2, True), 0)
    return blended("addbmm", self, product, batch1.dtype, beta, alpha, long(batch1.dtype))


@blend("baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
       held="beta:wide:negative alpha:wide:negative",
       saved="alpha batch1 batch2 beta", jvp="kernel", vjp={
           "batch1": lambda grad, batch2, alpha: scaled(aten.bmm(grad, _turned(batch2)), alpha),
           "batch2": lambda grad, batch1, alpha: scaled(aten.bmm(_turned(batch1), grad), alpha),
           "self": lambda grad, beta: scaled(grad, beta)})  # fmt: skip
def baddbmm(self, batch1, batch2, beta, alpha):
    """``beta * self + alpha * (batch1 @ batch2)``, matrix by matrix; ``self`` is broadcast to [b, n, m].

    >>> import torchlike as torch
    >>> torch.baddbmm(torch.ones(1), torch.ones(2, 1, 3), torch.ones(2, 3, 1)).flatten()
    tensor([4., 4.])
    """
    return blended("baddbmm", self, _bmm("baddbmm", batch1, batch2, wide=True), batch1.dtype, beta, alpha)


@blend(
    "addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    dtype="promote_types",
    held="beta alpha",
    out="cast after",
    saved="alpha beta vec1 vec2",
    backward=ADDR,
    autocast={"cuda": "lower_precision_fp"},
    layout=result_layouts.like_first,
)
def addr(self, vec1, vec2, beta, alpha):
    """``beta * self + alpha * outer(vec1, vec2)``; ``self`` is broadcast to [n, m].

    >>> import torchlike as torch
    >>> torch.addr(torch.zeros(1), torch.tensor([1., 2.]), torch.tensor([3.]))
    tensor([[3.],
            [6.]])
    """
    for x in (vec1, vec2):
        if x.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument vec1 and vec2, but got {vec1.ndim}-D and {vec2.ndim}-D")
    demand_factor("addr", self, beta, "beta")
    demand_factor("addr", self, alpha)
    outer = rounded_product(scale(vec1, alpha)[:, None], vec2[None, :])
    self, outer = (once(x) if isinstance(n, int) else x for x, n in ((self, beta), (outer, alpha)))
    return blended("addr", self, outer, outer.dtype, beta, 1)


def _last_step_of_linear(input, weight, bias):
    ranks = len(input.shape), len(weight.shape)
    if bias is None:
        return _last_step(input, weight) if ranks != (1, 2) else "SqueezeBackward4"
    if ranks[1] == 1:
        return "AddBackward"
    return "AddmmBackward" if ranks[0] == 2 else "ViewBackward"


def _saved_by_linear(input, weight, bias):
    """The weight shows as PyTorch's second matrix, which is its transpose."""
    turned = {
        "mat2": lambda weight: None if weight is None else weight.t(),
        "mat2_sym_sizes": lambda weight_aval: weight_aval.shape[::-1],
    }
    return {
        "AddmmBackward": turned | {"mat1": "input", "mat1_sym_sizes": "input_sym_sizes",
                                   "beta": lambda: 1, "alpha": lambda: 1},
        "MmBackward": turned | {"self": "input", "self_sym_sizes": "input_sym_sizes"},
    }.get(_last_step_of_linear(input, weight, bias), {})  # fmt: skip


def _flat(grad, bias_aval=True):
    """A stack of vectors as a matrix, seen by dispatch."""
    if grad.ndim == 1 and bias_aval is None:
        return aten.unsqueeze(grad, 0)
    return jnp.reshape(grad, (math.prod(grad.shape[:-1]), grad.shape[-1]))


def _linear_input(grad, weight, input_aval, bias_aval):
    shape = input_aval.shape
    if weight.ndim == 1:
        return grad[..., None] * rules.conj(weight)
    made = aten.mm(_flat(grad, bias_aval), aten.t(unseen(lambda w: rules.conj(w).T, weight)))
    if len(shape) == 2:
        return made if bias_aval is None else later(lambda made: made, made, rank=0)
    if len(shape) == 1 and bias_aval is None:
        return later(lambda made: aten["squeeze.dim"](made, 0), made, rank=1)
    return later(lambda made: aten.view(made, list(shape)), made, rank=1 if bias_aval is None else 2)


def _linear_weight(grad, input, weight_aval, bias_aval):
    if len(weight_aval.shape) == 1:
        return jnp.sum(grad[..., None] * rules.conj(input), tuple(range(input.ndim - 1)))
    rows = _rows_of(input, input.shape[-1])
    made = aten.t(aten.mm(aten.t(_flat(grad, bias_aval)), rules.conj(rows)))
    return later(aten.t, made, rank=2 if bias_aval is None else 1)


def _linear_bias(grad, weight_aval):
    return _flat(grad) if len(weight_aval.shape) == 2 else grad


_linear_weight.turn = lambda bias_aval: bias_aval is not None  # after that of the input, which addmm has first


@op("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", variants="", node=_last_step_of_linear,
    vjp={"weight": _linear_weight, "input": _linear_input, "bias": _linear_bias}, jvp="kernel",
    autocast="lower_precision_fp", saved=_saved_by_linear,
    edges=lambda input, bias: (0, 1) if bias is None else (2, 0, 1) if len(input.shape) == 2 else (2, 1, 0),
    rows="input")  # fmt: skip
def linear(input, weight, bias):
    """``input @ weight.T + bias`` over the last dimension: [..., k], [m, k], [m] to [..., m]."""
    if input.ndim == 0 or weight.ndim not in (1, 2):
        raise RuntimeError(f"linear: an input of at least 1-D, a weight of 1-D or 2-D; not {input.ndim}, {weight.ndim}")
    if input.shape[-1] != weight.shape[-1]:
        _no_match(_rows(input), input.shape[-1], weight.shape[-1], weight.shape[0] if weight.ndim > 1 else 1)
    _check("linear", input, weight)
    out = _contract(input, weight, input.ndim - 1, weight.ndim - 1, wide=bias is not None)
    if bias is None:
        return out
    expandable("linear", bias, out.shape)
    if bias.dtype != input.dtype:
        raise RuntimeError(
            f"linear: self and mat2 must have the same dtype, but got {from_np(bias.dtype)} and {from_np(input.dtype)} "
            "(the bias is cast with .to(dtype))"
        )
    return (out + bias).astype(input.dtype)
