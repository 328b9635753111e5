"""Losses of tensors of several dtypes: which PyTorch takes, and what dtype it gives."""

import numpy as np
import pytest
import torch
from oracle import check

import torchlike

RNG = np.random.RandomState(0)
X, P, W = RNG.standard_normal((3, 4)), RNG.uniform(0.05, 0.95, (3, 4)), RNG.uniform(0.1, 1, 4)

# (loss, dtypes of its tensors: f32, f64, int64, bool, c64; options)
REFUSED = [
    *[("binary_cross_entropy_with_logits", given, {}) for given in ("fi", "fb", "di")],
    *[("l1_loss", given, {}) for given in ("fb", "bf")],
    *[("multilabel_soft_margin_loss", given, {}) for given in ("fb", "if", "cf")],
    *[("poisson_nll_loss", given, {"full": True}) for given in ("fb", "fc")],
    ("poisson_nll_loss", "bf", {"log_input": False}),
    *[("kl_div", given, {"reduction": "sum", "log_target": flag}) for given in ("fc", "cf", "fi") for flag in (0, 1)],
    *[("hinge_embedding_loss", given, {}) for given in ("cf", "cc")],
    *[("huber_loss", given, {}) for given in ("bf", "fc", "bi")],
    ("soft_margin_loss", "fc", {}),
    *[("cross_entropy", given, {}) for given in ("if", "bf")],
    *[("margin_ranking_loss", given, {}) for given in ("ffb", "bff", "ffc")],
    *[("triplet_margin_loss", given, {}) for given in ("ffb", "bbf")],
    *[("gaussian_nll_loss", given, {}) for given in ("ffi", "ffb", "ffc", "bff", "fbf")],
    *[("pairwise_distance", given, {}) for given in ("fb", "bb")],
]
OTHER_CALLS = {
    "cosines of complex vectors": lambda t, x: t.nn.functional.cosine_embedding_loss(x + 0j, x, x[:, 0]),
    "classes weighted in float64": lambda t, x: t.nn.functional.multi_margin_loss(
        x, t.tensor([0, 1, 2]), weight=t.ones(4).double()
    ),
    "a margin of None": lambda t, x: t.nn.functional.multi_margin_loss(x, t.tensor([0, 1, 2]), margin=None),
    "a soft margin of fewer rows": lambda t, x: t.nn.functional.soft_margin_loss(x[:1], x),
    "a soft margin of one number": lambda t, x: t.nn.functional.soft_margin_loss(x[0, 0], x),
    "kl_div of text": lambda t, x: t.nn.functional.kl_div(x, "x"),
    "weights of text": lambda t, x: t.nn.functional.nll_loss(x, t.tensor([0, 1, 2]), weight="x"),
    "logits weighted by text": lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(x, x, weight="x"),
    "complex weights": lambda t, x: t.nn.functional.binary_cross_entropy(x * 0, x * 0, weight=x + 0j),
    "lengths of two kinds": lambda t, x: t.nn.functional.ctc_loss(x[:, None], t.ones(1, 2).long(), (3,), t.tensor([2])),
    "labels too few": lambda t, x: t.nn.functional.ctc_loss(x[:, None], t.ones(1).long(), (3,), (2,)),
    "labels too many": lambda t, x: t.nn.functional.ctc_loss(x[:, None], t.ones(3).long(), (3,), (2,)),
    "sequences of no batch": lambda t, x: t.nn.functional.ctc_loss(x[:, None][:, :0], t.ones(0, 2).long(), (), ()),
    "probabilities of one step": lambda t, x: t.nn.functional.ctc_loss(x[0], t.ones(1).long(), (1,), (1,)),
}


def _error(call, library):
    x = library.tensor(X, dtype=library.float32)
    try:
        call(library, x)
    except Exception as error:
        return type(error)
    return None


def _given(t, dtypes):
    kinds = {"f": t.float32, "d": t.float64, "i": t.int64, "b": t.bool, "c": t.complex64}
    return [t.tensor(P).to(kinds[d]) for d in dtypes]


@pytest.mark.parametrize("name, dtypes, options", REFUSED)
def test_dtypes_that_are_refused(name, dtypes, options):
    options = {k: bool(v) if k == "log_target" else v for k, v in options.items()}
    theirs, ours = (_error(lambda t, x: getattr(t.nn.functional, name)(*_given(t, dtypes), **options), library)
                    for library in (torch, torchlike))  # fmt: skip
    assert theirs is ours is not None


@pytest.mark.parametrize("call", OTHER_CALLS.values(), ids=OTHER_CALLS)
def test_calls_that_are_refused(call):
    assert _error(call, torch) is _error(call, torchlike) is not None


@pytest.mark.parametrize("options", [{}, {"pos_weight": W}, {"weight": W, "reduction": "none"}], ids=["", "pos", "w"])
@pytest.mark.parametrize("x, target", [("float32", "float16"), ("float64", "float32"), ("float16", "float16")])
def test_logits_give_the_dtype_of_their_target(x, target, options):
    def f(t, x, p):
        more = {k: t.tensor(v).float() if isinstance(v, np.ndarray) else v for k, v in options.items()}
        return t.nn.functional.binary_cross_entropy_with_logits(x, p, **more)

    check(f, X.astype(x), P.astype(target), gradgrad=False, jit=False, tol=1e3)


@pytest.mark.parametrize("weight", ["float64", "int64", "bool"])
def test_probabilities_take_weights_of_any_dtype(weight):
    def f(t, x):
        return t.nn.functional.binary_cross_entropy(x, t.full((3, 4), 0.25), t.tensor(W * 3).to(getattr(t, weight)))

    check(f, P.astype(np.float32), gradgrad=False, jit=False)
