"""PyTorch's own backward operators: overloads of ``torch.ops.aten`` over the derived kernels of torchlike."""

from collections.abc import Callable
from typing import Any

from torchlike._base.state import enable_grad
from torchlike._core._aten_extra import by_position
from torchlike._core._aten_source import SOURCE, Entry
from torchlike._core.backward import gradients
from torchlike._core.bind import FUNCTIONS
from torchlike._core.dispatch import call, plan_for
from torchlike._core.tensor import Tensor, alias, value_of
from torchlike._decl.op import REGISTRY


def _vjp(name: str, inputs: tuple, static: tuple, wanted: tuple, grads: tuple, outputs: tuple | None = None) -> tuple:
    """The gradients of the inputs with these indices, by the derived kernel of a declared operator."""
    op = REGISTRY[name]
    stands = [_marked(x, i in wanted) for i, x in enumerate(inputs)]
    plan = plan_for(op, stands, static, [value_of(x) if isinstance(x, Tensor) else x for x in inputs])
    if outputs is None and plan.outputs:
        out = call(op, inputs, static)
        outputs = out if isinstance(out, tuple) else (out,)
    arguments = [inputs[i] for i in plan.inputs] + [(outputs or ())[i] for i in plan.outputs]
    arguments += [grads[i] for i in plan.diff]
    got = call(plan.kernel, tuple(arguments), ()) if plan.kernel else ()
    return tuple(plan.routed(arguments, got if isinstance(got, tuple) else (got,)))


def _marked(x: Any, wanted: bool) -> Any:
    if not isinstance(x, Tensor):
        return x
    new = alias(x)
    new._rg = wanted
    return new


def _add(text: str) -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        SOURCE.add(Entry(text, lambda: function))
        return function

    return register


def _of(name: str, text: str, order: tuple[str, ...], op: str | None = None) -> None:
    """``<name>_backward`` from the kernel of ``op``: its static arguments are those named in ``order`` after self."""
    declared = REGISTRY[op or name]

    def backward(grad: Any, *args: Any, **kwargs: Any) -> Any:
        named = dict(zip(order, args, strict=False)) | kwargs
        inputs = tuple([named.get(a.name) for a in declared.dynamic])
        static = tuple([_key(named.get(a.name, a.default)) for a in declared.static])
        return _vjp(op or name, inputs, static, (0,), (grad,))[0]

    _add(f"{name}_backward({text}) -> Tensor")(backward)


def _key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_GRAD = "Tensor grad_output, Tensor self"
_of("gelu", _GRAD + ', *, str approximate="none"', ("self", "approximate"))
for _name in ("silu", "mish", "hardswish", "hardsigmoid"):
    _of(_name, _GRAD, ("self",))
_of("hardtanh", _GRAD + ", Scalar min_val, Scalar max_val", ("self", "min_val", "max_val"))
_of("softplus", _GRAD + ", Scalar beta, Scalar threshold", ("self", "beta", "threshold"))
_of("softshrink", _GRAD + ", Scalar lambd", ("self", "lambd"))
_of("hardshrink", "Tensor grad_out, Tensor self, Scalar lambd", ("self", "lambd"))
_of("glu", _GRAD + ", int dim", ("self", "dim"))
_of("mse_loss", _GRAD + ", Tensor target, int reduction", ("self", "target", "reduction"))
_of("smooth_l1_loss", _GRAD + ", Tensor target, int reduction, float beta", ("self", "target", "reduction", "beta"))
_of("huber_loss", _GRAD + ", Tensor target, int reduction, float delta", ("self", "target", "reduction", "delta"))
_of(
    "binary_cross_entropy", _GRAD + ", Tensor target, Tensor? weight=None, int reduction=1",
    ("self", "target", "weight", "reduction"),
)  # fmt: skip
for _n in (2, 3):
    _sizes = f"int[{_n}] kernel_size, int[{_n}] stride, int[{_n}] padding"
    _of(
        f"avg_pool{_n}d", f"{_GRAD}, {_sizes}, bool ceil_mode, bool count_include_pad, int? divisor_override",
        ("self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
    )  # fmt: skip
_NLL = "Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight"
for _name in ("nll_loss", "nll_loss2d"):
    _of(_name, f"{_GRAD}, {_NLL}", ("self", "target", "weight", "reduction", "ignore_index", "total_weight"))


@_add("tanh_backward(Tensor grad_output, Tensor output) -> Tensor")
def tanh_backward(grad: Any, output: Any) -> Any:
    return grad * (1 - output * output).conj()


@_add("sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor")
def sigmoid_backward(grad: Any, output: Any) -> Any:
    return grad * ((1 - output) * output).conj()


@_add("threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor")
def threshold_backward(grad: Any, self: Any, threshold: Any) -> Any:
    return FUNCTIONS["where"](self <= threshold, grad.new_zeros(()), grad)


@_add("leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor")
def leaky_relu_backward(grad: Any, self: Any, negative_slope: Any, self_is_result: bool) -> Any:
    return FUNCTIONS["where"](self > 0, grad, grad * negative_slope)


@_add(
    "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, "
    "Tensor self_or_result) -> Tensor"
)
def elu_backward(grad: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Any) -> Any:
    slope = (x + alpha * scale if is_result else (x * input_scale).exp() * alpha * scale) * input_scale
    return grad * FUNCTIONS["where"](x <= 0, slope, scale)


@_add("_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor")
def softmax_backward(grad: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    weighted = grad * output
    return (weighted - output * weighted.sum(dim, keepdim=True)).to(input_dtype)


@_add("_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor")
def log_softmax_backward(grad: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    return (grad - output.exp() * grad.sum(dim, keepdim=True)).to(input_dtype)


@_add(
    "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, "
    "bool scale_grad_by_freq) -> Tensor"
)
def embedding_backward(grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    weight = grad.new_zeros(num_weights, grad.shape[-1])
    return _vjp("embedding", (weight, indices), (padding_idx, scale_grad_by_freq, False), (0,), (grad,))[0]


@_add("select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor")
def select_backward(grad: Any, input_sizes: Any, dim: int, index: int) -> Any:
    out = grad.new_zeros(input_sizes)
    out.select(dim, index).copy_(grad)
    return out


@_add(
    "slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor"
)
def slice_backward(grad: Any, input_sizes: Any, dim: int, start: int, end: int, step: int) -> Any:
    out = grad.new_zeros(input_sizes)
    index = [slice(None)] * out.ndim
    index[dim] = slice(start, end, step)
    out[tuple(index)] = grad
    return out


def _chosen(grads: tuple, wanted: tuple, mask: list) -> tuple:
    """The gradients by place, None where the mask says that one is not wanted."""
    found = dict(zip(wanted, grads, strict=True))
    return tuple([found.get(i) for i in range(len(mask))])


@_add(
    "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, "
    "SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, "
    "bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def convolution_backward(grad: Any, input: Any, weight: Any, bias_sizes: Any, *rest: Any) -> Any:
    *static, mask = rest
    bias = grad.new_zeros(bias_sizes) if mask[2] else None
    wanted = tuple([i for i, yes in enumerate(mask) if yes])
    got = _vjp("convolution", (input, weight, bias), tuple(map(_key, static)), wanted, (grad,)) if wanted else ()
    return _chosen(got, wanted, mask)


def _normed(name: str, inputs: tuple, static: tuple, outputs: tuple, grad: Any, mask: list) -> tuple:
    wanted = tuple([i for i, yes in enumerate(mask) if yes and inputs[i] is not None])
    got = _vjp(name, inputs, static, wanted, (grad,), outputs) if wanted else ()
    return _chosen(got, wanted, mask)


@_add(
    "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, "
    "Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def layer_norm_backward(
    grad: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, mask: list
) -> Any:
    inputs, outputs = (input, weight, bias, 1e-05), (None, mean, rstd)
    return _normed("native_layer_norm", inputs, (_key(normalized_shape),), outputs, grad, mask)


@_add(
    "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
    "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) "
    "-> (Tensor, Tensor, Tensor)"
)
def batch_norm_backward(
    grad: Any, input: Any, weight: Any, mean: Any, var: Any, save_mean: Any, save_invstd: Any, train: bool, eps: float,
    mask: list,
) -> Any:  # fmt: skip
    bias = input.new_zeros(input.shape[1]) if mask[2] else None
    if train:
        inputs, outputs = (input, weight, bias, mean, var, 0.1, eps), (None, save_mean, save_invstd)
        return _normed("native_batch_norm", inputs, (False,), outputs, grad, mask)
    return _normed("_native_batch_norm_eval", (input, weight, bias, mean, var, eps), (), (), grad, mask)


@_add(
    "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, "
    "SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def group_norm_backward(
    grad: Any, input: Any, mean: Any, rstd: Any, weight: Any, n: int, c: int, hxw: int, group: int, mask: list
) -> Any:
    bias = input.new_zeros(c) if mask[2] else None
    return _normed("native_group_norm", (input, weight, bias, 1e-05), (group,), (None, mean, rstd), grad, mask)


def _view_backward(name: str, text: str) -> None:
    """``<name>_backward``: zeros of the shape of the view's base with the gradient in the view's place."""

    def backward(grad: Any, input_sizes: Any, *args: Any) -> Any:
        base = grad.new_zeros(input_sizes)
        base.requires_grad_(True)
        with enable_grad():
            view = getattr(base, name)(*args)
        return gradients((view,), (base,), grad)[0]

    _add(f"{name}_backward({text}) -> Tensor")(backward)


_view_backward("diagonal", "Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2")
_view_backward("unfold", "Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step")


def _max_pool(n: int) -> None:
    name = f"max_pool{n}d_with_indices"

    def backward(
        grad: Any, self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, indices: Any
    ) -> Any:
        static = *map(_key, (kernel_size, stride, padding, dilation)), ceil_mode
        return _vjp(name, (self,), static, (0,), (grad, None), (None, indices))[0]

    sizes = ", ".join(f"int[{n}] {a}" for a in ("kernel_size", "stride", "padding", "dilation"))
    _add(f"{name}_backward({_GRAD}, {sizes}, bool ceil_mode, Tensor indices) -> Tensor")(backward)


_max_pool(2)
_max_pool(3)


@_add(
    "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, "
    "Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) "
    "-> (Tensor grad_query, Tensor grad_key, Tensor grad_value)"
)
def flash_backward(
    grad: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, dropout_p: float, is_causal: bool, *,
    attn_mask: Any = None, scale: Any = None,
) -> Any:  # fmt: skip
    inputs = query, key, value, attn_mask, None, dropout_p, scale
    got = _vjp("_scaled_dot_product_attention", inputs, (is_causal, False), (0, 1, 2), (grad,))
    return tuple(map(by_position, got))
