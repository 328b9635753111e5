"""``torch.lobpcg`` and outputs that PyTorch refuses."""

import pytest
from both import agree, agree_error
from story_kit import said, story

import torchlike


def matrix(t, n=9):
    x = (t.arange(float(n * n), dtype=t.float64) * 7 % 11).reshape(n, n)
    return x @ x.mT + t.diag(t.arange(float(n), dtype=t.float64))


def values(pairs, t, a, b=None):
    """Eigenvalues, how well the pairs fit, and the products of the vectors; their signs are free."""
    e, x = pairs
    other = x if b is None else b @ x
    fits = (a @ x - other * e[..., None, :]).abs().amax() < 1e-4
    return e.round(decimals=5), fits, (x.mT @ other).round(decimals=5) + 0.0


@story
def test_eigenpairs(t):
    a = matrix(t)
    b = t.diag(t.arange(1.0, 10.0, dtype=t.float64))
    made = {"niter": 1000, "tol": 1e-13}
    return [
        values(t.lobpcg(a, **made), t, a), values(t.lobpcg(a, 2, **made), t, a),
        values(t.lobpcg(a, 2, B=b, **made), t, a, b),
        values(t.lobpcg(a, 3, largest=False, **made), t, a), t.lobpcg(t.stack([a, a]), 1)[1].shape,
        values(t.lobpcg(a, X=t.eye(9, 2, dtype=t.float64), **made), t, a), type(t.lobpcg(a)).__name__,
    ]  # fmt: skip


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_sparse_matrices(layout):
    def run(t):
        a = matrix(t)
        b = t.diag(t.arange(1.0, 10.0, dtype=t.float64))
        few = [x.to_sparse(layout=getattr(t, layout)) for x in (a, b)]
        made = {"niter": 1000, "tol": 1e-13}
        pairs = t.lobpcg(few[0], 2, **made), t.lobpcg(few[0], 2, B=few[1], **made), t.lobpcg(a, 2, B=few[1], **made)
        return [values(pairs[0], t, a), *[values(p, t, a, b) for p in pairs[1:]]]

    agree(run)


def test_gradients_of_sparse_matrices():
    match = "lobpcg.backward does not support sparse input"
    agree_error(lambda t: t.lobpcg(matrix(t).to_sparse().requires_grad_(), 2)[0].sum().backward(), match)


@story
def test_gradient_of_an_eigenvalue(t):
    a = matrix(t).requires_grad_()
    e, _ = t.lobpcg(a, 1, niter=1000, tol=1e-13)
    return t.autograd.grad(e.sum(), a)[0].round(decimals=5) + 0.0


@pytest.mark.parametrize("n", range(3))
def test_errors(n):
    f, match = [
        (lambda t: t.lobpcg(matrix(t), 4), r"rows \(=9\) is smaller than 3 x the .* eigenpairs \(=4\)"),
        (lambda t: t.lobpcg(t.ones(3, 4), 1), "A must be square"),
        (lambda t: t.lobpcg(t.ones(9, 9, dtype=t.int64), 1), "."),
    ][n]
    agree_error(f, match)


def test_a_tracker_is_refused():
    with pytest.raises(NotImplementedError, match="tracker"):
        torchlike.lobpcg(matrix(torchlike), tracker=print)


OUTPUTS = (
    """
t.gather(x, 0, i, out=t.empty(2, 3).double())|t.gather(x, 0, i, out=x)|t.gather(i, 0, i, out=i)
t.take(y, i[0], out=y[:3])|t.take(y, i[0], out=y[:3].double())|t.masked_select(y, y > 0, out=y)
t.kthvalue(y, 1, out=(y[0], i[0, 0]))|t.kthvalue(x, 1, out=(x[:, 0], t.empty(2).long()))
t.kthvalue(x, 1, out=(t.empty(2).double(), t.empty(2).long()))|t.cat([y, y[:0]], out=t.empty(0))
t.aminmax(x, dim=0, out=(t.empty(3).double(), t.empty(3)))|t.index_select(x, 0, i[0], out=x)
t.index_select(x, 0, i[0], out=t.empty(3, 3).double())|t.cumsum(y, 0, out=y)|t.sort(y, out=(y, t.empty(6).long()))
t.sort(y, out=(y.double(), t.empty(6).long()))|t.argmax(x, 0, out=t.empty(3))|t.scatter(x, 0, i, x, out=x)
t.max(x, 0, out=(x[0], t.empty(3).long()))|t.max(x, 0, out=(x[0].double(), t.empty(3).long()))
t.max(x, 0, out=(t.empty(3), t.empty(3).int()))|t.hash_tensor(x, out=t.empty(()))
t.mode(x, 0, out=(x[0], t.empty(3).long()))|t.median(x, 0, out=(t.empty(3).double(), t.empty(3).long()))
t.max(x, x, out=x)|t.add(x, x, out=x)
""".strip()
    .replace("\n", "|")
    .split("|")
)


@pytest.mark.parametrize("script", OUTPUTS)
def test_outputs(script):
    def run(t):
        x, y, i = t.arange(6.0).reshape(2, 3), t.arange(6.0), t.zeros(2, 3, dtype=t.int64)
        got = said(lambda: eval(script, {"t": t, "x": x, "y": y, "i": i}), "^$")
        return got.partition(":")[0] if isinstance(got, str) else got, x, y, i

    agree(run)


def test_a_refused_output_is_not_changed():
    y = torchlike.arange(3.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        torchlike.cat([y, y], out=y)
    assert y.tolist() == [0, 1, 2]


@story
def test_the_generator_is_where_pytorch_leaves_it(t):
    a, seen, start = matrix(t), [], t.ones(9, 1, dtype=t.float64)
    for given in ({"k": 1}, {"k": 3}, {"k": 1, "n": 2}, {"X": start}, {"k": 2, "method": "basic"}):
        t.manual_seed(1)
        t.lobpcg(a, **given)
        t.lobpcg(t.stack([a, a]), 2)
        seen.append(t.rand(2))
    return seen
