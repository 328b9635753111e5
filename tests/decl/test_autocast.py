"""The autocast classes of the declarations are those that PyTorch has on a CPU; on CUDA, those of its documentation."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sample_kit import sample

import torchlike  # noqa: F401
from torchlike._aten import packets
from torchlike._decl.op import REGISTRY, ViewOp

packets.complete()
LOW, HIGH = torch.bfloat16, torch.float32
# Called by other names in PyTorch, whose autocast acts there: conv2d is a convolution, cat and stack promote anyway.
ELSEWHERE = frozenset("convolution cat stack".split())


def overload(op):
    """PyTorch's overload of this name, if it has one."""
    packet = getattr(torch.ops.aten, op.schema.name, None)
    which = op.schema.overload or "default"
    return getattr(packet, which) if packet is not None and which in packet.overloads() else None


def kinds(op, values, static, dtypes, enabled):
    """The dtypes of floating results of PyTorch's operator, or None where it refuses."""
    order = iter(dtypes * len(values))

    def tensor(v):
        if not isinstance(v, np.ndarray):
            return v
        t = torch.from_numpy(v.copy())
        return t.to(next(order)) if t.is_floating_point() else t

    rest, lens, named = [tensor(v) for v in values], iter(static[len(op.static)] if op.lists else ()), {}
    for a in op.dynamic:
        named[a.name] = [rest.pop(0) for _ in range(next(lens))] if a.is_list else rest.pop(0)
    named |= {a.name: list(s) if isinstance(s, tuple) else s for a, s in zip(op.static, static, strict=False)}
    given = {a.name: named[a.name] for a in op.schema.args if named[a.name] is not None or not a.has_default}
    try:
        with warnings.catch_warnings(), torch.autocast("cpu", dtype=LOW, enabled=enabled):
            warnings.simplefilter("ignore")
            out = overload(op)(**given)
    except (RuntimeError, IndexError):
        return None
    outs = out if isinstance(out, tuple | list) else (out,)
    return [o.dtype for o in outs if isinstance(o, torch.Tensor) and (o.is_floating_point() or o.is_complex())]


def found_class(op):
    """What PyTorch's autocast does with the inputs; "unknown" where the operator cannot be run as here."""
    values, static = sample(op)
    runs = {(d, on): kinds(op, values, static, d, on)
            for d in ((HIGH,), (LOW,), (HIGH, LOW)) for on in (False, True)}  # fmt: skip
    if not any(runs.values()):
        return "unknown"
    high, low, mixed = [(runs[d, False], runs[d, True]) for d in ((HIGH,), (LOW,), (HIGH, LOW))]
    if high[0] != high[1] and high[1] and high[1][0] is LOW:
        return "lower_precision_fp"
    if low[0] != low[1] and low[1] and low[1][0] in (HIGH, torch.complex64):
        return "fp32"
    return "promote" if mixed[0] != mixed[1] and mixed[1] and mixed[1][0] is HIGH else None


def comparable(op):
    return not (isinstance(op, ViewOp) or any(a.name == "words" for a in op.schema.args) or op.name in ELSEWHERE)


@pytest.mark.parametrize("family", ["a-h", "i-o", "p-z"])
def test_cpu_classes_are_pytorch_s(family):
    first, last = family.split("-")
    wrong, count = [], 0
    for op in REGISTRY.values():
        if comparable(op) and overload(op) is not None and first <= op.name.lstrip("_")[:1] <= last and sample(op):
            cls = found_class(op)
            count += cls != "unknown"
            if cls not in ("unknown", op.autocast.get("cpu")):
                wrong.append((op.full_name, op.autocast.get("cpu"), cls))
    assert not wrong, wrong
    assert count > 80


# As PyTorch documents them (torch.amp, "CUDA Ops that can autocast"), where an operator here has that name.
CUDA = {
    "lower_precision_fp": "matmul addbmm addmm addmv addr baddbmm bmm linalg_multi_dot linear mm mv prelu convolution",
    "fp32": "acos asin cosh cdist cosine_similarity cumprod cumsum dist erfinv exp expm1 log log10 log1p log2 mse_loss "
    "multilabel_margin_loss multi_margin_loss nll_loss pdist prod reciprocal renorm rsqrt sinh smooth_l1_loss "
    "soft_margin_loss softplus sum tan binary_cross_entropy_with_logits native_group_norm native_layer_norm "
    "softmax.int log_softmax.int pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar",
    "promote": "addcdiv addcmul atan2 bilinear cross dot grid_sampler_2d index_put scatter_add tensordot",
    "banned": "binary_cross_entropy",
}


@pytest.mark.parametrize("cls", CUDA)
def test_cuda_classes_are_those_of_the_documentation(cls):
    known = [REGISTRY[name] for name in CUDA[cls].split() if name in REGISTRY]
    assert known and {op.full_name: op.autocast.get("cuda") for op in known} == {o.full_name: cls for o in known}
