"""Overloads that few call: outputs of functional ones, engines of Sobol' sequences, cells and vendors' kernels."""

from typing import Any

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._aten.outs import writing
from torchlike._aten.packets import ops
from torchlike._composites._register import made
from torchlike._core.conversion.convert import copied_array
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.function_schema import parse_schema
from torchlike.quasirandom import SobolEngine, _directions, _following, _mixed

_aten = ops.aten

# -- outputs ---------------------------------------------------------------------------------------------


def _with_outputs(text: str, overload: str, first: bool = False) -> None:
    """The overload ``text`` that writes what ``overload`` of its name gives, or the first of its results alone."""
    name = text[: text.index(".")]
    outs = tuple([a.name for a in parse_schema(f"aten::{text}").arguments if a.is_out])

    def run(*args: Any, **kwargs: Any) -> Any:
        found = getattr(getattr(_aten, name), overload)(*args, **kwargs)
        return found[0] if first else found

    made(text)(writing(name, run, outs, False, text.endswith("[] out) -> ()")))


def _functional_outputs(name: str, overload: str, out: str) -> None:
    """The output form of an operator that returns anew what it would change; only the first result is written."""
    whole = getattr(getattr(_aten, f"{name}_"), overload)._schema
    changed = [a.name for a in whole.arguments if a.alias_info is not None]
    text = str(whole).removeprefix("aten::").replace(f"{name}_", name, 1)
    head = text[: text.rindex(") ->")].replace(f"{name}.{overload}(", f"{name}(", 1)
    lists = f"Tensor(a!)[] {changed[0]}" in head
    head = head.replace(f"Tensor(a!){'[]' * lists} {changed[0]}", f"Tensor{'[]' * lists} {changed[0]}")
    star = "" if "*, " in head else "*, "
    result = "()" if lists else "Tensor(a!)"
    _with_outputs(
        f"{head.replace(f'{name}(', f'{name}.{out}(', 1)}, {star}Tensor(a!){'[]' * lists} out) -> {result}",
        overload,
        first=True,
    )


for _name in ("_fused_adam", "_fused_adamw", "_fused_sgd", "_fused_adagrad"):
    _functional_outputs(_name, "default", "out")
    _functional_outputs(_name, "tensor_lr", "tensor_lr_out")
for _name in ("_amp_foreach_non_finite_check_and_unscale", "_amp_update_scale"):
    _functional_outputs(_name, "default", "out")
_with_outputs(
    "_batch_norm_with_update.out(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) "
    "running_var, float momentum, float eps, *, Tensor(d!) out, Tensor(e!) save_mean, Tensor(f!) save_invstd, "
    "Tensor(g!) reserve) -> (Tensor(d!), Tensor(e!), Tensor(f!), Tensor(g!))",
    "default",
)
for _overload, _more in (
    ("default", ""), ("source_Tensor", ", Tensor source"), ("source_Storage", ", Storage source"),
    ("source_Storage_storage_offset", ", Storage source, SymInt storage_offset, SymInt[] size, SymInt[] stride=[]"),
):  # fmt: skip
    _out = "out" if _overload == "default" else f"{_overload}_out"
    _with_outputs(f"set.{_out}(Tensor self{_more}, *, Tensor(a!) out) -> Tensor(a!)", _overload)
_with_outputs("dequantize.tensors_out(Tensor[] tensors, *, Tensor(a!)[] out) -> ()", "tensors")

# -- geometry --------------------------------------------------------------------------------------------


@made("_new_zeros_with_same_feature_meta(Tensor self, Tensor other, *, int self_num_batch_dims=0) -> Tensor", out=True)
def _zeros(self: Tensor, other: Tensor, *, self_num_batch_dims: int = 0) -> Tensor:
    return other.new_zeros([*self.shape[:self_num_batch_dims], *other.shape])


@made("_nested_compute_contiguous_strides_offsets(Tensor nested_size) -> (Tensor, Tensor)")
def _strides(nested_size: Tensor) -> tuple[Tensor, Tensor]:
    sizes = nested_size.numpy()
    steps = np.cumprod(np.concatenate([sizes[:, 1:], np.ones_like(sizes[:, :1])], 1)[:, ::-1], 1)[:, ::-1]
    ends = np.cumsum(sizes.prod(1))
    return copied_array(steps.copy()), copied_array(np.concatenate([[0], ends[:-1]])[: len(sizes)].astype(np.int64))


@made("cudnn_is_acceptable(Tensor self) -> bool")
def _acceptable(self: Tensor) -> bool:
    return False


# -- Sobol' sequences ------------------------------------------------------------------------------------


def _points(quasi: Tensor, n: int, sobolstate: Tensor, num_generated: int) -> np.ndarray:
    return _following(sobolstate.numpy(), quasi.numpy(), n, num_generated)


@made("_sobol_engine_initialize_state_(Tensor(a!) self, int dimension) -> Tensor(a!)")
def _begun(self: Tensor, dimension: int) -> Tensor:
    return self.copy_(copied_array(_directions(dimension, SobolEngine.MAXBIT)))


@made("_sobol_engine_scramble_(Tensor(a!) self, Tensor ltm, int dimension) -> Tensor(a!)")
def _shuffled(self: Tensor, ltm: Tensor, dimension: int) -> Tensor:
    return self.copy_(copied_array(_mixed(self.numpy(), ltm.numpy())))


@made("_sobol_engine_ff_(Tensor(a!) self, int n, Tensor sobolstate, int dimension, int num_generated) -> Tensor(a!)")
def _forwarded(self: Tensor, n: int, sobolstate: Tensor, dimension: int, num_generated: int) -> Tensor:
    return self.copy_(copied_array(_points(self, n, sobolstate, num_generated)[-1].copy()))


@made("_sobol_engine_draw(Tensor quasi, int n, Tensor sobolstate, int dimension, int num_generated, "
      "ScalarType? dtype) -> (Tensor, Tensor)")  # fmt: skip
def _drawn(
    quasi: Tensor, n: int, sobolstate: Tensor, dimension: int, num_generated: int, dtype: Any
) -> tuple[Tensor, Tensor]:
    kind = dtypes.float32 if dtype is None else dtypes.as_dtype(dtype)
    if kind not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(
            f"\"_sobol_engine_draw\" not implemented for '{kind.scalar_name}': points are float32 or float64"
        )
    points = _points(quasi, n, sobolstate, num_generated)
    found = points[1:].astype(kind.np) / 2**SobolEngine.MAXBIT
    return copied_array(found.astype(kind.np)), copied_array(points[-1].copy())


# -- cells of recurrent networks -------------------------------------------------------------------------

_BIASES = "Tensor? input_bias, Tensor? hidden_bias"


def _gates(input_gates: Tensor, hidden_gates: Tensor, biases: tuple[Any, Any], count: int) -> list[Any]:
    """The gates of the input, then those of the hidden state, each with its bias."""
    pairs = zip((input_gates, hidden_gates), biases, strict=True)
    return [part for gates, bias in pairs for part in (gates if bias is None else gates + bias).chunk(count, 1)]


def _of_biases(grads: tuple[Tensor, Tensor], bias: Tensor | None) -> tuple[Any, Any]:
    return (None, None) if bias is None else (grads[0].sum(0), grads[1].sum(0))


@made(f"_thnn_differentiable_lstm_cell_backward(Tensor? grad_hy, Tensor? grad_cy, Tensor input_gates, "
      f"Tensor hidden_gates, {_BIASES}, Tensor cx, Tensor cy) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")  # fmt: skip
def _lstm(
    grad_hy: Tensor | None, grad_cy: Tensor | None, input_gates: Tensor, hidden_gates: Tensor, input_bias: Any,
    hidden_bias: Any, cx: Tensor, cy: Tensor,
) -> tuple[Any, ...]:  # fmt: skip
    if grad_hy is None and grad_cy is None:
        return None, None, None, None, None
    parts = _gates(input_gates, hidden_gates, (input_bias, hidden_bias), 4)
    i, f, c, o = [a + b for a, b in zip(parts[:4], parts[4:], strict=True)]
    i, f, c, o, top = i.sigmoid(), f.sigmoid(), c.tanh(), o.sigmoid(), cy.tanh()
    hidden = 0 if grad_hy is None else grad_hy * o * (1 - top * top)
    cell = hidden if grad_cy is None else hidden + grad_cy
    out = o * 0 if grad_hy is None else grad_hy * top * o * (1 - o)
    inner = cell * c * i * (1 - i), cell * cx * f * (1 - f), cell * i * (1 - c * c), out
    grad = FUNCTIONS["cat"](inner, 1)
    return grad, grad, cell * f, *_of_biases((grad, grad), input_bias)


@made(f"_thnn_differentiable_gru_cell_backward(Tensor grad_hy, Tensor input_gates, Tensor hidden_gates, Tensor hx, "
      f"{_BIASES}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")  # fmt: skip
def _gru(
    grad_hy: Tensor, input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Any, hidden_bias: Any
) -> tuple[Any, ...]:
    ir, iz, new, hr, hz, hn = _gates(input_gates, hidden_gates, (input_bias, hidden_bias), 3)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (new + r * hn).tanh()
    grad_n = grad_hy * (1 - z) * (1 - n * n)
    grad_z, grad_r = grad_hy * (hx - n) * z * (1 - z), grad_n * hn * r * (1 - r)
    grads = FUNCTIONS["cat"]([grad_r, grad_z, grad_n], 1), FUNCTIONS["cat"]([grad_r, grad_z, grad_n * r], 1)
    return *grads, grad_hy * z, *_of_biases(grads, input_bias)


# -- convolutions of libraries that PyTorch calls by name -------------------------------------------------


@made("mkldnn_convolution(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] stride, "
      "SymInt[] dilation, SymInt groups) -> Tensor", out=True)  # fmt: skip
def _mkldnn(self: Tensor, weight: Tensor, bias: Any, padding: Any, stride: Any, dilation: Any, groups: int) -> Tensor:
    return _aten.convolution.default(
        self, weight, bias, stride, padding, dilation, False, [0] * (self.ndim - 2), groups
    )


@made("_nnpack_spatial_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[2] padding, "
      "SymInt[2] stride=[1, 1]) -> Tensor", out=True)  # fmt: skip
def _nnpack(input: Tensor, weight: Tensor, bias: Any, padding: Any, stride: Any = (1, 1)) -> Tensor:
    return _mkldnn(input, weight, bias, padding, stride, (1, 1), 1)


# -- quantized tensors -----------------------------------------------------------------------------------

_QUANTIZED = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
made(f"_empty_affine_quantized(SymInt[] size, *, {_QUANTIZED}, float scale=1., int zero_point=0, "
     "MemoryFormat? memory_format=0) -> Tensor")(FUNCTIONS["_empty_affine_quantized"])  # fmt: skip


@made(f"empty_quantized(int[] size, Tensor qtensor, *, {_QUANTIZED}, MemoryFormat? memory_format=None) -> Tensor")
def _like_quantized(size: Any, qtensor: Tensor, *, dtype: Any = None, **kwargs: Any) -> Tensor:
    scale, zero = qtensor.q_scale(), qtensor.q_zero_point()
    dtype = qtensor.dtype if dtype is None else dtype
    return FUNCTIONS["_empty_affine_quantized"](size, dtype=dtype, scale=scale, zero_point=zero)
