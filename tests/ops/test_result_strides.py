"""Strides of results as PyTorch reports them: LAPACK's matrices lie by columns, rows are convolved as images."""

import pytest
from both import agree

LAPACK = {
    "cholesky": lambda t, a, s, b: (t.linalg.cholesky(s), t.linalg.cholesky(s, upper=True), t.linalg.cholesky_ex(s)),
    "cholesky_solve": lambda t, a, s, b: (t.cholesky_solve(b, s), t.cholesky_inverse(s)),
    "qr": lambda t, a, s, b: [t.linalg.qr(a, mode) for mode in ("reduced", "complete", "r")],
    "tall": lambda t, a, s, b: (t.linalg.qr(b), t.linalg.qr(b, "complete"), t.linalg.svd(b), t.linalg.lu_factor(b)),
    "svd": lambda t, a, s, b: (t.linalg.svd(a), t.svd(a), t.linalg.svd(b, full_matrices=False)),
    "eigh": lambda t, a, s, b: (t.linalg.eigh(s), t.linalg.eig(a), t.linalg.eigvalsh(s)),
    "inv": lambda t, a, s, b: (t.linalg.inv(s), t.linalg.inv_ex(s), t.inverse(s), t.linalg.pinv(s)),
    "matrix_power": lambda t, a, s, b: [t.linalg.matrix_power(s, n) for n in (-2, -1, 0, 1, 2)],
    "solve": lambda t, a, s, b: (t.linalg.solve(s, b), t.linalg.solve(s, b.mT, left=False), t.linalg.solve_ex(s, b)),
    "solve vectors": lambda t, a, s, b: t.linalg.solve(s, b.sum(-1)),
    "solve_triangular": lambda t, a, s, b: [
        t.linalg.solve_triangular(s, b, upper=True),
        t.linalg.solve_triangular(s, b.mT, upper=True, left=False),
    ],
    "lu": lambda t, a, s, b: (t.linalg.lu(s), t.linalg.lu_factor(s), t.linalg.lu_factor_ex(s)),
    "lu_solve": lambda t, a, s, b: [
        t.linalg.lu_solve(*t.linalg.lu_factor(s), b),
        t.linalg.lu_solve(*t.linalg.lu_factor(s), b.mT, left=False),
    ],
    "ldl": lambda t, a, s, b: (t.linalg.ldl_factor(s), t.linalg.ldl_solve(*t.linalg.ldl_factor(s), b)),
    "lstsq": lambda t, a, s, b: (t.linalg.lstsq(s, b).solution, t.linalg.lstsq(b, b).solution),
    "lstsq of vectors": lambda t, a, s, b: (t.linalg.lstsq(s, b.sum(-1)).solution, t.linalg.lstsq(b, b.sum(-1))[0]),
    "householder": lambda t, a, s, b: (t.geqrf(a), t.linalg.householder_product(*t.geqrf(a)), t.ormqr(*t.geqrf(a), b)),
    "what follows": lambda t, a, s, b: (t.linalg.inv(s) + 1, t.linalg.inv(s) @ a, t.linalg.inv(s).clone()),
}


def strides(x):
    return [strides(y) for y in x] if isinstance(x, tuple | list) else (x.shape, x.stride())


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (0, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("name", LAPACK)
def test_of_lapack(name, shape):
    def run(t):
        a = t.ones(shape, dtype=t.float64).cumsum(-1).tril() + t.eye(shape[-1], dtype=t.float64)
        s = a @ a.mT + 3 * t.eye(shape[-1], dtype=t.float64)
        return strides(LAPACK[name](t, a, s, a[..., :2].contiguous()))

    agree(run)


def test_by_columns_is_told_by_every_user_of_it():
    def run(t):
        s = t.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
        x = t.linalg.inv(s)
        x.sum().backward()
        out = [t.empty(0), t.empty(2, 2)]
        for o in out:
            t.linalg.inv(s.detach(), out=o)
        found = [x.is_contiguous(), x.mT.is_contiguous(), x.reshape(4), x.flatten().stride(), s.grad.stride()]
        return [*found, *[o.stride() for o in out], x.detach().mT.view(4)]

    agree(run)


ROWS = {
    "avg_pool1d": lambda t, x, w: t.nn.functional.avg_pool1d(x, 2),
    "adaptive_avg_pool1d": lambda t, x, w: t.nn.functional.adaptive_avg_pool1d(x, 3),
    "adaptive_max_pool1d": lambda t, x, w: t.nn.functional.adaptive_max_pool1d(x, 3, return_indices=True),
    "max_pool1d": lambda t, x, w: t.nn.functional.max_pool1d(x, 2),
    "conv1d": lambda t, x, w: [t.nn.functional.conv1d(x, w), t.nn.functional.conv1d(x.contiguous(), w)],
    "conv1d of a contiguous weight": lambda t, x, w: t.nn.functional.conv1d(x, w.contiguous()),
    "conv_transpose1d": lambda t, x, w: t.nn.functional.conv_transpose1d(x, w),
    "isclose": lambda t, x, w: t.isclose(x, x),
    "put": lambda t, x, w: t.put(x, t.tensor([0]), t.tensor([1.0])),
    "addr": lambda t, x, w: t.addr(w[0], t.ones(3), t.ones(3)),
}


@pytest.mark.parametrize("name", ROWS)
def test_of_rows(name):
    def run(t):
        x, w = (t.ones(s).mT.contiguous().mT for s in ((2, 3, 9), (3, 3, 3)))
        return strides(ROWS[name](t, x, w))

    agree(run)


# Memory orders of what an attention reads: (batch, heads, positions, channels) of the given sizes.
ORDERS = {
    "contiguous": lambda t, b, h, n, d: t.zeros(b, h, n, d),
    "positions first": lambda t, b, h, n, d: t.zeros(b, n, h, d).transpose(1, 2),
    "a third": lambda t, b, h, n, d: t.zeros(b, n, 3 * h * d).chunk(3, -1)[0].view(b, n, h, d).transpose(1, 2),
    "heads first": lambda t, b, h, n, d: t.zeros(h, b, n, d).transpose(0, 1),
    "positions before batches": lambda t, b, h, n, d: t.zeros(n, b, h, d).permute(1, 2, 0, 3),
    "one head": lambda t, b, h, n, d: t.zeros(b, 1, n, d).expand(b, h, n, d),
    "one batch": lambda t, b, h, n, d: t.zeros(1, n, h, d).transpose(1, 2).expand(b, h, n, d),
    "channels before positions": lambda t, b, h, n, d: t.zeros(b, h, d, n).mT,
    "every other": lambda t, b, h, n, d: t.zeros(b, n, h, 2 * d)[..., ::2].transpose(1, 2),
    "some rows": lambda t, b, h, n, d: t.zeros(b, h, n + 2, d)[:, :, 1:-1],
}


@pytest.mark.parametrize("query", ORDERS)
def test_of_attention(query):
    def run(t):
        attend = t.nn.functional.scaled_dot_product_attention
        keys = [ORDERS[name](t, 2, 3, 4, 8) for name in ("contiguous", "positions first", "channels before positions")]
        found = [attend(ORDERS[query](t, 2, 3, 4, 8), key, value) for key in keys for value in keys]
        return [strides(x) for x in (*found, attend(ORDERS[query](t, 2, 3, 4, 8), keys[0], keys[1], is_causal=True))]

    agree(run)


SIZES = {  # of query, key and value
    "more keys": ((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8)),
    "keys of one batch": ((2, 3, 4, 8), (1, 3, 4, 8), (1, 3, 4, 8)),
    "keys of one head": ((2, 3, 4, 8), (2, 1, 4, 8), (2, 1, 4, 8)),
    "other channels": ((2, 3, 4, 8), (2, 3, 4, 8), (2, 3, 4, 6)),
    "no queries": ((2, 3, 0, 8), (2, 3, 4, 8), (2, 3, 4, 8)),
    "no keys": ((2, 3, 4, 8), (2, 3, 0, 8), (2, 3, 0, 8)),
    "one of each": ((1, 1, 1, 8), (1, 1, 1, 8), (1, 1, 1, 8)),
    "one query": ((2, 3, 1, 8), (2, 3, 4, 8), (2, 3, 4, 8)),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_of_attention_of_sizes(sizes):
    def run(t):
        return strides(t.nn.functional.scaled_dot_product_attention(*[ORDERS["positions first"](t, *s) for s in sizes]))

    agree(run)


def test_of_attention_with_options():
    def run(t):
        attend, of = t.nn.functional.scaled_dot_product_attention, ORDERS["positions first"]
        x, two = of(t, 2, 4, 5, 8), of(t, 2, 2, 5, 8)
        masks = [t.zeros(*size) for size in ((5, 5), (1, 5), (2, 1, 5, 5), (4, 5, 5), (1, 1, 1, 5))]
        found = [attend(x, x, x, attn_mask=mask) for mask in masks] + [attend(x, two, two, enable_gqa=True)]
        found += [attend(x, x, x, dropout_p=0.5), attend(x[0], x[0], x[0]), attend(x[None], x[None], x[None])]
        return [strides(y) for y in found], attend(x, x, x).transpose(1, 2).view(2, 5, 32).shape

    agree(run)


@pytest.mark.parametrize("turns", [-4, -1, 0, 1, 2, 3, 4])
def test_of_rotations(turns):
    agree(lambda t: [strides(t.rot90(t.zeros(2, 3, 4).mT, turns, d)) for d in ([0, 1], [1, 2], [0, 2])])


PRODUCTS = [
    "bqd,bkd->bqk", "bchw,cd->bdhw", "bqk,bkhd->bqhd", "bhqk,bkhd->bqhd", "bhqk,bkhd->bhqd", "ij,j->ij", "ij,j->ji",
    "i,j->ji", "i,j->ij", "ij,ij->ji", "aij,bij->ab", "aij,bij->ba", "ijk,kl->lij", "iij,jk->ki",
    "...ij,...jk->...ki", "ijk,k->ij", "ij,kl->kijl", "ab,ab->", "bn,anm,bm->ba", "bij,b->ij", "ij,jk,k->ki",
    ",ij->ji", "bef,gbf->bge", "dea,cd->eac", "aed,e->de", "fed,fae->eaf",
]  # fmt: skip
LENGTHS = dict(zip("abcdefghijklmnqw", (2, 3, 4, 5, 6, 7, 8, 2, 3, 4, 5, 6, 7, 2, 4, 3), strict=True))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("equation", PRODUCTS)
def test_of_einsum(equation, turned):
    def run(t):
        sizes = [[LENGTHS[c] for c in term.replace("...", "a")] for term in equation.partition("->")[0].split(",")]
        operands = [t.zeros(size[::-1]).permute([*reversed(range(len(size)))]) for size in sizes]
        operands = operands if turned else [x.contiguous() for x in operands]
        return strides(t.einsum(equation, *operands))

    agree(run)


def test_einsum_lets_dropout_draw_as_pytorch():
    def run(t):
        t.manual_seed(0)
        weights = t.einsum("bqhd,bkhd->hbqk", t.ones(2, 3, 4, 5), t.ones(2, 6, 4, 5))
        values = t.einsum("bchw,cd->bdhw", t.ones(2, 3, 4, 5), t.ones(3, 6))
        return t.nn.functional.dropout(weights), t.nn.functional.dropout(values)

    agree(run)
