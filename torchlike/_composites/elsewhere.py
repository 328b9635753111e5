"""Overloads that graphs made elsewhere hold: on GPUs, by decompositions, by quantization, by functional optimizers."""

from typing import Any

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._aten.outs import writing
from torchlike._aten.packets import ops
from torchlike._composites._register import made
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import Tensor
from torchlike._core.tensor.zero_tensor import marked
from torchlike._decl.function_schema import parse_schema
from torchlike._functions.fake_quantization import as_number
from torchlike._ops import fake_quantization
from torchlike.linalg import LinAlgError
from torchlike.nn import functional

_aten = ops.aten
_new = FUNCTIONS

# -- outputs ---------------------------------------------------------------------------------------------


def _with_outputs(text: str) -> None:
    """The overload ``text`` that writes what the default one of its name computes."""
    name = text[: text.index(".")]
    outs = tuple([a.name for a in parse_schema(f"aten::{text}").arguments if a.is_out])
    made(text)(writing(name, lambda *args, **kwargs: getattr(_aten, name).default(*args, **kwargs), outs, False, False))


_with_outputs("_unsafe_view.out(Tensor self, SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)")
_with_outputs(
    "log_sigmoid_forward.output(Tensor self, *, Tensor(a!) output, Tensor(b!) buffer) -> (Tensor(a!), Tensor(b!))"
)
_with_outputs(
    "nll_loss2d.out(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, *, "
    "Tensor(a!) out) -> Tensor(a!)"
)
_with_outputs(
    "_weight_norm_interface.out(Tensor v, Tensor g, int dim=0, *, Tensor(a!) out0, Tensor(b!) out1) "
    "-> (Tensor(a!), Tensor(b!))"
)

# -- checks, views and zeros -----------------------------------------------------------------------------


@made("_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()")
def _check_errors(info: Tensor, api_name: str, *, is_matrix: bool) -> None:
    bad = info.reshape(-1).nonzero().reshape(-1)
    if bad.numel():
        at = int(bad[0])
        where = "" if is_matrix else f"(Batch element {at}): "
        raise LinAlgError(f"{api_name}: {where}the algorithm failed, as info = {int(info.reshape(-1)[at])} says")


made("_efficientzerotensor(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None) -> Tensor")(
    lambda size, *, dtype=None, layout=None, device=None, pin_memory=None: marked(
        _new["zeros"](size, dtype=dtype, device=device)
    )
)  # fmt: skip
made("_to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None) -> Tensor")(
    lambda self, **options: self.to_sparse(**{k: v for k, v in options.items() if v is not None})
)
made("_to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor")(lambda self, dim: self.to_sparse(dim))
made("_reshape_alias_copy(Tensor self, SymInt[] size, SymInt[] stride) -> Tensor", out=True)(
    lambda self, size, stride: self.as_strided(size, stride).clone()
)

# -- derivatives and products ----------------------------------------------------------------------------


@made("_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, "
      "bool[2] output_mask) -> (Tensor, Tensor)")  # fmt: skip
def _rms_norm_backward(
    grad: Tensor, input: Tensor, shape: list[int], rstd: Tensor, weight: Tensor | None, mask: list[bool]
) -> tuple[Tensor | None, Tensor | None]:
    dims = tuple(range(-len(shape), 0))
    normal = input * rstd
    slope = grad if weight is None else grad * weight
    of_input = rstd * (slope - normal * (slope * normal).mean(dims, keepdim=True)) if mask[0] else None
    outer = tuple(range(input.ndim - len(shape)))
    of_weight = (grad * normal).sum(outer) if outer else grad * normal
    return of_input, of_weight if mask[1] and weight is not None else None


@made(
    "_pack_padded_sequence_backward(Tensor grad, SymInt[] input_size, Tensor batch_sizes, bool batch_first) -> Tensor"
)
def _pack_backward(grad: Tensor, input_size: list[int], batch_sizes: Tensor, batch_first: bool) -> Tensor:
    length, width = input_size[:2][:: -1 if batch_first else 1]
    rows, at = [], 0
    for n in batch_sizes.tolist():
        rows.append(functional.pad(grad[at : at + n], (0, 0) * (grad.ndim - 1) + (0, width - n)))
        at += n
    missing = [grad.new_zeros([width, *input_size[2:]])] * (length - len(rows))
    whole = _new["stack"](rows + missing)
    return whole.transpose(0, 1) if batch_first else whole


@made("_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor")
def _int8_product(self: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    if mat2.dtype is not dtypes.int8:
        raise RuntimeError(f"_weight_int8pack_mm : expect mat2 to be int8 tensor, got {mat2.dtype}")
    product = self.to(dtypes.float32) @ mat2.to(dtypes.float32).T
    return (product * scales.to(dtypes.float32)).to(self.dtype)


_RRELU = ("Tensor(b!) noise, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, "
          "Generator? generator=None")  # fmt: skip


@made(f"rrelu_with_noise(Tensor self, {_RRELU}) -> Tensor")
def _rrelu(
    self: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    generator: Any = None,
) -> Tensor:  # fmt: skip
    if generator is not None:
        raise NotImplementedError("rrelu_with_noise with a generator: it draws from the default one; seed that")
    if not training:
        return functional.leaky_relu(self, (lower + upper) / 2)
    one = _new["ones_like"](self)
    noise.copy_(functional.rrelu(_new["where"](self <= 0, -one, one), lower, upper, True).abs())
    return self * noise


made(f"rrelu_with_noise_(Tensor(a!) self, {_RRELU}) -> Tensor(a!)")(
    lambda self, noise, *rest, **named: self.copy_(_rrelu(self, noise, *rest, **named))
)


# -- attention of GPUs -----------------------------------------------------------------------------------


def _attention(name: str, q: Tensor, k: Tensor, v: Tensor, p: float, *rest: Any) -> tuple[Tensor, Tensor]:
    if p:
        raise NotImplementedError(f"{name}(dropout_p={p}): its random numbers are a GPU's; use 0 or dropout apart")
    causal, mask, scale = rest
    return _aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)


@made("_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., "
      "bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, "
      "Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, "
      "Tensor debug_attn_mask)")  # fmt: skip
def _flash(
    q: Tensor, k: Tensor, v: Tensor, p: float = 0.0, causal: bool = False, debug: bool = False, *, scale: Any = None
) -> tuple[Any, ...]:
    out, lse = _attention("_scaled_dot_product_flash_attention", q, k, v, p, causal, None, scale)
    none = q.new_empty((0,), dtype=dtypes.int64)
    return out, lse, none, none, q.shape[-2], k.shape[-2], none, none, q.new_empty((0,))


@made("_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, "
      "bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, "
      "Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)")  # fmt: skip
def _efficient(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, sums: bool, p: float = 0.0, causal: bool = False, *,
    scale: Any = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    out, lse = _attention("_scaled_dot_product_efficient_attention", q, k, v, p, causal, bias, scale)
    none = q.new_empty((), dtype=dtypes.int64)
    return out, lse if sums else lse[..., :0], none, none


# -- fake quantization -----------------------------------------------------------------------------------


@made("fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, "
      "int quant_max) -> (Tensor output, Tensor mask)", out=True)  # fmt: skip
def faked(x: Tensor, scale: Tensor | float, zero: Tensor | int, low: int, high: int) -> tuple[Tensor, Tensor]:
    """``x`` rounded, and where it is between the ends."""
    numbers = as_number(scale, np.dtype(np.float32)), as_number(zero, np.dtype(np.int32))
    within = call(fake_quantization.within, (x, *numbers), (low, high))
    return _new["fake_quantize_per_tensor_affine"](x, scale, zero, low, high), within


@made("fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, "
      "int quant_min, int quant_max) -> (Tensor output, Tensor mask)", out=True)  # fmt: skip
def _faked_channels(x: Tensor, scale: Tensor, zero: Tensor, axis: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    shown = _new["fake_quantize_per_channel_affine"](x, scale, zero, axis, low, high)
    shape = [-1 if d == axis else 1 for d in range(x.ndim)]
    return shown, call(fake_quantization.within, (x, scale.reshape(shape), zero.reshape(shape)), (low, high))


made("fake_quantize_per_tensor_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor",
     "fake_quantize_per_channel_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor")(
    lambda grad, mask: grad * mask
)  # fmt: skip

# -- optimizers that change copies -----------------------------------------------------------------------


def _functional(name: str, overload: str) -> None:
    """The optimizer ``name_`` on copies of the lists that it changes, which are returned."""
    inplace = getattr(getattr(_aten, f"{name}_"), overload)
    lists = [a.name for a in inplace._schema.arguments if a.alias_info is not None]
    text = str(inplace._schema).removeprefix("aten::").replace(f"{name}_", name, 1)
    for letter in "abcdef":
        text = text.replace(f"Tensor({letter}!)", "Tensor")
    results = ", ".join([f"Tensor[] {n}_out" for n in lists])

    def run(*args: Any, **kwargs: Any) -> tuple[list[Tensor], ...]:
        copies = [[t.clone() for t in x] for x in args[: len(lists)]]
        inplace(*copies, *args[len(lists) :], **kwargs)
        return tuple(copies)

    made(text[: text.rindex("->")] + f"-> ({results})")(run)


for _name in ("_fused_adam", "_fused_adamw", "_fused_sgd", "_fused_adagrad"):
    for _overload in ("default", "tensor_lr"):
        _functional(_name, _overload)
