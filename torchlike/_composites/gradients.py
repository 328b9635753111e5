"""PyTorch's backward operators that no declaration names: the gradients of the public function, by the tape."""

import math
from collections.abc import Callable
from typing import Any

from torchlike._base.state import enable_grad, state
from torchlike._composites._register import made, mapped
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike.autograd import grad as gradients
from torchlike.nn import functional

_GRAD = "Tensor grad_output, Tensor self"
_REDUCTIONS = ("none", "mean", "sum")


def pulled(function: Callable, grad: Any, *inputs: Any, wanted: Any = None) -> list:
    """The gradients of ``function(*inputs)`` of the inputs that are ``wanted`` (all), None for the others.

    They are differentiable where autograd records.
    """
    again = state.grad
    wanted = [True] * len(inputs) if wanted is None else list(wanted)
    with enable_grad():
        given = [
            x if x is None or x.requires_grad and again else x.detach().requires_grad_(yes)
            for x, yes in zip(inputs, wanted, strict=True)
        ]
        chosen = [x for x, yes in zip(given, wanted, strict=True) if yes]
        recorded = bool(again) and any(x.requires_grad for x in (*inputs, grad) if x is not None)
        found = gradients(function(*given), chosen, grad, create_graph=recorded, allow_unused=True)
    found = iter([x.new_zeros(x.shape) if g is None else g for g, x in zip(found, chosen, strict=True)])
    return [next(found) if yes else None for yes in wanted]


def _averaged(name: str) -> Callable:
    pool = getattr(functional, name.removeprefix("_").removesuffix("_backward"))

    def backward(grad_output: Any, self: Any) -> Any:
        size = tuple(grad_output.shape[-2:] if "2d" in name else grad_output.shape[-3:])
        return pulled(lambda x: pool(x, size), grad_output, self)[0]

    return backward


mapped("_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward", f"@({_GRAD}) -> Tensor", _averaged, out="out out")
made(
    "adaptive_avg_pool3d_backward.grad_input(Tensor grad_output, Tensor self, *, Tensor(a!) grad_input) -> Tensor(a!)"
)(
    lambda grad_output, self, *, grad_input: _put(
        grad_input, _averaged("adaptive_avg_pool3d_backward")(grad_output, self)
    )
)


def _put(out: Any, value: Any) -> Any:
    if out.shape != value.shape:
        out.resize_(value.shape)
    return out.copy_(value)


def _at_places(dims: int) -> Callable:
    """The gradient of what was taken at flat places of the last dimensions."""

    def backward(grad_output: Any, self: Any, *rest: Any) -> Any:
        indices, lead = rest[-1], tuple(self.shape[:-dims])
        flat = grad_output.new_zeros((*lead, math.prod(self.shape[-dims:])))
        rows = (*lead, math.prod(indices.shape[-dims:]))
        return flat.scatter_add(-1, indices.reshape(rows), grad_output.reshape(rows)).reshape(self.shape)

    return backward


for _n in (2, 3):
    _text = f"adaptive_max_pool{_n}d_backward({_GRAD}, Tensor indices) -> Tensor"
    made(_text, out=True)(_at_places(_n))
    _text = f"fractional_max_pool{_n}d_backward({_GRAD}, int[{_n}] kernel_size, int[{_n}] output_size, Tensor indices)"
    made(f"{_text} -> Tensor", out=True)(_at_places(_n))


def _of_loss(function: Callable) -> Callable:
    def backward(grad_output: Any, self: Any, target: Any, *rest: Any) -> Any:
        *given, reduction = rest
        return pulled(lambda x: function(x, target, *given, _REDUCTIONS[reduction]), grad_output, self)[0]

    return backward


made(f"soft_margin_loss_backward({_GRAD}, Tensor target, int reduction) -> Tensor", out=True)(
    _of_loss(lambda x, target, reduction: functional.soft_margin_loss(x, target, reduction=reduction))
)
made(f"multilabel_margin_loss_backward({_GRAD}, Tensor target, int reduction, Tensor is_target) -> Tensor", out=True)(
    lambda grad_output, self, target, reduction, is_target: _of_loss(
        lambda x, t, r: functional.multilabel_margin_loss(x, t, reduction=r)
    )(grad_output, self, target, reduction)
)


@made(
    f"multi_margin_loss_backward({_GRAD}, Tensor target, Scalar p, Scalar margin, Tensor? weight=None, "
    "int reduction=1) -> Tensor",
    out=True,
)
def _multi_margin(
    grad_output: Any, self: Any, target: Any, p: Any, margin: Any, weight: Any = None, reduction: int = 1
) -> Any:
    run = functional.multi_margin_loss
    kind = _REDUCTIONS[reduction]
    return pulled(lambda x: run(x, target, p, margin, weight, reduction=kind), grad_output, self)[0]


@made(f"logit_backward({_GRAD}, float? eps=None) -> Tensor", out=True)
def _logit(grad_output: Any, self: Any, eps: float | None = None) -> Any:
    return pulled(lambda x: FUNCTIONS["logit"](x, eps), grad_output, self)[0]


@made(f"log_sigmoid_backward({_GRAD}, Tensor buffer) -> Tensor", out=True)
def _log_sigmoid(grad_output: Any, self: Any, buffer: Any) -> Any:
    return pulled(functional.logsigmoid, grad_output, self)[0]


made("matrix_exp_backward(Tensor self, Tensor grad) -> Tensor")(
    lambda self, grad: pulled(FUNCTIONS["matrix_exp"], grad, self)[0]
)
made("infinitely_differentiable_gelu_backward(Tensor grad, Tensor self) -> Tensor")(
    lambda grad, self: pulled(functional.gelu, grad, self)[0]
)
made("cumprod_backward(Tensor grad, Tensor input, int dim, Tensor output) -> Tensor")(
    lambda grad, input, dim, output: pulled(lambda x: x.cumprod(dim), grad, input)[0]
)
made("masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor")(
    lambda grad, input, mask: pulled(lambda x: x.masked_select(mask), grad, input)[0]
)
made("gather_backward(Tensor grad, Tensor self, int dim, Tensor index, bool sparse_grad) -> Tensor")(
    lambda grad, self, dim, index, sparse_grad: pulled(
        lambda x: x.gather(dim, index, sparse_grad=sparse_grad), grad, self
    )[0]
)
made("cummaxmin_backward(Tensor grad, Tensor input, Tensor indices, int dim) -> Tensor")(
    lambda grad, input, indices, dim: grad.new_zeros(input.shape).scatter_add(dim, indices, grad)
    if input.ndim and input.numel() else grad.clone()
)  # fmt: skip
made("trace_backward(Tensor grad, SymInt[] sizes) -> Tensor")(
    lambda grad, sizes: pulled(FUNCTIONS["trace"], grad, grad.new_zeros(sizes))[0]
)
made("index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor")(
    lambda grad, self_sizes, dim, index: grad.new_zeros(self_sizes).index_add(dim, index, grad)
)
made("affine_grid_generator_backward(Tensor grad, SymInt[] size, bool align_corners) -> Tensor")(
    lambda grad, size, align_corners: pulled(
        lambda theta: functional.affine_grid(theta, list(size), align_corners),
        grad, grad.new_zeros((size[0], len(size) - 2, len(size) - 1)),
    )[0]
)  # fmt: skip
made("_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor", out="out out")(
    lambda grad, x1, x2, p, cdist: pulled(lambda x: FUNCTIONS["cdist"](x, x2, p), grad, x1)[0]
)
made("_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor", out="out out")(
    lambda grad, self, p, pdist: pulled(lambda x: functional.pdist(x, p), grad, self)[0]
)


@made(
    "value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool keepdim) -> Tensor"
)
def _selecting(grad: Any, dim: int, indices: Any, sizes: Any, keepdim: bool) -> Any:
    if sizes and not keepdim:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return grad.new_zeros(sizes).scatter(dim, indices, grad)


@made("masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor")
def _masked_scatter(grad_output: Any, mask: Any, sizes: Any) -> Any:
    found, n = grad_output.masked_select(mask), math.prod(sizes)
    return functional.pad(found, (0, max(n - found.numel(), 0))).reshape(list(sizes))


def _grid(n: int) -> None:
    @made(
        f"grid_sampler_{n}d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, "
        "int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)",
        out="out out0 out1",
    )
    def backward(
        grad_output: Any, input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool,
        output_mask: Any,
    ) -> Any:  # fmt: skip
        run, rest = FUNCTIONS["grid_sampler"], (interpolation_mode, padding_mode, align_corners)
        wanted = [output_mask[0], True]
        return tuple(pulled(lambda x, g: run(x, g, *rest), grad_output, input, grid, wanted=wanted))


_grid(2)
_grid(3)


@made("_prelu_kernel(Tensor self, Tensor weight) -> Tensor")
def _prelu(self: Any, weight: Any) -> Any:
    return self.where(self > 0, weight * self)


made("_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)")(
    lambda grad_output, self, weight: tuple(pulled(_prelu, grad_output, self, weight.expand(self.shape)))
)
made("conv_tbc_backward(Tensor self, Tensor input, Tensor weight, Tensor bias, int pad) -> (Tensor, Tensor, Tensor)")(
    lambda self, input, weight, bias, pad: tuple(
        pulled(lambda x, w, b: FUNCTIONS["conv_tbc"](x, w, b, pad), self, input, weight, bias)
    )
)
for _name, _out in (("differentiable", False), ("interface", "out out0 out1")):
    made(
        f"_weight_norm_{_name}_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor saved_norms, int dim) "
        "-> (Tensor, Tensor)",
        out=_out,
    )(
        lambda grad_w, saved_v, saved_g, saved_norms, dim: tuple(
            pulled(lambda v, g: FUNCTIONS["_weight_norm"](v, g, dim), grad_w, saved_v, saved_g)
        )
    )


@made(
    "_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, Tensor? lengths=None, "
    "Tensor? offsets=None, int axis=0, Scalar? initial=None) -> Tensor",
    out="out out",
)
def _segments(grad: Any, output: Any, data: Any, reduce: str, **rest: Any) -> Any:
    return pulled(lambda x: FUNCTIONS["segment_reduce"](x, reduce, **rest), grad, data)[0]


@made("embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt padding_idx, "
      "bool scale_grad_by_freq, bool sparse) -> Tensor")  # fmt: skip
def _embedding(grad: Any, indices: Any, num_weights: int, padding_idx: int, scale: bool, sparse: bool) -> Any:
    weight = grad.new_zeros(num_weights, grad.shape[-1])
    return pulled(lambda w: FUNCTIONS["embedding"](w, indices, padding_idx, scale, sparse), grad, weight)[0]


made("embedding_sparse_backward(Tensor grad, Tensor indices, int num_weights, int padding_idx, "
     "bool scale_grad_by_freq) -> Tensor")(
    lambda grad, indices, num_weights, padding_idx, scale: _embedding(
        grad, indices, num_weights, padding_idx, scale, True
    )
)  # fmt: skip


@made("glu_jvp(Tensor glu, Tensor x, Tensor dx, int dim) -> Tensor", out=True)
def _glu_jvp(glu: Any, x: Any, dx: Any, dim: int) -> Any:
    (_, gate), (first, second) = x.chunk(2, dim), dx.chunk(2, dim)
    gate = gate.sigmoid()
    return first * gate + second * (1 - gate) * glu


@made(
    "rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, "
    "bool training, bool self_is_result) -> Tensor",
    out="out out",
)
def _rrelu(
    grad_output: Any, self: Any, noise: Any, lower: float, upper: float, training: bool, self_is_result: bool
) -> Any:
    if training and upper - lower > 1e-6:
        return grad_output * noise
    return grad_output.where(self > 0, grad_output * ((lower + upper) / 2))


__all__ = ["pulled"]
