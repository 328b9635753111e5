"""Functions of PyTorch over libraries that jax has not, or on quantized tensors: there by name, refused when called."""

import inspect
from typing import Any, NoReturn

from torchlike._functions._install import function

_BATCH_NORM = "a step of batch norm for CUDA's kernels; use torch.nn.functional.batch_norm"
_FBGEMM = "torchlike does not compute by FBGEMM; use torch.nn.functional.linear"
_MIOPEN = "torchlike does not compute by MIOpen; use the function of torch.nn.functional, which XLA compiles for GPUs"
_QUANTIZED = "no tensor is quantized here"
_FAKE = "quantization is not supported by torchlike"
_CONVOLUTION = "input weight bias padding stride dilation groups benchmark deterministic"
_CELL = (
    "input hx w_ih w_hh b_ih b_hh packed_ih packed_hh col_offsets_ih col_offsets_hh scale_ih scale_hh zero_point_ih "
    "zero_point_hh"
)
_POOL = "input kernel_size stride=() padding=0 dilation=1 ceil_mode=False"
_FUNCTIONS = {
    "batch_norm_backward_elemt": ("grad_out input mean invstd weight sum_dy sum_dy_xmu count_tensor", _BATCH_NORM),
    "batch_norm_backward_reduce": ("grad_out input mean invstd weight input_g weight_g bias_g", _BATCH_NORM),
    "batch_norm_elemt": ("input weight bias mean invstd eps", _BATCH_NORM),
    "batch_norm_gather_stats": ("input mean invstd running_mean running_var momentum eps count", _BATCH_NORM),
    "batch_norm_gather_stats_with_counts": (
        "input mean invstd running_mean running_var momentum eps counts",
        _BATCH_NORM,
    ),
    "batch_norm_stats": ("input eps", _BATCH_NORM),
    "batch_norm_update_stats": ("input running_mean running_var momentum", _BATCH_NORM),
    "choose_qparams_optimized": ("input numel n_bins ratio bit_width", _FAKE),
    "fbgemm_linear_fp16_weight": ("input packed_weight bias output=None", _FBGEMM),
    "fbgemm_linear_fp16_weight_fp32_activation": ("input packed_weight bias output=None", _FBGEMM),
    "fbgemm_linear_int8_weight": (
        "input weight packed col_offsets weight_scale weight_zero_point bias",
        _FBGEMM,
    ),
    "fbgemm_linear_int8_weight_fp32_activation": (
        "input weight packed col_offsets weight_scale weight_zero_point bias",
        _FBGEMM,
    ),
    "fbgemm_linear_quantize_weight": ("input", _FBGEMM),
    "fbgemm_pack_gemm_matrix_fp16": ("input", _FBGEMM),
    "fbgemm_pack_quantized_matrix": ("input K=0 N=0", _FBGEMM),
    "miopen_batch_norm": (
        "input weight bias running_mean running_var training exponential_average_factor epsilon",
        _MIOPEN,
    ),
    "miopen_convolution": (_CONVOLUTION, _MIOPEN),
    "miopen_convolution_add_relu": ("input weight z alpha bias stride padding dilation groups", _MIOPEN),
    "miopen_convolution_relu": ("input weight bias stride padding dilation groups", _MIOPEN),
    "miopen_convolution_transpose": (_CONVOLUTION.replace("padding", "padding output_padding"), _MIOPEN),
    "miopen_depthwise_convolution": (_CONVOLUTION, _MIOPEN),
    "miopen_rnn": (
        "input weight weight_stride0 hx cx mode hidden_size num_layers batch_first dropout train bidirectional "
        "batch_sizes dropout_state",
        _MIOPEN,
    ),
    "quantized_batch_norm": ("input weight bias mean var eps output_scale output_zero_point", _QUANTIZED),
    "quantized_gru_cell": (_CELL, _QUANTIZED),
    "quantized_lstm_cell": (_CELL, _QUANTIZED),
    "quantized_max_pool1d": (_POOL, _QUANTIZED),
    "quantized_max_pool2d": (_POOL, _QUANTIZED),
    "quantized_max_pool3d": (_POOL, _QUANTIZED),
    "quantized_rnn_relu_cell": (_CELL, _QUANTIZED),
    "quantized_rnn_tanh_cell": (_CELL, _QUANTIZED),
}


def _parameter(text: str) -> inspect.Parameter:
    name, _, default = text.partition("=")
    value = {"": inspect.Parameter.empty, "False": False, "None": None, "()": (), "0": 0, "1": 1}[default]
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value)


def _refuse(name: str, parameters: str, why: str) -> None:
    signature = inspect.Signature([_parameter(text) for text in parameters.split()])

    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        raise NotImplementedError(f"{name}(): {why}")

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"NotImplementedError: {why}."
    refused.__signature__ = signature  # type: ignore[attr-defined]
    function(name)(refused)


for _name, (_parameters, _why) in _FUNCTIONS.items():
    _refuse(_name, _parameters, _why)


@function()
def _nnpack_available() -> bool:
    """Whether convolutions may be computed by NNPACK: no, XLA computes them."""
    return False
