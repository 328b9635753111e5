"""Which of PyTorch's overloads of ``torch.ops.aten`` are refused, and why: a section of docs/operators.md.

``python docs/missing_overloads.py`` writes the list that torchlike reads, torchlike/_composites/refused.txt.
"""

import re
from pathlib import Path

import torch

import torchlike
from torchlike._composites.refused import REFUSED

LIST = Path(torchlike.__file__).parent / "_composites" / "refused.txt"

# The first that fits an overload, with its signature, is its reason.
REASONS = [
    ("torch.nested is a subclass, above these", r"^_?nested_|^_test_optional|_new_zeros_with_same"),
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
    ("the choice among PyTorch's kernels of attention, of which torchlike has one", r"^_fused_sdp_choice"),
    ("fast paths of inference; the modules compute the same", r"^_transformer_encoder"),
    ("levels of torch.vmap, which are kept elsewhere here", r"^_(add|remove)_batch_dim"),
    ("not built", r"^(_sparse_mm_reduce_impl_backward|_sparse_compressed_tensor_with_dims)"),
]  # fmt: skip


def schemas():
    """PyTorch's signatures of aten that have tensors."""
    texts = {str(s) for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::") and "Tensor" in str(s)}
    return sorted(t.removeprefix("aten::") for t in texts)


def missing():
    """Those that torchlike does not compute, whether they are in its list or not."""
    lacking = []
    for text in schemas():
        name, _, overload = text[: text.index("(")].partition(".")
        packet = getattr(torchlike.ops.aten, name, None)
        if text in REFUSED or packet is None or not hasattr(packet, overload or "default"):
            lacking.append(text)
    return lacking


def reason(text):
    """Why an overload is missing; ValueError where nothing says it."""
    found = [why for why, pattern in REASONS if re.search(pattern, text)]
    if not found:
        raise ValueError(f"docs/missing_overloads.py gives no reason why aten::{text} is missing")
    return found[0]


def listing():
    """The text of the list: signatures under their reasons."""
    rows = {}
    for text in missing():
        rows.setdefault(reason(text), []).append(text)
    return "\n\n".join(["\n".join([f"# {why}", *rows[why]]) for why, _ in REASONS if why in rows]) + "\n"


def section():
    """Lines of the page."""
    rows = {}
    for text, why in REFUSED.items():
        rows.setdefault(why, []).append(f"`{text[: text.index('(')]}`")
    lines = ["", "## Overloads of torch.ops.aten that are refused", ""]
    lines += [
        f"{len(REFUSED):,} of PyTorch's {len(schemas()):,} that have tensors are there, with its signatures, and raise "
        "NotImplementedError."
    ]
    lines += ["", "| why | which |", "|---|---|"]
    return lines + [f"| {why} | {', '.join(names)} |" for why, names in rows.items()]


if __name__ == "__main__":
    LIST.write_text(listing())
    print(f"{LIST.name}: {len(missing())} overloads")
