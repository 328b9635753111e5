"""Operators that public functions of PyTorch call on CPUs: of bags, batch norm, sparse tensors, losses."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike import sparse
from torchlike._aten.packets import ops
from torchlike._composites._register import made
from torchlike._composites.gradients import pulled
from torchlike._core.autocast.context import autocast
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import contiguous_format
from torchlike._functions.bags import frequencies
from torchlike.nn import functional

_aten = ops.aten

# -- bags of embeddings ---------------------------------------------------------------------------------

_BAG = "Tensor indices, Tensor offset2bag, Tensor bag_size, Tensor maximum_indices, SymInt num_weights"
_SUM, _MEAN, _MAX = range(3)


def _bag_of(indices: Any, offsets: Any, bag: Any) -> Any:
    """The bag of each index, which PyTorch leaves out where its sums did not need it."""
    if bag.numel() == indices.numel():
        return bag
    places = FUNCTIONS["arange"](indices.numel(), dtype=offsets.dtype, device=indices.device)
    return FUNCTIONS["searchsorted"](offsets, places, right=True) - 1


def _rows(grad: Any, indices: Any, bag: Any, size: Any, scale: bool, mode: int, factors: Any) -> Any:
    """What each index of sums or means adds to its row."""
    rows = grad[bag]
    if mode == _MEAN:
        rows = rows / size[bag].unsqueeze(1)
    if factors is not None:
        rows = rows * factors.unsqueeze(1)
    if scale:
        rows = rows / frequencies(indices).unsqueeze(1)
    return rows


@made(
    f"_embedding_bag_dense_backward(Tensor grad, {_BAG}, bool scale_grad_by_freq, int mode, "
    "Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
    out="out out",
)
def _bags(
    grad: Any, indices: Any, bag: Any, size: Any, maxima: Any, num_weights: int, scale: bool, mode: int, factors: Any,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    total = grad.new_zeros(num_weights, grad.shape[1])
    if mode == _MAX:
        return total.scatter_add(0, maxima, grad.masked_fill((size == 0).unsqueeze(1), 0))
    rows = _rows(grad, indices, bag, size, scale, mode, factors)
    return total.index_add(0, indices, rows.masked_fill((indices == padding_idx).unsqueeze(1), 0))


@made(
    "_embedding_bag_sparse_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor bag_size, "
    "SymInt num_weights, bool scale_grad_by_freq, int mode, Tensor? per_sample_weights, int padding_idx=-1) -> Tensor"
)
def _sparse_bags(
    grad: Any, indices: Any, offsets: Any, bag: Any, size: Any, num_weights: int, scale: bool, mode: int, factors: Any,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    rows = _rows(grad, indices, _bag_of(indices, offsets, bag), size, scale, mode, factors)
    kept = indices != padding_idx
    return FUNCTIONS["sparse_coo_tensor"](indices[kept].unsqueeze(0), rows[kept], (num_weights, grad.shape[1]))


@made(
    "_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor bag_size, "
    "Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, bool sparse, "
    "Tensor? per_sample_weights, int padding_idx=-1) -> Tensor"
)
def _bag_backward(
    grad: Any, indices: Any, offsets: Any, bag: Any, size: Any, maxima: Any, num_weights: int, scale: bool, mode: int,
    sparse: bool, factors: Any, padding_idx: int = -1,
) -> Any:  # fmt: skip
    bag, rest = _bag_of(indices, offsets, bag), (scale, mode, factors, padding_idx)
    if sparse:
        if scale:
            raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
        return _sparse_bags(grad, indices, offsets, bag, size, num_weights, *rest)
    return _bags(grad, indices, bag, size, maxima, num_weights, *rest)


@made(
    "_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor offsets, "
    "Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor",
    out="out out",
)
def _bag_factors(grad: Any, weight: Any, indices: Any, offsets: Any, bag: Any, mode: int, padding_idx: int = -1) -> Any:
    products = (grad[_bag_of(indices, offsets, bag)] * weight[indices]).sum(1)
    return products.masked_fill(indices == padding_idx, 0)


# -- batch norm -----------------------------------------------------------------------------------------

_NORMALIZED = "Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var"


def _with_reserve(input: Any, found: Any) -> tuple:
    return *found, input.new_empty(0, dtype=dtypes.uint8)


@made(
    f"_batch_norm_impl_index({_NORMALIZED}, bool training, float momentum, float eps, bool cudnn_enabled) "
    "-> (Tensor, Tensor, Tensor, Tensor, int)"
)
def _indexed(input: Any, *rest: Any) -> Any:
    return *_with_reserve(input, FUNCTIONS["native_batch_norm"](input, *rest[:-1])), 0


made(f"_batch_norm_no_update({_NORMALIZED}, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)", out=True)(
    lambda input, weight, bias, mean, var, momentum, eps: _with_reserve(
        input, FUNCTIONS["native_batch_norm"](input, weight, bias, mean, var, False, momentum, eps)
    )
)
_SAVED = "Tensor? running_mean, Tensor? running_var, Tensor? save_mean"
made(
    f"batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, {_SAVED}, Tensor? save_var, bool update, "
    "float eps, bool[3] output_mask, Tensor reserve) -> (Tensor, Tensor, Tensor)"
)(lambda grad_out, *rest: _aten.native_batch_norm_backward.default(grad_out, *rest[:-1]))
made(
    f"_batch_norm_impl_index_backward(int impl_index, Tensor input, Tensor grad_output, Tensor? weight, {_SAVED}, "
    "Tensor? save_var_transform, bool train, float eps, bool[3] output_mask, Tensor reservedSpace) "
    "-> (Tensor, Tensor, Tensor)"
)(
    lambda impl_index, input, grad_output, *rest: _aten.native_batch_norm_backward.default(
        grad_output, input, *rest[:-1]
    )
)

# -- histograms -----------------------------------------------------------------------------------------

_COUNTED = "float[]? range=None, Tensor? weight=None, bool density=False"


def _histogram(part: int) -> Callable:
    def run(self: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
        return FUNCTIONS["histogramdd"](self, list(bins), range=range, weight=weight, density=density)[part]

    return run


made(f"_histogramdd_from_bin_cts(Tensor self, int[] bins, *, {_COUNTED}) -> Tensor", out=True)(_histogram(0))
made("_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor",
     out=True)(_histogram(0))  # fmt: skip
made(f"_histogramdd_bin_edges(Tensor self, int[] bins, *, {_COUNTED}) -> Tensor[]", out=True)(
    lambda self, bins, **rest: list(_histogram(1)(self, bins, **rest))
)

# -- products and attention -----------------------------------------------------------------------------


@made(
    "_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, "
    "int unroll_dim=1) -> Tensor",
    out=True,
)
def _trilinear(
    i1: Any, i2: Any, i3: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1
) -> Any:
    for x, added in ((0, expand1), (1, expand2), (2, expand3)):
        given = (i1, i2, i3)[x]
        for dim in sorted(added):
            given = given.unsqueeze(dim)
        i1, i2, i3 = [given if i == x else old for i, old in enumerate((i1, i2, i3))]
    product = i1 * i2 * i3
    return product.sum(list(sumdim)) if sumdim else product


made("_compute_linear_combination(Tensor input, Tensor coefficients) -> Tensor")(
    lambda input, coefficients: FUNCTIONS["tensordot"](coefficients, input, 1)
)


@made("_transform_bias_rescale_qkv(Tensor qkv, Tensor qkv_bias, int num_heads) -> (Tensor, Tensor, Tensor)", out=True)
def _heads(qkv: Any, qkv_bias: Any, num_heads: int) -> Any:
    batch, length, width = qkv.shape
    parts = (qkv + qkv_bias).reshape(batch, length, 3, num_heads, width // 3 // num_heads).permute(2, 0, 3, 1, 4)
    query, key, value = (p.contiguous() for p in parts.unbind(0))
    return query / math.sqrt(query.shape[-1]), key, value


def _demand_projections(
    query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any, qkv_bias: Any
) -> None:
    width = query.shape[-1]
    wrong = None
    if query.dim() != 3:
        wrong = f"expected 3-D `query`, got {query.dim()}-D tensor"
    elif width != embed_dim:
        wrong = f"passed-in embed_dim {embed_dim} didn't match last dim of query {width}"
    elif not query.shape == key.shape == value.shape:
        wrong = "expected `query`/`key`/`value` shapes to match"
    elif qkv_weight.dim() != 2:
        wrong = f"expected 2-D `qkv_weight`, got {qkv_weight.dim()}-D tensor"
    elif qkv_weight.shape[0] != 3 * width:
        wrong = "expected `qkv_weight` first dim to be 3x embed_dim"
    elif qkv_weight.shape[1] != width:
        wrong = "expected `qkv_weight` second dim to be embed_Dim"
    elif qkv_bias.dim() != 1:
        wrong = f"expected 1-D `qkv_bias`, got {qkv_bias.dim()}-D tensor"
    elif qkv_bias.shape[0] != 3 * width:
        wrong = "expected `qkv_bias` first dim and first dim of query to be equal"
    elif width % num_head:
        wrong = "`embed_dim` must divide evenly by `num_heads`"
    if wrong:
        raise RuntimeError(f"_native_multi_head_attention(): {wrong}")


@made(
    "_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, "
    "Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, "
    "bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)",
    out=True,
)
def _attention(
    query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any, qkv_bias: Any,
    proj_weight: Any, proj_bias: Any, mask: Any = None, need_weights: bool = True, average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    _demand_projections(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias)
    if mask is not None and mask_type is None:
        raise RuntimeError("_native_multi_head_attention(): Mask Type should be defined")
    if mask_type not in (None, 0, 1, 2):
        raise RuntimeError(
            "_native_multi_head_attention(): Mask Type should be 0 (src_mask) or 1 (src_key_padding_mask), or 2 "
            f"(default_mask), but got {mask_type}"
        )
    kind = query.device.type.replace("meta", "cuda")
    with nullcontext() if kind == "cpu" else autocast(kind, enabled=False):  # the class of the whole is the CPU's alone
        return _attended(
            (query, key, value), num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type,
            need_weights, average_attn_weights,
        )  # fmt: skip


def _attended(
    given: tuple, num_head: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any, mask: Any,
    mask_type: int | None, need_weights: bool, average: bool,
) -> Any:  # fmt: skip
    inputs = zip(given, qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (functional.linear(*given).unflatten(-1, (num_head, -1)).transpose(1, 2) for given in inputs)
    scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        weights = FUNCTIONS["_masked_softmax"](scores, mask.bool(), 3, mask_type)
    out = functional.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return out, None
    return out, weights.mean(1) if average else weights


# -- convolutions, samples, activations -----------------------------------------------------------------

_SLOW = "Tensor self, Tensor weight, SymInt[2] kernel_size"
made(
    f"_slow_conv2d_forward({_SLOW}, Tensor? bias, SymInt[2] stride, SymInt[2] padding) -> Tensor", out="output output"
)(
    lambda self, weight, kernel_size, bias, stride, padding: functional.conv2d(
        self, weight, bias, tuple(stride), tuple(padding)
    )
)


@made(
    f"_slow_conv2d_backward.output_mask(Tensor grad_output, {_SLOW}, SymInt[2] stride, SymInt[2] padding, "
    "bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
    out="output_mask_out out0 out1 out2",
)
def _slow_backward(
    grad_output: Any, self: Any, weight: Any, kernel_size: Any, stride: Any, padding: Any, output_mask: Any
) -> Any:
    bias = self.new_zeros(weight.shape[0])

    def run(x: Any, w: Any, b: Any) -> Any:
        return functional.conv2d(x, w, b, tuple(stride), tuple(padding))

    return tuple(pulled(run, grad_output, self, weight, bias, wanted=output_mask))


def _transposed(n: int) -> None:
    ones, zeros = f"[{', '.join('1' * n)}]", f"[{', '.join('0' * n)}]"

    @made(
        f"slow_conv_transpose{n}d(Tensor self, Tensor weight, SymInt[{n}] kernel_size, Tensor? bias=None, "
        f"SymInt[{n}] stride={ones}, SymInt[{n}] padding={zeros}, SymInt[{n}] output_padding={zeros}, "
        f"SymInt[{n}] dilation={ones}) -> Tensor",
        out=True,
    )
    def run(self: Any, weight: Any, kernel_size: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
            output_padding: Any = 0, dilation: Any = 1) -> Any:  # fmt: skip
        convolve: Any = functional.conv_transpose2d if n == 2 else functional.conv_transpose3d
        given = [tuple(x) if isinstance(x, list) else x for x in (stride, padding, output_padding, dilation)]
        return convolve(self, weight, bias, *given[:3], 1, given[3])


def _antialiased(mode: str) -> None:
    name, factors = f"_upsample_{mode}2d_aa", "float? scales_h=None, float? scales_w=None"

    @made(
        f"{name}_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, "
        f"{factors}) -> Tensor",
        out="grad_input grad_input",
    )
    def backward(grad_output: Any, output_size: Any, input_size: Any, align_corners: bool, *scales: Any) -> Any:
        def run(x: Any) -> Any:
            return getattr(_aten, name).default(x, list(output_size), align_corners, *scales)

        return pulled(run, grad_output, grad_output.new_zeros(input_size))[0]


for _n in (2, 3):
    _transposed(_n)
for _mode in ("bilinear", "bicubic", "lanczos"):
    _antialiased(_mode)
made("_grid_sampler_2d_cpu_fallback_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, "
     "int padding_mode, bool align_corners) -> (Tensor, Tensor)")(
    lambda *args: _aten.grid_sampler_2d_backward.default(*args, [True, True])
)  # fmt: skip


@made("glu_backward_jvp(Tensor grad_x, Tensor grad_glu, Tensor x, Tensor dgrad_glu, Tensor dx, int dim) -> Tensor",
      out="out out")  # fmt: skip
def _glu_backward_jvp(grad_x: Any, grad_glu: Any, x: Any, dgrad_glu: Any, dx: Any, dim: int) -> Any:
    (a, b), (da, db) = x.chunk(2, dim), dx.chunk(2, dim)
    gate = b.sigmoid()
    slope = gate * (1 - gate)
    first = dgrad_glu * gate + grad_glu * slope * db
    second = (dgrad_glu * a + grad_glu * (da + a * (1 - 2 * gate) * db)) * slope
    return FUNCTIONS["cat"]([first, second], dim)


@made("multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor is_target)",
      out="output output is_target")  # fmt: skip
def _multilabel(self: Any, target: Any, reduction: int) -> Any:
    loss = functional.multilabel_margin_loss(self, target, reduction=("none", "mean", "sum")[reduction])
    before = (target >= 0).cumprod(-1).bool()  # the labels end at the first that is negative
    counts = self.new_zeros(self.shape).scatter_add(-1, target.clamp(min=0), before.to(self.dtype))
    return loss, (counts > 0).to(self.dtype)


# -- what writes, copies and shapes ---------------------------------------------------------------------


def _along(name: str) -> None:
    @made(f"_{name}_helper(Tensor self, Tensor(a!) values, Tensor(b!) indices, int dim) -> ()")
    def run(self: Any, values: Any, indices: Any, dim: int) -> None:
        found = FUNCTIONS[name](self, dim)
        values.copy_(found[0])
        indices.copy_(found[1])


_along("cummax")
_along("cummin")
made("_lazy_clone(Tensor self) -> Tensor")(lambda self: self.clone())
made("_reshape_copy(Tensor self, SymInt[] size) -> Tensor")(
    lambda self, size: self.reshape(list(size)).clone(memory_format=contiguous_format)
)
made("_reshape_from_tensor(Tensor self, Tensor shape) -> Tensor")(lambda self, shape: self.reshape(shape.tolist()))
made("resize(Tensor self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor", out=True)(
    lambda self, size, *, memory_format=None: self.clone().resize_(
        list(size), **({} if memory_format is None else {"memory_format": memory_format})
    )
)

# -- sparse tensors -------------------------------------------------------------------------------------

made("_coalesced(Tensor self, bool coalesced) -> Tensor", out=True)(
    lambda self, coalesced: self.clone()._coalesced_(coalesced)
)
made("copy_sparse_to_sparse_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)")(
    lambda self, src, non_blocking=False: self.copy_(src)
)
made("resize_as_sparse(Tensor self, Tensor the_template) -> Tensor")(
    lambda self, the_template: self.clone().resize_as_sparse_(the_template)
)
made("_spdiags(Tensor diagonals, Tensor offsets, int[] shape, Layout? layout=None) -> Tensor", out=True)(
    lambda diagonals, offsets, shape, layout=None: sparse.spdiags(diagonals, offsets, tuple(shape), layout)
)


@made("_gather_sparse_backward(Tensor self, int dim, Tensor index, Tensor grad) -> Tensor")
def _gathered(self: Any, dim: int, index: Any, grad: Any) -> Any:
    places = [
        FUNCTIONS["arange"](n, device=index.device).reshape([-1 if i == d else 1 for i in range(index.ndim)])
        for d, n in enumerate(index.shape)
    ]
    places[dim] = index
    at = FUNCTIONS["stack"]([p.expand(index.shape).reshape(-1) for p in places])
    return FUNCTIONS["sparse_coo_tensor"](at, grad.reshape(-1), tuple(self.shape))


@made("_validate_sparse_coo_tensor_args(Tensor indices, Tensor values, int[] size, bool? is_coalesced=None, "
      "bool? check_pinning=None) -> ()")  # fmt: skip
def _validate(indices: Any, values: Any, size: Any, is_coalesced: Any = None, check_pinning: Any = None) -> None:
    FUNCTIONS["sparse_coo_tensor"](indices, values, tuple(size), is_coalesced=is_coalesced, check_invariants=True)
