"""Why ``torch.ops.aten`` lacks some of PyTorch's overloads: a section of docs/operators.md."""

import re

import torch

import torchlike

# The first that fits an overload, with its signature, is its reason.
REASONS = [
    ("nested tensors, which torchlike refuses by name", r"^_?nested_|^_test_optional|_new_zeros_with_same"),
    ("PyTorch's tests of itself", r"^_test_|^_foobar"),
    ("dictionaries and lists of TorchScript: PyTorch changes copies of them, or takes none from Python",
     r"Dict\(|^(sort|remove)\.Tensor|\(t\[\] data|\(int context_id"),
    ("kernels for one device or processor, which callers choose by it",
     r"^[^(]*(cudnn|miopen|mkldnn|mps|cslt|flash_attention|efficient_attention|fused_attention|triton|overrideable|"
     r"depthwise|semi_structured|int4pack|mixed_dtypes|thnn|cuda|nnpack|xla|_masked_scale|_fused_dropout|_fill_mem_eff|"
     r"_resize_output|_copy_from|_spsolve|_(indices|values|broadcast_to)_copy|philox|scaled_grouped|_scaled_mm_v2|"
     r"record_stream)"),
    ("outputs that PyTorch itself refuses, or that only inference mode has",
     r"^(_coalesce|resize_as_sparse|sparse_resize\w*|_to_sparse_\w+|_sparse_csr_\w+\.dim_dtype_|_sparse_coo_tensor_with"
     r"_dims\w*|_efficient\w*|_(make_dual|fw_primal)_copy|_ncf_\w+)(\.?out)?\("),
    ("weights packed for kernels that there are none of; torch.ao.nn.quantized computes these layers",
     r"^(quantized_|_wrapped|_dyn_quant|_empty_\w*quantized|empty_quantized|choose_qparams|fbgemm|_fused_moving_avg)"),
    ("outputs that are quantized, or lists of them", r"^(quantize_|dequantize|_make_per_)[^(]*out\(|^qscheme"),
    ("optimizers, scalers and norms that write into other tensors than their own", r"^(_fused_|_amp_|_batch_norm)"),
    ("fast paths of inference; the modules compute the same", r"^_(native_multi_head|transformer_encoder|fused_sdp)"),
    ("the state of torch.quasirandom.SobolEngine, which is another here", r"^_sobol"),
    ("levels of torch.vmap, which are kept elsewhere here", r"^_(add|remove)_batch_dim"),
    ("storages as outputs", r"^set\."),
    ("not built", r"^(_sparse_mm_reduce_impl_backward|_sparse_compressed_tensor_with_dims|is_strides_like)"),
]  # fmt: skip


def missing():
    """(all, those that torchlike lacks) of PyTorch's signatures of aten that have tensors."""
    texts = {str(s) for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::") and "Tensor" in str(s)}
    lacking = []
    for text in sorted(t.removeprefix("aten::") for t in texts):
        name, _, overload = text[: text.index("(")].partition(".")
        packet = getattr(torchlike.ops.aten, name, None)
        if packet is None or not hasattr(packet, overload or "default"):
            lacking.append(text)
    return texts, lacking


def reason(text):
    """Why an overload is missing; ValueError where nothing says it."""
    found = [why for why, pattern in REASONS if re.search(pattern, text)]
    if not found:
        raise ValueError(f"docs/missing_overloads.py gives no reason why aten::{text} is missing")
    return found[0]


def section():
    """Lines of the page."""
    texts, lacking = missing()
    rows = {}
    for text in lacking:
        rows.setdefault(reason(text), []).append(f"`{text[: text.index('(')]}`")
    lines = ["", "## Overloads of torch.ops.aten that are missing", ""]
    lines += [
        f"{len(lacking):,} of PyTorch's {len(texts):,} that have tensors; the page fails to be made without a reason."
    ]
    lines += ["", "| why | which |", "|---|---|"]
    return lines + [f"| {why} | {', '.join(names)} |" for why, names in rows.items()]
