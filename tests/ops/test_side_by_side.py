"""What random calls beside PyTorch found to differ in values, dtypes and refusals: a line for each."""

import pytest
from both import agree, agree_error

INF, NAN = float("inf"), float("nan")
KINDS = ("bool", "uint8", "int8", "int32", "int64", "float32")
SUMS = "ii|ii->i|ij->i|ij->|ij->ji|ij|ji|ij,k->i|ij,k->k|ij,k->ik|ij,i->i|ii,j->j|ij,ij->ij|i,j,k->|i,i,i->i".split("|")
RAMP = lambda t, n, kind: (t.arange(90, 90 + 3**n) % 256).reshape((3,) * n).to(getattr(t, kind))  # noqa: E731

FAR = lambda t: t.tensor([[INF, -INF, NAN, 1e30, -1e30, 3e9, -3e9, 2e10, 1e19, -1e19, 0.3]])  # noqa: E731


def _positive(t):
    rows = t.tensor([[1 + 1j, 2, 0.5j], [0, 1 - 1j, 1], [0.25, 1j, 2]], dtype=t.complex128)
    return (rows @ rows.mH + t.eye(3)).requires_grad_()


VALUES = {
    "sums of integers in index notation are int64": lambda t: [
        t.einsum(e, *[RAMP(t, len(s), kind) for s in e.split("->")[0].split(",")])
        for e in SUMS for kind in KINDS
    ],
    "products of matrices of integers keep their dtype": lambda t: [
        t.einsum(e, *[RAMP(t, len(s), kind) for s in e.split("->")[0].split(",")])
        for e in ("ij,j->i", "ij,jk", "ij,kj->ki", "ij,jk,kl->il") for kind in KINDS[1:]
    ],
    "one element is not contracted": lambda t: [
        t.einsum("ij,jk->ik", t.ones(2, n, dtype=t.int32), t.ones(m, 3, dtype=kind))
        for n, m in ((1, 1), (1, 4), (4, 1)) for kind in (t.int32, t.int64, t.bool)
    ],
    "rows are renormalised by every norm": lambda t: [
        (t.nn.functional.embedding(t.tensor([0, 2]), w, max_norm=1.0, norm_type=p), w)
        for p in (1.0, 2.0, 3.0, 0.5, INF, -INF, 0.0, -1.0)
        for w in [t.tensor([[3.0, -1.0], [4.0, 5.0], [0.5, 2.0]], dtype=t.float64)]
    ],
    "a product that counts for nothing": lambda t: [
        f(t.full((2, 2), 2.0, dtype=kind), x, x, beta=beta, alpha=0)
        for kind in (t.float32, t.float64) for x in [t.tensor([[INF, 1], [NAN, 2]], dtype=kind)] for beta in (0, 1, 2)
        for f in (t.addmm, lambda c, a, b, **k: t.addmv(c[0], a, b[0], **k),
                  lambda c, a, b, **k: t.addbmm(c, a[None], b[None], **k))
    ],
    "gradients of complex Cholesky factors": lambda t: [
        t.autograd.grad((t.linalg.cholesky(x, upper=upper) * (1 + 2j) * t.arange(9.0).reshape(3, 3)).sum().real, x)
        for upper in (False, True) for x in [_positive(t)]
    ],
    "gradients of Cholesky factors, with a NaN above the diagonal": lambda t: [
        t.autograd.grad(t.linalg.cholesky(x, upper=upper).log().diagonal().sum(), x)
        for upper in (False, True) for x in [_positive(t).real.detach().requires_grad_()]
    ],
    "sums of integers that are sparse": lambda t: [
        (q.sum(0, keepdim=keep).to_dense(), q.sum(1).to_dense(), t.sparse.sum(q, 0).to_dense())
        for kind in (t.bool, t.uint8, t.int32) for keep in (False, True)
        for q in [t.full((2, 3), 200).to(kind).to_sparse()]
    ],
    "integers beyond 64 bits, by channels": lambda t: [
        t.fake_quantize_per_channel_affine(FAR(t).to(kind), t.tensor([0.1]), t.tensor([3]).to(zero), 0, *ends)
        for kind in (t.float32, t.float64, t.float16, t.bfloat16) for zero in (t.int32, t.float32)
        for ends in ((0, 255), (-8, 7))
    ],
    "curves of quantized tensors": lambda t: [
        (q.dequantize(), q.q_scale(), q.q_zero_point())
        for kind in (t.quint8, t.qint8, t.qint32) for f in (t.sigmoid, t.tanh, t.nn.functional.hardsigmoid)
        for q in [f(t.quantize_per_tensor(t.tensor([-3.0, -1, -0.1, 0, 0.1, 1, 3]), 0.1, 3, kind))]
    ],
    "lists that start with a tensor of no dimensions": lambda t: [
        getattr(t, f"_foreach_{f}")(a, b)
        for f in ("add", "sub", "mul", "div", "pow", "maximum", "clamp_min")
        for a in [[t.tensor(3.0), t.ones(2), t.tensor(2)]] for b in [[t.tensor(2), t.ones(2), t.tensor(1.5).double()]]
    ],
    "errors are not asked for": lambda t: [
        f(t.zeros(2, 2))[1] for f in (t.linalg.inv_ex, t.linalg.cholesky_ex, t.linalg.lu_factor_ex)
    ] + [t.linalg.solve_ex(t.zeros(2, 2), t.ones(2))[1]],
}  # fmt: skip
WHO = "expected scalar type"
REFUSED = {
    "a singular inverse": (lambda t: t.linalg.inv_ex(t.zeros(2, 2), check_errors=True)[1].item(), "singular"),
    "a singular system": (lambda t: t.linalg.solve_ex(*[t.zeros(2, 2)] * 2, check_errors=True)[1].item(), "singular"),
    "no positive matrix": (lambda t: t.linalg.cholesky_ex(-t.eye(3), check_errors=True)[1].item(), "positive-definite"),
    "a cross product of two dtypes": (lambda t: t.cross(t.ones(3), t.ones(3).double(), dim=0), WHO),
    "a cross product of integers and floats": (lambda t: t.linalg.cross(t.ones(3).int(), t.ones(3)), WHO),
    "a cross product of bools": (lambda t: t.linalg.cross(*[t.ones(3).bool()] * 2), "not implemented for 'Bool'"),
    "a product of bools": (lambda t: t.einsum("ij,jk", *[t.ones(2, 2).bool()] * 2), "not implemented for 'Bool'"),
    "a chain of bools": (lambda t: t.linalg.multi_dot([t.ones(2, 2).bool()] * 3), "not implemented for 'Bool'"),
    "numbers among tensors": (lambda t: t._foreach_add([t.ones(1)] * 2, [t.tensor(1), 2]), "expected Tensor as"),
    "tensors among numbers": (lambda t: t._foreach_add([t.ones(1)] * 2, [2, t.tensor(1)]), "expected"),
    "sums that no longer fit": (lambda t: t.einsum("ij,jk->i", *[t.ones(2, 2).int()] * 2), WHO),
    "integers of meta and of the CPU": (lambda t: t.ones(3, device="meta").int() * t.ones(3).int(), "not on the exp"),
    "a mask of the CPU": (lambda t: t.where(t.ones(3) > 0, t.ones(3, device="meta"), 0.0), "not on the expected"),
    "norms over no dimension": (lambda t: t.linalg.norm(t.ones(2, 3), dim=()), "must be of length 1 or 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_values(case):
    agree(VALUES[case])


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    agree_error(*REFUSED[case])
