"""Overloads that PyTorch makes of others under names of their own: steps of public functions, checks, casts, views."""

import warnings
from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike import _checks, linalg
from torchlike._aten import size_policy
from torchlike._aten.packets import ops
from torchlike._base.result_layouts import suggests_channels_last
from torchlike._composites._register import made, mapped
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import channels_last, channels_last_3d
from torchlike._core.tensor.zero_tensor import is_zero
from torchlike._decl.function_schema import code_of
from torchlike._ops.upsample import interpolate
from torchlike.autograd import Function
from torchlike.nn import functional
from torchlike.nn.utils import rnn

_aten = ops.aten

# -- sizes, places and kinds ----------------------------------------------------------------------------

made("sym_size.int(Tensor self, int dim) -> SymInt")(lambda self, dim: self.size(dim))
made("sym_stride.int(Tensor self, int dim) -> SymInt")(lambda self, dim: self.stride(dim))
made("sym_is_contiguous(Tensor self, MemoryFormat memory_format=0) -> SymBool")(
    lambda self, *memory_format: self.is_contiguous(
        **({"memory_format": memory_format[0]} if memory_format and memory_format[0] else {})
    )
)
made("_dim_arange(Tensor like, int dim) -> Tensor")(
    lambda like, dim: FUNCTIONS["arange"](like.shape[dim], device=like.device)
)
made("len.Tensor(Tensor t) -> int")(len)
made("_is_zerotensor(Tensor self) -> bool")(is_zero)
made("_has_same_storage_numel(Tensor self, Tensor other) -> bool")(
    lambda self, other: self.untyped_storage().nbytes() == other.untyped_storage().nbytes()
)


@made("is_non_overlapping_and_dense(Tensor self) -> bool")
def _dense(self: Any) -> bool:
    found = size_policy.answer_of(self, ops.aten.is_non_overlapping_and_dense.default)
    if found is not None:
        return found
    expected, layout = 1, self._layout
    for stride, size in sorted((s, n) for s, n in zip(layout.strides, layout.shape, strict=True) if n != 1):
        if stride != expected and 0 not in layout.shape:
            return False
        expected *= size
    return True


@made("is_strides_like_format(Tensor self, MemoryFormat memory_format) -> bool")
def _strides_like(self: Any, memory_format: Any) -> bool:
    found = size_policy.answer_of(self, ops.aten.is_strides_like_format.default, memory_format)
    if found is not None:
        return found
    dims = {channels_last: 4, channels_last_3d: 5}.get(memory_format)
    return len(self._layout.shape) == dims and suggests_channels_last(self._layout)


def _code(*args: Any) -> int:
    return code_of(FUNCTIONS["result_type"](*args))


for _text in ("Tensor(Tensor tensor, Tensor other)", "Scalar(Tensor tensor, Scalar other)",
              "Scalar_Tensor(Scalar scalar, Tensor tensor)"):  # fmt: skip
    made(f"result_type.{_text} -> ScalarType")(_code)

# -- numbers of tensors ---------------------------------------------------------------------------------

made("FloatImplicit(Tensor a) -> float")(float)
for _name, _kind in (("Float", float), ("Int", int), ("Bool", bool)):
    made(f"{_name}.Tensor(Tensor a) -> {_kind.__name__}")(_kind)
for _name, _kind, _type in (("Complex", complex, "complex"), ("Int", int, "int")):
    made(f"{_name}Implicit(Tensor a) -> {_type}")(_kind)
made("ScalarImplicit(Tensor a) -> Scalar")(lambda a: a.item())

# -- steps of public functions --------------------------------------------------------------------------


made("_conj_physical(Tensor self) -> Tensor", out=True)(FUNCTIONS["conj_physical"])
made("_logcumsumexp(Tensor self, int dim) -> Tensor", out=True)(FUNCTIONS["logcumsumexp"])
made("lift(Tensor self) -> Tensor", out=True)(lambda self: self)
mapped("matrix_H matrix_H.a", "@(Tensor(a) self) -> Tensor(a)", lambda name: lambda self: self.H)
mapped("numpy_T numpy_T.a", "@(Tensor(a) self) -> Tensor(a)", lambda name: lambda self: self.T)
made("nonzero_numpy(Tensor self) -> Tensor[]")(lambda self: list(FUNCTIONS["nonzero"](self, as_tuple=True)))
made("flatten_dense_tensors(Tensor[] tensors) -> Tensor")(
    lambda tensors: FUNCTIONS["cat"]([t.contiguous().view(-1) for t in tensors])
)
made("_to_cpu(Tensor[] tensors) -> Tensor[]")(lambda tensors: [t.cpu() for t in tensors])
made("_saturate_weight_to_fp16(Tensor weight) -> Tensor")(lambda weight: weight.clamp(-65504.0, 65504.0))
made('pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., str padding_side="right") '
     "-> Tensor")(rnn.pad_sequence)  # fmt: skip
made("log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)")(
    lambda self: (functional.logsigmoid(self), (-self.abs()).exp())
)
made("linalg__powsum(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) "
     "-> Tensor")(
    lambda self, ord=2, dim=None, keepdim=False, *, dtype=None: (self if dtype is None else self.to(dtype)).abs().pow(
        ord).sum(dim, keepdim=keepdim)
)  # fmt: skip
made("_euclidean_dist(Tensor x1, Tensor x2) -> Tensor", out=True)(
    lambda x1, x2: FUNCTIONS["cdist"](x1, x2, 2.0, "use_mm_for_euclid_dist")
)
_MODES = "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"
made("_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", out=True)(
    lambda x1, x2, p, compute_mode: FUNCTIONS["cdist"](x1, x2, p, _MODES[compute_mode or 0])
)
made("_pdist_forward(Tensor self, float p=2.) -> Tensor", out=True)(lambda self, p=2.0: functional.pdist(self, p))
made("_linalg_eigvals(Tensor self) -> Tensor")(lambda self: linalg.eigvals(self))
made("_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)", out=True)(
    lambda self, sorted=True, return_inverse=False: tuple(_aten._unique2(self, sorted, return_inverse)[:2])
)
made(
    "unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) "
    "-> (Tensor, Tensor, Tensor)",
    out=True,
)(lambda self, dim, inverse=False, counts=False: _aten.unique_consecutive(self, True, True, dim))
made("_cholesky_solve_helper(Tensor self, Tensor A, bool upper) -> Tensor", out=True)(
    lambda self, A, upper: FUNCTIONS["cholesky_solve"](self, A, upper)
)
made("_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool use_gelu=False) "
     "-> Tensor", out=True)(
    lambda self, mat1, mat2, *, beta=1, alpha=1, use_gelu=False: (
        functional.gelu if use_gelu else functional.relu
    )(FUNCTIONS["addmm"](self, mat1, mat2, beta=beta, alpha=alpha))
)  # fmt: skip
made("gelu_(Tensor(a!) self, *, str approximate='none') -> Tensor(a!)".replace("'", '"'))(
    lambda self, *, approximate="none": self.copy_(functional.gelu(self, approximate=approximate))
)


def _resampled(n: int) -> None:
    scales = ["scales"] if n == 1 else ["scales_d", "scales_h", "scales_w"][-n:]
    text = ", ".join(f"float? {s}=None" for s in scales)

    @made(f"_upsample_nearest_exact{n}d(Tensor self, SymInt[{n}] output_size, {text}) -> Tensor", out=True)
    def run(self: Any, output_size: Any, *factors: Any, **named: Any) -> Any:
        given = [*factors, *[None] * (n - len(factors))]
        given = [named.get(s, g) for s, g in zip(scales, given, strict=True)]
        sizes = tuple(given) if any(s is not None for s in given) else None
        return call(interpolate["nearest-exact", n], (self,), (tuple(output_size), sizes, False, False))


def _by_factors(mode: str, n: int) -> None:
    """The overload that is told an output size or factors."""
    aligned = not mode.startswith("nearest")
    name = f"{'_' * ('exact' in mode)}upsample_{mode.replace('-', '_')}{n}d"
    given = "Tensor input, SymInt[]? output_size, " + "bool align_corners, " * aligned + "float[]? scale_factors"

    @made(f"{name}.vec({given}) -> Tensor")
    def run(input: Any, output_size: Any, *rest: Any) -> Any:
        *align, factors = rest
        size = None if output_size is None else tuple(output_size)
        factors = None if factors is None else tuple(factors)
        return functional.interpolate(input, size, factors, mode, *align)


for _n in (1, 2, 3):
    _resampled(_n)
    for _mode in ("nearest", "nearest-exact", ("linear", "bilinear", "trilinear")[_n - 1], *["bicubic"] * (_n == 2)):
        _by_factors(_mode, _n)

# -- places ---------------------------------------------------------------------------------------------

_PUT = "Tensor values, bool accumulate=False"


def _put(self: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False) -> Any:
    return _aten.index_put.default(self, list(indices), values, accumulate)


def _put_(self: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False) -> Any:
    return _aten.index_put_.default(self, list(indices), values, accumulate)


made(
    "_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    "_unsafe_index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor",
    "index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor",
)(lambda self, indices: _aten.index.Tensor(self, list(indices)))
made(
    f"_unsafe_index_put(Tensor self, Tensor?[] indices, {_PUT}) -> Tensor",
    f"_unsafe_index_put.hacked_twin(Tensor self, Tensor[] indices, {_PUT}) -> Tensor",
    f"index_put.hacked_twin(Tensor self, Tensor[] indices, {_PUT}) -> Tensor",
)(_put)
made(f"index_put_.hacked_twin(Tensor(a!) self, Tensor[] indices, {_PUT}) -> Tensor(a!)")(_put_)
made(f"_index_put_impl(Tensor self, Tensor?[] indices, {_PUT}, bool unsafe=False) -> Tensor", out=True)(_put)
made(
    f"_index_put_impl_(Tensor(a!) self, Tensor?[] indices, {_PUT}, bool unsafe=False) -> Tensor(a!)",
    f"_index_put_impl_.hacked_twin(Tensor(a!) self, Tensor[] indices, {_PUT}, bool unsafe=False) -> Tensor(a!)",
)(_put_)

# -- convolutions and pools -----------------------------------------------------------------------------


def _slow_conv(n: int, head: str, dilated: bool, ending: str = "") -> None:
    ones, zeros = f"[{', '.join('1' * n)}]", f"[{', '.join('0' * n)}]"
    dilation = f", SymInt[{n}] dilation={ones}" if dilated else ""

    @made(
        f"{head}(Tensor self, Tensor weight, SymInt[{n}] kernel_size, Tensor? bias=None, SymInt[{n}] stride={ones}, "
        f"SymInt[{n}] padding={zeros}{dilation}) -> Tensor",
        out=True,
    )
    def run(self: Any, weight: Any, kernel_size: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
            dilation: Any = 1) -> Any:  # fmt: skip
        convolve = functional.conv2d if n == 2 else functional.conv3d
        return convolve(self, weight, bias, _list(stride), _list(padding), _list(dilation))


def _list(x: Any) -> Any:
    return tuple(x) if isinstance(x, list) else x


_slow_conv(2, "thnn_conv2d", False)
_slow_conv(3, "slow_conv3d", False)
_slow_conv(2, "slow_conv_dilated2d", True)
_slow_conv(3, "slow_conv_dilated3d", True)


def _unpooled(n: int) -> None:
    given = "" if n == 2 else ", int[3] stride, int[3] padding"

    @made(f"max_unpool{n}d(Tensor self, Tensor indices, SymInt[{n}] output_size{given}) -> Tensor", out=True)
    def run(self: Any, indices: Any, output_size: Any, *rest: Any) -> Any:
        lead, size = tuple(self.shape[:-n]), tuple(output_size)
        total = 1
        for s in size:
            total *= s
        flat = indices.reshape(*lead, -1)
        if flat.numel() and (int(flat.min()) < 0 or int(flat.max()) >= total):
            raise RuntimeError(f"max_unpool{n}d(): found an invalid max index for output_size={list(size)}")
        return self.new_zeros((*lead, total)).scatter(-1, flat, self.reshape(*lead, -1)).reshape(*lead, *size)


_unpooled(2)
_unpooled(3)
for _n in (2, 3):
    made(f"adaptive_max_pool{_n}d(Tensor self, int[{_n}] output_size) -> (Tensor, Tensor)",
         out="out out indices")(
        lambda self, output_size, _n=_n: getattr(functional, f"adaptive_max_pool{_n}d")(
            self, tuple(output_size), return_indices=True
        )
    )  # fmt: skip

# -- random numbers -------------------------------------------------------------------------------------

made("bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor", out=True)(
    lambda self, p, *, generator=None: self.clone().bernoulli_(p, generator=generator)
)
_BOUNDS = "Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None"


def _rrelu(self: Any, noise: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
           generator: Any = None) -> Any:  # fmt: skip
    if not training:
        return functional.leaky_relu(self, (lower + upper) / 2)
    low = self <= 0  # PyTorch draws a number for each of these, in their order
    drawn = self.new_empty(int(low.sum()), dtype=dtypes.float64).uniform_(lower, upper, generator=generator)
    noise.copy_(FUNCTIONS["ones_like"](self).masked_scatter(low, drawn.to(self.dtype)))
    return self * noise


def _rrelu_functional(self: Any, noise: Any, *rest: Any, **named: Any) -> Any:
    noise = noise.clone()
    return _rrelu(self, noise, *rest, **named), noise


made(f"rrelu_with_noise_functional(Tensor self, Tensor noise, {_BOUNDS}) -> (Tensor, Tensor noise_out)")(
    _rrelu_functional
)

# -- checks ---------------------------------------------------------------------------------------------


def _assert(self: Any, message: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    if self.numel() != 1:
        raise RuntimeError(f"Boolean value of Tensor with {'no' if not self.numel() else 'more than one'} value "
                           "is ambiguous: _assert_async takes one element")  # fmt: skip
    if not bool(self):
        raise RuntimeError(message)


made("_assert_async(Tensor self) -> ()", "_assert_async.msg(Tensor self, str assert_msg) -> ()")(_assert)


made("_assert_scalar(Scalar self, str assert_msg) -> ()")(_checks._assert_scalar)
for _name in ("sym_constrain_range", "sym_constrain_range_for_size"):
    made(f"{_name}(Scalar size, *, int? min=None, int? max=None) -> ()")(getattr(_checks, _name))


@made("_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor")
def _assert_functional(self: Any, assert_msg: str, dep_token: Any) -> Any:
    _assert(self, assert_msg)
    return dep_token.clone()


# -- sparse tensors -------------------------------------------------------------------------------------

made("_coalesce(Tensor self) -> Tensor")(lambda self: self.coalesce())
made("_to_dense(Tensor self, ScalarType? dtype=None, bool? masked_grad=None) -> Tensor")(
    lambda self, dtype=None, masked_grad=None: self.to_dense(dtype, masked_grad=masked_grad)
)
made("_sparse_mm(Tensor sparse, Tensor dense) -> Tensor")(lambda sparse, dense: sparse @ dense)
made("_dimI(Tensor self) -> int")(lambda self: self.sparse_dim())
made("_dimV(Tensor self) -> int")(lambda self: self.dense_dim())
for _layout in ("csr", "csc"):
    made(f"_to_sparse_{_layout}(Tensor self, int? dense_dim=None) -> Tensor")(
        lambda self, dense_dim=None, _n=f"to_sparse_{_layout}": getattr(self, _n)(dense_dim)
    )
for _layout in ("bsr", "bsc"):
    made(f"_to_sparse_{_layout}(Tensor self, int[2] blocksize, int? dense_dim=None) -> Tensor")(
        lambda self, blocksize, dense_dim=None, _n=f"to_sparse_{_layout}": getattr(self, _n)(
            tuple(blocksize), dense_dim
        )
    )
made("_to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor")(
    lambda self, sparse_dim: self.to_sparse(sparse_dim)
)


class TestWarnInAutograd(Function):
    """A copy whose derivative warns."""

    @staticmethod
    def forward(ctx: Any, self: Any) -> Any:
        return self.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        warnings.warn("Warn from backward", stacklevel=1)
        return grads[0]


made("_test_warn_in_autograd(Tensor self) -> Tensor", out=True)(lambda self: TestWarnInAutograd.apply(self))
