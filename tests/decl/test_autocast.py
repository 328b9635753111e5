"""The autocast classes of the declarations are those that PyTorch has on a CPU; on CUDA, those of its documentation."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from autocast_kit import HIGH, LOW, kinds, lacks_lstm, overload
from sample_kit import sample

import torchlike  # noqa: F401
from torchlike._aten import packets
from torchlike._decl.op import REGISTRY, ViewOp

packets.complete()
# With or without autocast these promote: no run tells whether their class is declared.
PROMOTING = frozenset("cat stack".split())
INTEGRAL = frozenset(["linalg_matrix_rank"])  # its result has no dtype to choose; tests/amp/test_functions.py calls it


def found_class(op, values, static=()):
    """What PyTorch's autocast does with the inputs; "unknown" where the operator cannot be run as here."""
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


def declared(op, values, static=()):
    """The declared class of a call; to look at its result does not tell "states" from none."""
    cls = op.autocast_of(static).get("cpu")
    return None if cls == "states" else "lower_precision_fp" if cls in ("rounded", "inner") else cls


def comparable(op):
    drawn = any(a.name == "words" for a in op.schema.args)
    return not (isinstance(op, ViewOp) or drawn or op.name in PROMOTING or op.full_name in FUNCTIONS)


@pytest.mark.parametrize("family", ["a-h", "i-o", "p-z"])
def test_cpu_classes_are_pytorch_s(family):
    first, last = family.split("-")
    wrong, count = [], 0
    for op in REGISTRY.values():
        if comparable(op) and overload(op) is not None and first <= op.name.lstrip("_")[:1] <= last and sample(op):
            cls = found_class(op, *sample(op))
            count += cls != "unknown"
            if cls not in ("unknown", declared(op, *sample(op))):
                wrong.append((op.full_name, op.autocast.get("cpu"), cls))
    assert not wrong, wrong
    assert count > 80


def floats(*shapes):
    rng = np.random.RandomState(0)
    return [rng.uniform(0.2, 0.8, s).astype(np.float32) for s in shapes]


def classes(*shape):
    return np.arange(int(np.prod(shape))).reshape(shape) % 2


def attention(x, w, v):
    return F.multi_head_attention_forward(x, x, x, 4, 2, w, None, None, None, False, 0.0, v, None, need_weights=False)


def recurrent(name):
    function = getattr(torch, name)
    state = (lambda h: (h, h)) if name == "lstm" else (lambda h: h)
    return lambda x, h, a, b: function(x, state(h), [a, b], False, 1, 0.0, False, False, False)


def cell(name):
    state = (lambda h: (h, h)) if name == "lstm" else (lambda h: h)
    return lambda x, h, a, b: getattr(torch, f"{name}_cell")(x, state(h), a, b)


# What PyTorch calls otherwise: {operator here: (function, arguments)}.
FUNCTIONS = {
    "convolution": (F.conv1d, floats((1, 2, 8), (3, 2, 3))),
    "_scaled_dot_product_attention": (F.scaled_dot_product_attention, floats((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4))),
    "_multi_head_attention": (attention, floats((3, 1, 4), (12, 4), (4, 4))),
    "nll_loss2d": (F.nll_loss, [*floats((1, 2, 3, 3)), classes(1, 3, 3)]),
    "_cross_entropy": (F.cross_entropy, [*floats((3, 4)), classes(3)]),
    "_cross_entropy2d": (F.cross_entropy, [*floats((1, 2, 3, 3)), classes(1, 3, 3)]),
    "_cross_entropy_smooth": (partial(F.cross_entropy, label_smoothing=0.1), [*floats((3, 4)), classes(3)]),
    "_adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, 2), floats((1, 2, 4, 4, 4))),
    "_adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, 2), floats((1, 2, 4, 4, 4))),
    "_lp_pool3d": (lambda x: F.lp_pool3d(x, 2.0, 2), floats((1, 2, 4, 4, 4))),
    "_max_unpool": (lambda x, i: F.max_unpool2d(x, i, 2), [*floats((1, 1, 1, 2)), classes(1, 1, 1, 2) * 3]),
    "_fake_quantize_per_tensor": (
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 8), floats((3, 4))
    ),
    "_lstsq": (torch.linalg.lstsq, floats((3, 2), (3, 1))),
    "view_as_complex": (torch.view_as_complex, floats((3, 2))),
    "linalg_pinv": (torch.linalg.pinv, floats((3, 2))),
    "linalg_eigvalsh": (lambda x: torch.linalg.eigvalsh(x @ x.mT), floats((3, 3))),
    "linalg_eigh": (lambda x: torch.linalg.eigh(x @ x.mT), floats((3, 3))),
    "einsum": (lambda x, y: torch.einsum("ij,jk->ik", x, y), floats((3, 4), (4, 2))),
    "_ctc_loss": (lambda x, t: F.ctc_loss(x, t, (4, 4), (2, 2)), [*floats((4, 2, 3)), classes(2, 2) + 1]),
    "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, floats((3, 4), (3, 4))),
    "reflection_pad2d": (lambda x: F.pad(x, (1, 1, 1, 1), "reflect"), floats((1, 2, 4, 4))),
    "replication_pad2d": (lambda x: F.pad(x, (1, 1, 1, 1), "replicate"), floats((1, 2, 4, 4))),
    "replication_pad3d": (lambda x: F.pad(x, (1,) * 6, "replicate"), floats((1, 2, 4, 4, 4))),
    **{f"_cross_entropy_prob_{i}": (partial(F.cross_entropy, reduction=r), floats((3, 4), (3, 4)))
       for i, r in enumerate(("none", "mean", "sum"))},
    **{f"_{name}_{r}": (partial(function, reduction=r), values) for r in ("none", "mean", "sum")
       for name, function, values in (
           ("l1_loss", F.l1_loss, floats((3, 4), (3, 4))),
           ("margin_ranking_loss", F.margin_ranking_loss, floats((3,), (3,), (3,))),
           ("triplet_margin_loss", F.triplet_margin_loss, floats((3, 4), (3, 4), (3, 4))),
           ("triplet_margin_loss_swap", partial(F.triplet_margin_loss, swap=True), floats((3, 4), (3, 4), (3, 4))),
           ("hinge_embedding_loss", F.hinge_embedding_loss, floats((3, 4), (3, 4))),
           ("kl_div", F.kl_div, floats((3, 4), (3, 4))),
           ("kl_div_log", partial(F.kl_div, log_target=True), floats((3, 4), (3, 4))),
           ("cosine_embedding_loss", F.cosine_embedding_loss, [*floats((3, 4), (3, 4)), np.array([1, -1, 1])]),
           *[(f"poisson_nll_loss{int(log)}{int(full)}", partial(F.poisson_nll_loss, log_input=log, full=full),
              floats((3, 4), (3, 4))) for log in (False, True) for full in (False, True)],
       )},
    **{f"_{n}": (recurrent(n), floats((3, 2, 3), (1, 2, 4), (m * 4, 3), (m * 4, 4)))
       for n, m in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1))},
    **{f"_{n}_cell": (cell(n), floats((2, 3), (2, 4), (m * 4, 3), (m * 4, 4)))
       for n, m in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1))},
}  # fmt: skip


STATIC = {"einsum": ("ij,jk->ik",)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_cpu_classes_of_what_pytorch_calls_otherwise(name):
    if name == "_lstm" and lacks_lstm():
        pytest.skip("PyTorch has no kernel for it on this processor: autocast_kit.lacks_lstm")
    assert found_class(*FUNCTIONS[name]) == declared(REGISTRY[name], (), STATIC.get(name, ()))


ELSEWHERE = {"_lstm_in_steps"}  # projections and packed sequences: tests/nn/test_rare_behaviour.py


def test_every_declared_cpu_class_is_compared():
    done = FUNCTIONS.keys() | ELSEWHERE
    declared = [op for op in REGISTRY.values() if op.autocast.get("cpu") and op.full_name not in done]
    missing = [op.full_name for op in declared if op.name not in PROMOTING | INTEGRAL and (
        not comparable(op) or overload(op) is None or found_class(op, *sample(op)) == "unknown")]  # fmt: skip
    assert not missing, missing


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
