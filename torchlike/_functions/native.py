"""PyTorch's own operators below its layers: public under ``torch`` as they are under ``torch.ops.aten``."""

import functools
import inspect
import math

import torchlike._base.dtypes as dtypes
from torchlike._aten.extra import factors_of
from torchlike._aten.packets import ops
from torchlike._aten.source import SOURCE, Overload
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import one_call
from torchlike._core.dispatch.out import demand_as_many, put_exactly
from torchlike._core.tensor.arguments import as_float, bools
from torchlike._decl.op import REGISTRY
from torchlike._functions._install import FUNCTIONS, function
from torchlike._functions.indexing import index_put
from torchlike._functions.linalg import matrix_norm
from torchlike._ops.upsample import interpolate


def _written(name, out, results):
    """The results, or ``out`` with their values, which must have their dtypes."""
    if out is None:
        return results
    if isinstance(results, tuple):
        demand_as_many(name, len(results), out)
    pairs = zip(results, out, strict=True) if isinstance(results, tuple) else [(results, out)]
    for r, o in pairs:
        put_exactly(name, r, o)
    return out


def native(text, public=True, out=False, alone=False):
    """Register a function as the aten operator of this schema, and under its name in ``torch``.

    ``alone``: PyTorch has no overload of it with ``out=``.
    """

    def register(f):
        SOURCE.add(Overload(text, lambda: _with_self(f), whole=alone))
        name = text[: text.index("(")].partition(".")[0]
        if public:
            function(name)(_with_out(f) if out else f)
        return f

    return register


def _with_self(f):
    """``f`` whose first argument may be called ``self``, as in schemas."""
    first = next(iter(inspect.signature(f).parameters))

    @functools.wraps(f)
    def renamed(*args, **kwargs):
        if "self" in kwargs:
            kwargs[first] = kwargs.pop("self")
        return f(*args, **kwargs)

    return renamed


def _with_out(f):
    @functools.wraps(f)
    def written(*args, out=None, **kwargs):
        return _written(f.__name__, out, f(*args, **kwargs))

    del written.__wrapped__  # whose signature has no out
    return written


def _typed(aten):
    """``aten``, an operator, that refuses arguments of other kinds by TypeError, as a function of ``torch`` does."""

    def called(*args, **kwargs):
        try:
            return aten(*args, **kwargs)
        except RuntimeError as problem:
            if hasattr(problem, "fits_none"):
                raise TypeError(str(problem)) from None
            raise

    return called


# -- normalisations ----------------------------------------------------------------------------------------

_AFFINE = "Tensor input, Tensor? weight, Tensor? bias"
_THREE = "-> (Tensor, Tensor, Tensor)"


@function("native_batch_norm")
@one_call()
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, *, out=None):
    """(normalized, mean, 1 / sqrt(variance + eps)) of a batch [N, C, ...]; the running statistics move towards them.

    Without ``training`` the running statistics are used, and the other results are empty.

    >>> import torchlike as torch
    >>> torch.native_batch_norm(torch.tensor([[1.], [3.]]), None, None, None, None, True, 0.1, 0.0)[0]
    tensor([[-1.],
            [ 1.]])
    """
    bools("native_batch_norm", training=training)
    momentum, eps = [as_float("native_batch_norm", n, x) for n, x in (("momentum", momentum), ("eps", eps))]
    aten = _typed(ops.aten.native_batch_norm.default)
    normal, mean, rstd = aten(input, weight, bias, running_mean, running_var, training, momentum, eps)
    dtype = input.dtype if weight is None else weight.dtype
    return _written("native_batch_norm", out, (normal, mean.reshape(-1).to(dtype), rstd.reshape(-1).to(dtype)))


@native(
    f"_native_batch_norm_legit({_AFFINE}, Tensor(a!) running_mean, Tensor(b!) running_var, bool training, "
    f"float momentum, float eps) {_THREE}",
    public=False,
)
@one_call("_native_batch_norm_legit")
def _legit(input, weight, bias, running_mean, running_var, training, momentum, eps):
    return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@native(
    f"_native_batch_norm_legit.no_stats({_AFFINE}, bool training, float momentum, float eps) {_THREE}", public=False
)
@one_call("_native_batch_norm_legit")
def _no_statistics(input, weight, bias, training, momentum, eps):
    return native_batch_norm(input, weight, bias, None, None, training, momentum, eps)


@function("_native_batch_norm_legit")
def _native_batch_norm_legit(input, weight, bias, *rest, out=None, **named):
    """:func:`native_batch_norm`, also without running statistics."""
    few = len(rest) + len(named) == 3
    results = (_no_statistics if few else _legit)(input, weight, bias, *rest, **named)
    return _written("_native_batch_norm_legit", out, results)


@native(
    f"_native_batch_norm_legit_no_training({_AFFINE}, Tensor running_mean, Tensor running_var, float momentum, "
    f"float eps) {_THREE}"
)
@one_call()
def _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps):
    """:func:`native_batch_norm` without training."""
    return native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


@native(
    f"_batch_norm_with_update({_AFFINE}, Tensor(a!) running_mean, Tensor(b!) running_var, float momentum, float eps) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    public=False,
)
@one_call()
def _batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps):
    results = native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return *results, input.new_empty((0,), dtype=dtypes.uint8)


@function("native_layer_norm")
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """(normalized, mean, 1 / sqrt(variance + eps)) over the last dimensions.

    >>> import torchlike as torch
    >>> torch.native_layer_norm(torch.tensor([1., 3.]), [2], None, None, 0.0)[0]
    tensor([-1.,  1.])
    """
    normal, mean, rstd = _typed(ops.aten.native_layer_norm.default)(input, normalized_shape, weight, bias, eps)
    dtype = input.dtype if weight is None else weight.dtype
    return normal, mean.to(dtype), rstd.to(dtype)


@function("native_group_norm")
@one_call()
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """(normalized, mean, 1 / sqrt(variance + eps)) over groups of the ``C`` channels of [N, C, ...].

    >>> import torchlike as torch
    >>> torch.native_group_norm(torch.tensor([[1., 3.]]), None, None, 1, 2, 1, 1, 0.0)[0]
    tensor([[-1.,  1.]])
    """
    normal, *_ = _typed(ops.aten.native_group_norm.default)(input, weight, bias, N, C, HxW, group, eps)
    wide = input if input.dtype is dtypes.float64 else input.to(dtypes.float32)
    groups = wide.reshape(N, group, C // group * HxW)
    var, mean = FUNCTIONS["var_mean"](groups, -1, correction=0)  # which have gradients of their own
    if not groups.shape[-1]:
        mean = groups.sum(-1)
    dtype = input.dtype if weight is None else weight.dtype
    return normal, mean.to(dtype), (var + eps).rsqrt().to(dtype)


# -- softmax and its relatives ------------------------------------------------------------------------------


def _shared(name):
    """Public as aten has it."""

    @function(name)
    def shared(*args, **kwargs):
        if "input" in kwargs:
            kwargs["self"] = kwargs.pop("input")
        return _typed(getattr(ops.aten, name))(*args, **kwargs)

    shared.__name__ = shared.__qualname__ = name
    shared.__doc__ = f"``torch.ops.aten.{name}``."


for _name in "_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data".split():
    _shared(_name)


@native("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", public=False)
def _native_dropout_backward(grad_output, mask, scale):
    return grad_output * (mask.to(grad_output.dtype) * scale)


# -- pooling and resampling -----------------------------------------------------------------------------------


def _aa(mode):
    name = f"_upsample_{mode}2d_aa"

    @native(
        f"{name}(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) "
        "-> Tensor",
        public=False,
    )
    def sized(input, output_size, align_corners, scales_h=None, scales_w=None):
        factors = factors_of((scales_h, scales_w), output_size, input.shape[2:])
        return _resampled(mode, input, tuple(output_size), factors, align_corners)

    @native(
        f"{name}.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
        public=False,
    )
    def scaled(input, output_size, align_corners, scale_factors):
        if output_size is None:
            factors = tuple(map(float, scale_factors))
            output_size = tuple([int(n * f) for n, f in zip(input.shape[2:], factors, strict=True)])
        else:
            factors = None
        return _resampled(mode, input, tuple(output_size), factors, align_corners)


def _resampled(mode, input, size, factors, align_corners):
    return call(interpolate[mode, 2], (input,), (size, factors, bool(align_corners), True))


for _mode in ("bilinear", "bicubic", "lanczos"):
    _aa(_mode)

# -- places ----------------------------------------------------------------------------------------------------


@native("_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor")
@one_call()
def _unsafe_masked_index(input, mask, indices, fill):
    """``input[indices]`` where the mask is True, elsewhere ``fill``; no index is checked."""
    taken = input[_clamped(input, indices)]
    return taken.masked_fill(~mask, fill)


@native("_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor")
@one_call()
def _unsafe_masked_index_put_accumulate(input, mask, indices, values):
    """``input`` with the ``values`` where the mask is True added at the ``indices``; no index is checked."""
    values = values.masked_fill(~mask, 0)
    if not input.numel():
        return input.clone()
    return index_put(input, _clamped(input, indices), values, True)


def _clamped(input, indices):
    return tuple(
        [slice(None) if i is None else i.clamp(-input.shape[d], input.shape[d] - 1) for d, i in enumerate(indices)]
    )


# -- joining ---------------------------------------------------------------------------------------------------


function("_segment_reduce")(FUNCTIONS["segment_reduce"])

# -- convolution with the switches of vendors' libraries -------------------------------------------------------

_CONVOLUTION = (
    "Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
)


@native(
    f"_convolution({_CONVOLUTION}SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool "
    "cudnn_enabled, bool allow_tf32) -> Tensor"
)
def _convolution(
    input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, benchmark, deterministic,
    cudnn_enabled, allow_tf32=True,
):  # fmt: skip
    """``torch.convolution``; the switches of cuDNN change nothing."""
    return FUNCTIONS["convolution"](input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


native(
    f"_convolution.deprecated({_CONVOLUTION}int[] output_padding, SymInt groups, bool benchmark, bool deterministic, "
    "bool cudnn_enabled) -> Tensor",
    public=False,
)(_convolution)


# -- starts of rows and numbers of rows, of sparse matrices ----------------------------------------------------


def _demand_indices(name, indices):
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype is dtypes.bool:
        raise NotImplementedError(
            f"\"{name}_cpu\" not implemented for '{indices.dtype.scalar_name}': indices are integers"
        )


@native("_convert_indices_from_coo_to_csr(Tensor self, int size, *, bool out_int32=False) -> Tensor", out=True)
def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False):
    """Where each of ``size`` rows starts among sorted numbers of rows, and where the last one ends."""
    if input.ndim > 1:
        raise RuntimeError(
            "_convert_indices_from_coo_to_csr(): Input is supposed to be a vector, but got "
            f"{input.ndim} dimensional tensor."
        )
    _demand_indices("convert_indices_from_coo_to_csr", input)
    rows = FUNCTIONS["arange"](size + 1, dtype=input.dtype, device=input.device)
    return FUNCTIONS["searchsorted"](input.reshape(-1), rows, out_int32=out_int32)


@native(
    "_convert_indices_from_csr_to_coo(Tensor crow_indices, Tensor col_indices, *, bool out_int32=False, bool "
    "transpose=False) -> Tensor",
    out=True,
)
def _convert_indices_from_csr_to_coo(crow_indices, col_indices, *, out_int32=False, transpose=False):
    """The number of the row and the column of each element, as the indices of a COO tensor, [2, elements].

    Of batches of matrices [B, ...], the number of the matrix comes first. With ``transpose`` rows and columns change
    places.
    """
    _demand_indices("convert_indices_from_csr_to_coo", crow_indices)
    batch, n = crow_indices.shape[:-1], col_indices.shape[-1]
    dtype = dtypes.int32 if out_int32 else dtypes.int64
    starts = crow_indices.reshape(math.prod(batch), crow_indices.shape[-1])
    places = FUNCTIONS["arange"](n, device=crow_indices.device).expand(starts.shape[0], n).contiguous()
    rows = FUNCTIONS["searchsorted"](starts[:, 1:].contiguous(), places, right=True).reshape(-1)
    columns = col_indices.reshape(-1)
    found = [columns, rows] if transpose else [rows, columns]
    numbers = FUNCTIONS["arange"](starts.shape[0] * n, device=crow_indices.device) // max(n, 1)
    for size in reversed(batch):
        found.insert(0, numbers % size)
        numbers = numbers // size
    return FUNCTIONS["stack"]([f.to(dtype) for f in found])


# -- norms that PyTorch keeps for old programs -----------------------------------------------------------------


@native("nuclear_norm(Tensor self, bool keepdim=False) -> Tensor", public=False)
def _nuclear(input, keepdim=False):
    if input.ndim < 2:
        raise RuntimeError(
            f"nuclear_norm: the input must have at least 2 dimensions, got {input.ndim} of shape {list(input.shape)}"
        )
    return matrix_norm(input, "nuc", (-2, -1), keepdim)


@native("nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor", public=False)
def _nuclear_dim(input, dim, keepdim=False):
    return matrix_norm(input, "nuc", tuple(dim), keepdim)


@function("nuclear_norm")
def nuclear_norm(input, dim=None, keepdim=False, *, out=None):
    """The sum of the singular values of matrices, over the two dimensions ``dim`` (the last two, without it).

    >>> import torchlike as torch
    >>> torch.nuclear_norm(torch.eye(2))
    tensor(2.)
    """
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    return _written("nuclear_norm", out, _nuclear(input, keepdim) if dim is None else _nuclear_dim(input, dim, keepdim))


@native("frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", out=True)
def frobenius_norm(input, dim, keepdim=False):
    """The root of the sum of squares over one or two dimensions (all, for none).

    >>> import torchlike as torch
    >>> torch.frobenius_norm(torch.tensor([3., 4.]), 0)
    tensor(5.)
    """
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dims)} dimensions instead.")
    op = REGISTRY["linalg_vector_norm"]
    return call(op, (input,), op.exactly((2.0, dims or None, bool(keepdim), None)))


@function("native_channel_shuffle")
def native_channel_shuffle(input, groups):
    """:func:`torch.channel_shuffle`."""
    return FUNCTIONS["channel_shuffle"](input, groups)


# -- truths, parts and shapes -----------------------------------------------------------------------------------


@native("_is_all_true(Tensor self) -> Tensor")
def _is_all_true(input):
    """``all`` of a bool tensor."""
    return input.all()


@native("_is_any_true(Tensor self) -> Tensor")
def _is_any_true(input):
    """``any`` of a bool tensor."""
    return input.any()


@native("_shape_as_tensor(Tensor self) -> Tensor")
def _shape_as_tensor(input):
    """The sizes, as int64."""
    return FUNCTIONS["tensor"](list(input.shape), dtype=dtypes.int64)


@native("_stack(Tensor[] tensors, int dim=0) -> Tensor", out=True)
def _stack(tensors, dim=0):
    """``stack``."""
    return FUNCTIONS["stack"](tensors, dim)


__all__ = ["frobenius_norm", "native_batch_norm", "native_group_norm", "native_layer_norm", "nuclear_norm"]
