"""PyTorch's fused operators by their own names: steps of optimizers, integer products, attention with its weights."""

import math

import torchlike._base.dtypes as dtypes
from torchlike._base.state import state
from torchlike._core.conversion.convert import item
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS as _F
from torchlike._functions.bags import embedding_bag
from torchlike._functions.native import native
from torchlike._functions.rearrange import pad as padded

# -- products ------------------------------------------------------------------------------------


@native("_int_mm(Tensor self, Tensor mat2) -> Tensor", out=True)
def _int_mm(input, mat2):
    """The product of a matrix of int8 or uint8 and one of int8, as int32."""
    for name, x, kinds in (("self", input, (dtypes.int8, dtypes.uint8)), ("mat2", mat2, (dtypes.int8,))):
        if x.dim() != 2:
            raise RuntimeError(f"_int_mm: Expected {name} to be of dimension 2 but got {x.dim()}")
        if x.dtype not in kinds:
            raise RuntimeError(f"_int_mm: Expected {name} dtype to be one of {kinds} but got {x.dtype}")
    if input.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"self.size(1) needs to match mat2.size(0) but got {input.shape[1]} and {mat2.shape[0]} (_int_mm)"
        )
    return input.to(dtypes.int32) @ mat2.to(dtypes.int32)


@native(
    "_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
    "dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) "
    "-> (Tensor, Tensor)",
    alone=True,
)
def _scaled_dot_product_attention_math(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    dropout_mask=None,
    *,
    scale=None,
    enable_gqa=False,
):
    """(attention, its weights); see ``torch.nn.functional.scaled_dot_product_attention``. A mask is added."""
    if dropout_mask is not None:
        raise NotImplementedError("_scaled_dot_product_attention_math: dropout_mask is not supported; give dropout_p")
    if is_causal and attn_mask is not None:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    factor = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    scores = (query * factor) @ (key * factor).transpose(-2, -1)
    if is_causal:
        attn_mask = _F["full"](scores.shape[-2:], -math.inf, dtype=query.dtype, device=query.device).triu(1)
    if attn_mask is not None:
        scores = scores + attn_mask
    weights = _safe_softmax(scores)
    weights = _F["dropout"](weights, dropout_p, True) if dropout_p else weights
    return weights @ value, weights


def _safe_softmax(scores):
    """The softmax of the last dimension, 0 where all is hidden."""
    return scores.softmax(-1).masked_fill((scores == -math.inf).all(-1, keepdim=True), 0.0)


# -- bags ----------------------------------------------------------------------------------------

_OF_BAGS = (
    "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
    "Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) "
    "-> (Tensor, Tensor, Tensor, Tensor)"
)


@native("_embedding_bag" + _OF_BAGS)
def _embedding_bag(
    weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
    include_last_offset=False, padding_idx=-1,
):  # fmt: skip
    """``torch.embedding_bag``, with -1 for no padding."""
    padding = None if padding_idx < 0 else padding_idx
    return embedding_bag(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding
    )


@native("_embedding_bag_forward_only" + _OF_BAGS)
def _embedding_bag_forward_only(weight, indices, offsets, *args, **kwargs):
    """``torch._embedding_bag`` without a derivative."""
    return _embedding_bag(weight.detach(), indices, offsets, *args, **kwargs)


# -- steps of optimizers: the tensors of lists are written ------------------------------------------

_SCALED = "Tensor? grad_scale=None, Tensor? found_inf=None) -> ()"


def _of_adam(name):
    lists = (
        "Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] "
        "max_exp_avg_sqs, Tensor[] state_steps"
    )
    rest = "float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, " + _SCALED
    return [f"{name}({lists}, *, float lr, {rest}", f"{name}.tensor_lr({lists}, *, Tensor lr, {rest}"]


def _fused(texts):
    """Register a step that is skipped where gradients are infinite, and recorded nowhere."""

    def register(step):
        def fused(self, grads, *states, grad_scale=None, found_inf=None, maximize, **options):
            if found_inf is not None and item(found_inf):
                return
            recording, state.grad = state.grad, False
            try:
                for values in zip(self, grads, *[s or [None] * len(self) for s in states], strict=True):
                    p, grad, *kept = values
                    if grad_scale is not None:
                        grad.div_(grad_scale)
                    step(p, -grad if maximize else grad, *kept, **options)
            finally:
                state.grad = recording

        fused.__name__ = fused.__qualname__ = texts[0].partition("(")[0]
        fused.__doc__ = step.__doc__
        for text in reversed(texts):
            native(text)(fused)
        return step

    return register


def _number(x):
    return item(x) if isinstance(x, Tensor) else x


def _adam(decoupled):
    def adam(p, grad, average, square, largest, count, *, lr, beta1, beta2, weight_decay, eps, amsgrad):
        """A step of Adam for each tensor of the lists, whose counts are those of this step."""
        lr, n = _number(lr), _number(count)
        if weight_decay and decoupled:
            p.mul_(1 - lr * weight_decay)
        elif weight_decay:
            grad = grad.add(p, alpha=weight_decay)
        average.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if amsgrad:
            largest.copy_(largest.maximum(square))
        spread = (largest if amsgrad else square).sqrt() / math.sqrt(1 - beta2**n) + eps
        p.addcdiv_(average, spread, value=-lr / (1 - beta1**n))

    return adam


_fused(_of_adam("_fused_adam_"))(_adam(False))
_fused(_of_adam("_fused_adamw_"))(_adam(True))


def _of_sgd(lr):
    return (
        "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float weight_decay, float "
        f"momentum, {lr} lr, float dampening, bool nesterov, bool maximize, bool is_first_step, " + _SCALED
    )


@_fused(["_fused_sgd_" + _of_sgd("float"), "_fused_sgd_.tensor_lr" + _of_sgd("Tensor")])
def _sgd(p, grad, buffer, *, weight_decay, momentum, lr, dampening, nesterov, is_first_step):
    """A step of SGD for each tensor of the lists."""
    if weight_decay:
        grad = grad.add(p, alpha=weight_decay)
    if momentum:
        if is_first_step:
            buffer.copy_(grad)
        else:
            buffer.mul_(momentum).add_(grad, alpha=1 - dampening)
        grad = grad.add(buffer, alpha=momentum) if nesterov else buffer
    p.add_(grad, alpha=-_number(lr))


def _of_adagrad(counts, lr):
    return (
        f"(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, {counts}[] state_steps, *, {lr} lr, float "
        "lr_decay, float weight_decay, float eps, bool maximize, " + _SCALED
    )


@_fused(
    [
        "_fused_adagrad_" + _of_adagrad("Tensor(d!)", "float"),
        "_fused_adagrad_.tensor_lr" + _of_adagrad("Tensor", "Tensor"),
    ]
)
def _adagrad(p, grad, total, count, *, lr, lr_decay, weight_decay, eps):
    """A step of Adagrad for each tensor of the lists, whose counts are those of this step."""
    if weight_decay:
        grad = grad.add(p, alpha=weight_decay)
    total.addcmul_(grad, grad)
    rate = _number(lr) / (1 + (_number(count) - 1) * lr_decay)
    p.addcdiv_(grad, total.sqrt() + eps, value=-rate)


# -- others --------------------------------------------------------------------------------------


@native("_pad_enum(Tensor self, SymInt[] pad, int mode, float? value=None) -> Tensor", public=False, alone=True)
def _pad_enum(input, pad, mode, value=None):
    """``torch.nn.functional.pad`` with a number for its mode."""
    names = ("reflect", "replicate", "circular", "constant")
    if not 0 <= mode < len(names):
        raise RuntimeError(f"Unrecognised padding mode {mode}")
    return padded(input, pad, names[mode], value)


@native(
    "_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, SymInt[] dilation, "
    "SymInt groups) -> Tensor",
    alone=True,
)
def _convolution_mode(input, weight, bias, stride, padding, dilation, groups):
    """A convolution with padding "same" or "valid"."""
    return _F[f"conv{weight.dim() - 2}d"](input, weight, bias, stride, padding, dilation, groups)


@native(
    "_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? "
    "device=None, Layout? layout=None) -> ()"
)
def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    """RuntimeError unless the tensor has what is given."""
    if size is not None and tuple(a.shape) != tuple(size):
        raise RuntimeError(f"Tensor sizes mismatch! Expected: {list(size)}, Got: {list(a.shape)}")
    for what, wanted, got in (
        ("strides", None if stride is None else list(stride), list(a.stride()) if stride is not None else None),
        ("dtype", dtype, a.dtype), ("device", device, a.device), ("layout", layout, a.layout),
    ):  # fmt: skip
        if wanted is not None and str(wanted) != str(got):
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {wanted}, Got: {got}")
