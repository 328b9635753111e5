"""Derivatives of reductions, norms, losses, pools and determinants where they have none; see test_kinks.

Left out: which of several equal elements the selections of PyTorch's quickselect pick (kthvalue, topk, nanmedian of
NaN); second derivatives that PyTorch refuses; products and running sums of infinities.
"""

import numpy as np
import pytest
from both import agree
from kink_kit import INF, NAN, cases, kink

import torchlike

FINITE = np.array([[0.0, 0, 0, 0], [1, 1, 1, 1], [1, 2, 2, 0], [-1, 0, 0, 1], [3, -2, -3, 3], [-0.0, 0, -1, -1],
                   [2, 0, 3, 4]])  # fmt: skip
ROWS = np.concatenate([FINITE, [[0, INF, 1, 1], [NAN, 0, 1, 2], [-INF] * 4, [INF, INF, 1, 2], [NAN] * 4,
                                [-INF, 1, 1, -INF]]])  # fmt: skip

REDUCTIONS = cases("x", """
    x.amax(1)
    x.amin(1)
    x.amax((0, 1))
    x[:7].amax((0, 1), keepdim=True)
    x.amax(0)
    x.max(1)
    x.min(1)
    x.max()
    x.min()
    x[2].max()
    x[8].max()
    x.median(1)
    x.median()
    x[2].median()
    x[8].median()
    x[8].nanmedian()
    x[:11].nanmedian(1)
    x.aminmax(dim=1)
    x[2].aminmax()
    x[2, 0].max()
    x.quantile(0.0, 1)
    x.quantile(0.5, 1)
    x.quantile(0.3, 1, interpolation="lower")
    x.quantile(0.3, 1, interpolation="higher")
    x.quantile(0.5, 1, interpolation="midpoint")
    x.quantile(0.5, 1, interpolation="nearest")
    x.quantile(t.tensor([0.0, 0.3, 1.0], dtype=x.dtype), 1, keepdim=True)
    x.nanquantile(0.3, 1)
    x.sort(1)
    x.sort(1, descending=True)
    x.sort(dim=1, stable=True)
    x.T.msort()
    x.cummax(1)
    x.cummin(1)
    x[:7].mode(1)
    x[:7].logcumsumexp(1)
    x[:7].prod(1)
    x[:7].prod()
    x[6].prod()
    x[4].prod()
    x[:7].cumprod(1)
    x[:7].cumprod(0)
    x.logsumexp(1)
    x.logsumexp((0, 1))
    x[9].logsumexp(0)
    x.nansum(1)
    x.nanmean(1)
    x.std(1)
    x[1].std()
    x[2, 0].std()
    x[:7].std()
    x.std(1, correction=0)
    x.std(1, correction=4)
    x.var(1)
    x.var(1, correction=4)
    x.var(1, correction=5)
    x[2].var(correction=4)
    x[2].std(correction=5)
    x[1].var(correction=4)
    t.std_mean(x[:7], 1)
    t.var_mean(x[:7], 1)
    t.corrcoef(x[:4])
    t.cov(x[:4])
    x.unfold(1, 2, 1).amax(-1)
    x[:3].diff(dim=1).abs()
    x.softmax(1)
    x.log_softmax(1)
    F.softmin(x, 1)
    F.normalize(x[:7])
    F.normalize(x[:7], p=1.5)
    F.normalize(x[:7], dim=0)
    x[:7].renorm(2, 0, 1.0)
    x[:7].renorm(1, 0, 1.0)
    F.layer_norm(x[:7], (4,), eps=0.0)
    F.rms_norm(x[:7], (4,), eps=0.0)
    F.batch_norm(x[1:2].expand(3, 4).clone(), None, None, training=True)
    F.max_pool1d(x[None], 2)
    F.max_pool1d(x[None], 3, 1, 1)
    F.max_pool2d(x[None, None], 2, 1, 1)
    F.max_pool2d(x[None, None], 2, return_indices=True)
    F.max_pool3d(x[None, None, None], (1, 2, 2))
    F.adaptive_max_pool1d(x[None], 3)
    F.adaptive_max_pool2d(x[None], (3, 3))
    F.adaptive_avg_pool2d(x[None], (3, 3))
    F.lp_pool1d(x[None], 1.0, 2)
    F.lp_pool1d(x[None], 2.0, 2)
    F.lp_pool2d(x[None], 3.0, 2)
    F.interpolate(x[None], 7, mode="linear")
    F.interpolate(x[None, None], (5, 5), mode="bilinear")
    F.local_response_norm(x[None], 2)
    F.glu(x[:6])
    F.group_norm(x[:4, :, None], 2, eps=0.0)
    F.lp_pool3d(x[None, None, None], 2.0, (1, 2, 2))
    F.adaptive_max_pool3d(x[None, None], (1, 3, 3))
    F.grid_sample(x[None, None, :4], x[None, :2].reshape(1, 2, 2, 2) / 2, align_corners=True)
    F.grid_sample(x[None, None, :4], x[None, :2].reshape(1, 2, 2, 2) / 2, mode="nearest", align_corners=False)
    F.grid_sample(x[None, None, :4], x[None, :2].reshape(1, 2, 2, 2) * 1.5 - 1, padding_mode="border")
    F.grid_sample(x[None, None, :4], x[None, :2].reshape(1, 2, 2, 2) * 1.5 - 1, padding_mode="reflection")
    t.linalg.matrix_exp(x[:4] * 0)
    F.embedding(t.tensor([0, 1, 1, 3]), x, padding_idx=1)
    F.scaled_dot_product_attention(x[None, :4], x[None, :4], x[None, :4], t.zeros(4, 4, dtype=t.bool))
    x[:4].scatter_reduce(0, t.zeros(4, 4, dtype=t.int64), x[1:5].clone(), "amax")
    x[:4].scatter_reduce(0, t.zeros(4, 4, dtype=t.int64), x[8:12].clone(), "amax")
    x[:4].scatter_reduce(0, t.zeros(4, 4, dtype=t.int64), x[1:5].clone(), "amin", include_self=False)
    x[:4].index_reduce(0, t.tensor([0, 0, 1, 1]), x[8:12].clone(), "amax")
    x[:4].det()
    t.stack([x[1], x[1], x[2], x[4]]).det()
    t.linalg.svdvals(x[1:4])
    t.linalg.matrix_power(x[:4], 3)
    t.linalg.matrix_power(x[:4], 0)
""")  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    kink(REDUCTIONS[name], ROWS)


@pytest.mark.parametrize("name", ["x.amax(1)", "x.std(1)", "x.median()", "F.normalize(x[:7])", "x.quantile(0.5, 1)",
                                  "F.max_pool1d(x[None], 2)", "x.logsumexp(1)"])  # fmt: skip
def test_reductions_in_single_precision(name):
    kink(REDUCTIONS[name], ROWS, second=False, low=True)


@pytest.mark.parametrize("f", [
    lambda t, x: t.nn.functional.embedding_bag(t.tensor([0, 1, 1, 3]), x, t.tensor([0, 2]), mode="max"),
    lambda t, x: t.nn.functional.embedding_bag(t.tensor([0, 1, 1, 3]), x, t.tensor([0, 0, 2]), mode="mean"),
    lambda t, x: t.linalg.eigvalsh(t.eye(4).to(x) + x[:1] * 0),
    lambda t, x: x[:4].scatter_reduce(0, t.zeros(4, 4, dtype=t.int64), x[8:12].clone(), "prod"),
    lambda t, x: x[:4].index_reduce(0, t.tensor([0, 0, 1, 1]), x[8:12].clone(), "prod"),
])  # fmt: skip
def test_first_derivatives_alone(f):
    kink(f, FINITE[[0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5]], second=False)


ORDERS = [0.5, 1, 1.5, 2, 2.5, 3, INF, -INF, -1, -0.5]


@pytest.mark.parametrize("ord", ORDERS)
@pytest.mark.parametrize("dim", [None, 1])
def test_norms(ord, dim):
    kink(lambda t, x: t.linalg.vector_norm(x, ord, dim), ROWS)


@pytest.mark.parametrize("f", [
    lambda t, x: x[:7].norm(dim=0, keepdim=True),
    lambda t, x: x[0].norm(),
    lambda t, x: x[0, 0].norm(),
    lambda t, x: x[:7].norm(p=3),
    lambda t, x: x[:7].norm(p=1, dim=(0, 1), keepdim=True),
    lambda t, x: t.linalg.vector_norm(x, INF, (0, 1), keepdim=True),
    lambda t, x: t.linalg.matrix_norm(x[:3] * 0),
    lambda t, x: t.linalg.matrix_norm(x[1:4], 1),
    lambda t, x: t.linalg.matrix_norm(x[1:4], -INF),
    lambda t, x: t.linalg.matrix_norm(x[2:5], 2),
])  # fmt: skip
def test_more_norms(f):
    kink(f, ROWS)


@pytest.mark.parametrize("ord", [1, 1.5, 2, 3, INF])
def test_norms_of_complex_numbers(ord):
    kink(lambda t, z: t.linalg.vector_norm(z, ord), np.array([0j, 1 + 1j, 3 - 4j, 0j, -5 + 0j]))
    kink(lambda t, z: t.linalg.vector_norm(z, ord), np.zeros(3, np.complex128))


def test_the_norm_that_counts_has_no_gradient():
    agree(lambda t: (lambda x: t.linalg.vector_norm(x, 0))(t.tensor([0.0, 1.0, NAN])))


EMPTY = cases("x", """
    x.mean(1)
    x.mean()
    x.nanmean(1)
    x.sum(1)
    x.prod(1)
    x.prod()
    x.var(1)
    x.std(1)
    x.logsumexp(1)
    x.norm()
    x.norm(dim=1)
    x.cumprod(1)
    x.nansum()
""")  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_reductions_of_nothing(name):
    kink(EMPTY[name], np.zeros((3, 0)))


# -- distances and losses ----------------------------------------------------------------------------

LEFT = np.array([[0.0, 0, 0, 0], [1, 1, 1, 1], [1, 2, 2, 0], [-1, 0, 0, 1], [1, 1, 1, 1], [0, 3, -3, 3]])
RIGHT = np.array([[0.0, 0, 0, 0], [1, 1, 1, 1], [2, 1, 1, 0], [0, 0, 0, 0], [2, 2, 0, 1], [0, 0, 1, 2]])


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, INF])
def test_distances(p):
    kink(lambda t, x, y: t.nn.functional.pairwise_distance(x, y, p=p, eps=0.0), LEFT, RIGHT)
    kink(lambda t, x, y: t.dist(x[:3], y[:3], p), LEFT, RIGHT)
    kink(lambda t, x, y: t.dist(x[:1], y[:1], p), LEFT, RIGHT)
    kink(lambda t, x, y: t.cdist(x, y, p=p) + t.cdist(x, x, p=p), LEFT, RIGHT, second=False)
    kink(lambda t, x: t.nn.functional.pdist(x, p), LEFT, second=False)


ROW_LOSSES = cases("x, y", """
    F.cosine_similarity(x, y)
    F.cosine_embedding_loss(x, y, t.tensor([1, -1, 1, -1, 1, -1]), reduction="none")
    F.triplet_margin_loss(x, y, x, reduction="none")
    F.triplet_margin_loss(x, y, y, margin=0.5, reduction="none")
    F.triplet_margin_loss(x, y, y + 1, swap=True, reduction="none")
    F.multilabel_soft_margin_loss(x, y)
    F.cross_entropy(x, t.tensor([0, 1, 2, 3, 0, 1]))
    F.cross_entropy(x, y)
    F.cross_entropy(x, t.tensor([0, 1, 2, 3, 0, 1]), label_smoothing=0.1)
    F.log_softmax(t.where(x == 0, -inf, x), 1)
    F.softmax(t.where(x == 0, -inf, x), 1)
""")  # fmt: skip
MARGINS = cases("x", """
    F.multi_margin_loss(x, t.tensor([0, 1, 2, 3, 0, 1]))
    F.multi_margin_loss(x, t.tensor([0, 1, 2, 3, 0, 1]), p=2, margin=0.5)
    F.multilabel_margin_loss(x, t.tensor([[0, -1, 1, 1]] * 6))
""")  # fmt: skip


@pytest.mark.parametrize("name", ROW_LOSSES)
def test_losses_of_rows(name):
    kink(ROW_LOSSES[name], LEFT, RIGHT)


@pytest.mark.parametrize("name", MARGINS)
def test_margins(name):
    kink(MARGINS[name], LEFT, second=False)


INPUT = np.tile([-INF, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, INF, NAN, 0.5, 1.0, 0.0, 1.5], 16)
TARGET = np.tile([1.0, -1.0, -1.0, 0.5, 0.0, 0.0, 0.5, 0.0, 1.0, 1.0, 1.0, NAN, 1.0, 1.0, 0.5], 16)
SIGN = "t.where(y.detach() > 0, 1.0, -1.0).to(x.dtype)"
LOSSES = cases("x, y", f"""
    F.l1_loss(x, y, reduction="none")
    F.l1_loss(x[3:9], y[3:9])
    F.l1_loss(x[3:9], y[3:9], reduction="sum")
    F.smooth_l1_loss(x, y, reduction="none")
    F.smooth_l1_loss(x, y, reduction="none", beta=0.5)
    F.smooth_l1_loss(x, y, reduction="none", beta=0.0)
    F.smooth_l1_loss(x[3:9], y[3:9])
    F.huber_loss(x, y, reduction="none")
    F.huber_loss(x, y, reduction="none", delta=1.5)
    F.huber_loss(x[3:9], y[3:9])
    F.kl_div(x, y, reduction="none")
    F.kl_div(x, y, reduction="none", log_target=True)
    F.kl_div(x[3:9], y[3:9], reduction="sum")
    F.poisson_nll_loss(x, y, reduction="none")
    F.poisson_nll_loss(x, y, reduction="none", full=True)
    F.poisson_nll_loss(x, y, reduction="none", log_input=False, full=True)
    F.gaussian_nll_loss(x, y, t.full_like(x, 1e-8), reduction="none", full=True)
    F.soft_margin_loss(x, y.detach(), reduction="none")
    F.binary_cross_entropy_with_logits(x, y, reduction="none")
    F.binary_cross_entropy_with_logits(x, y, pos_weight=t.full_like(x, 2.0), reduction="none")
    F.hinge_embedding_loss(x, {SIGN}, margin=0.0, reduction="none")
    F.hinge_embedding_loss(x, {SIGN}, margin=1.0, reduction="none")
    F.margin_ranking_loss(x, y, {SIGN}, margin=0.0, reduction="none")
    F.margin_ranking_loss(x, y, {SIGN}, margin=1.0, reduction="none")
""")  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    kink(LOSSES[name], INPUT, TARGET)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_binary_cross_entropy(reduction):
    x, y = np.tile([0.0, 1.0, 0.0, 1.0, 0.5, 1e-13], 16), np.tile([0.0, 1.0, 1.0, 0.0, 0.0, 1.0], 16)
    kink(lambda t, x, y: t.nn.functional.binary_cross_entropy(x, y, reduction=reduction), x, y, low=True)


# -- singular matrices ---------------------------------------------------------------------------------


def expansion(a):
    """The determinant as a polynomial, by expansion along the first row."""
    if len(a) == 1:
        return a[0, 0]
    columns = range(len(a))
    return sum((-1) ** j * a[0, j] * expansion(a[1:, [k for k in columns if k != j]]) for j in columns)


def _of_rank(n, rank, kind):
    rng = np.random.RandomState(n + rank)
    left, right = rng.randint(-2, 3, (n, rank)), rng.randint(-2, 3, (rank, n))
    return (left @ right).astype(float) if kind == "real" else (left @ right) + 1j * (right.T @ left.T)


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("n, rank", [(1, 1), (1, 0), (2, 2), (2, 1), (2, 0), (3, 3), (3, 2), (3, 1), (4, 3), (4, 2)])
def test_determinants(n, rank, kind):
    """PyTorch's gradient is rough at some singular matrices: the measure is the polynomial's."""
    kink(lambda t, a: t.det(a) if t is torchlike else expansion(a), _of_rank(n, rank, kind))


def test_determinants_are_those_of_pytorch():
    kink(lambda t, a: t.det(a), np.stack([_of_rank(3, 3, "real"), np.eye(3)]))
    kink(lambda t, a: t.linalg.det(a), np.zeros((0, 0)))
    kink(lambda t, a: t.linalg.det(a), np.zeros((0, 3, 3)))
    kink(lambda t, a: t.linalg.det(a), np.zeros((3, 3)), second=False)


def test_third_derivatives_at_singular_matrices_are_nan_not_wrong():
    x = torchlike.zeros(3, 3, requires_grad=True)
    value, weights = torchlike.det(x), torchlike.arange(9.0).reshape(3, 3)
    for _ in range(2):
        (grad,) = torchlike.autograd.grad(value, x, create_graph=True)
        value = (grad * weights).sum()
    (third,) = torchlike.autograd.grad(value, x)
    assert third.isnan().all()
