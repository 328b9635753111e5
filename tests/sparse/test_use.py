"""Sparse tensors in programs: graph networks, modules, compiled functions, transforms, threads, hooks."""

import copy
import io
import threading

import numpy as np
import pytest
import torch
from both import agree, agree_error, attempt
from sparse_kit import M, S, U, cases, leaf, same

import torchlike

EDGES = np.random.default_rng(0).integers(0, 12, (2, 40))


def graph(t, weights=None):
    """A normalised adjacency matrix of 12 nodes."""
    weights = t.linspace(0.1, 1.0, 40, dtype=t.float64) if weights is None else weights
    return t.sparse_coo_tensor(t.tensor(EDGES), weights, (12, 12))


def network(t):
    class Convolution(t.nn.Module):
        def __init__(self, n, m):
            super().__init__()
            self.weight = t.nn.Parameter(t.linspace(-1, 1, n * m, dtype=t.float64).reshape(n, m))
            self.bias = t.nn.Parameter(t.zeros(m, dtype=t.float64))

        def forward(self, x, adj):
            return t.spmm(adj, t.mm(x, self.weight)) + self.bias

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Convolution(5, 4), Convolution(4, 3)

        def forward(self, x, adj):
            return t.log_softmax(self.second(t.relu(self.first(x, adj)), adj), 1)

    return Net()


@pytest.mark.parametrize("prepare", [lambda a: a, lambda a: a.coalesce(), lambda a: a.to_sparse_csr(), lambda a: a.t()])
def test_graph_convolution(prepare):
    def f(t):
        net, adj, x = network(t), prepare(graph(t)), t.linspace(-1, 1, 60, dtype=t.float64).reshape(12, 5)
        opt, losses = t.optim.Adam(net.parameters(), lr=0.1), []
        for _ in range(4):
            opt.zero_grad()
            loss = t.nn.functional.nll_loss(net(x, adj), t.arange(12) % 3)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        return losses, net.first.weight.detach()

    agree(f)


def test_graph_attention():
    """Attention over edges, as PyTorch's examples of graph attention networks compute it."""

    def f(t):
        h = leaf(t.linspace(-1, 1, 36, dtype=t.float64).reshape(12, 3))
        a = leaf(t.linspace(-1, 1, 6, dtype=t.float64))
        edges = t.tensor(EDGES)
        scores = t.exp(-t.nn.functional.leaky_relu(t.cat([h[edges[0]], h[edges[1]]], 1) @ a, 0.2))
        adj = t.sparse_coo_tensor(edges, scores, (12, 12))
        sums = t.sparse.mm(adj, t.ones(12, 1, dtype=t.float64)) + 1e-3
        out = t.nn.functional.elu(t.sparse.mm(adj, h) / sums)
        out.square().sum().backward()
        shown = out.detach(), h.grad, a.grad, t.sparse.softmax(adj.detach(), 1).to_dense()
        return [x.round(decimals=8) + 0.0 for x in shown]

    agree(f)


def module(t):
    m = t.nn.Module()
    m.register_buffer("adj", U(t))
    m.weight = t.nn.Parameter(S(t))
    return m


@cases(
    lambda t: dict(module(t).state_dict()),
    lambda t: [m := module(t), m.load_state_dict(module(t).state_dict()), m.adj][2],
    lambda t: [m := module(t).double(), m.adj, m.weight][1:],
    lambda t: copy.deepcopy(module(t).adj),
    lambda t: list(module(t).parameters()),
    lambda t: t.nn.Sequential(t.nn.Linear(3, 2, bias=False))[0].weight.new_zeros(2, layout=t.sparse_coo),
)
def test_modules(f):
    same(f)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags(mode):
    def f(t):
        bag = t.nn.EmbeddingBag(5, 2, sparse=True, mode=mode)
        with t.no_grad():
            bag.weight.copy_(t.arange(10.0).reshape(5, 2))
        out = bag(t.tensor([1, 2, 1, 4]), t.tensor([0, 3]))
        (out * t.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        return out.detach(), bag.weight.grad.coalesce()

    same(f)


@pytest.mark.parametrize("make", [S, lambda t: S(t).to_sparse_csr(), lambda t: S(t).to_sparse_bsr((2, 3))])
def test_compiled(make):
    """A compiled function ends the program where it meets a sparse tensor; other tensors give other results."""
    f = torchlike.compile(lambda a, b: (a @ (b * 2)).relu() + a._nnz() if a.is_sparse else (a @ b) * a.shape[0])
    m = M(torchlike)
    eager = lambda a, b: (a @ (b * 2)).relu() + a._nnz() if a.is_sparse else (a @ b) * a.shape[0]  # noqa: E731
    for a in (make(torchlike), make(torchlike) * 3, U(torchlike), m.new_ones(2, 3)):
        assert torchlike.equal(f(a, m), eager(a, m))
        assert torchlike.equal(f(a, m + 1), eager(a, m + 1))


def test_compiled_alone():
    """A function whose first argument is sparse, and nothing else happens."""
    f = torchlike.compile(lambda a, b: a @ b)
    for a in (S(torchlike), S(torchlike).to_sparse_csr(), S(torchlike).to_sparse_bsr((1, 1))):
        assert torchlike.equal(f(a, M(torchlike)), a @ M(torchlike))


@pytest.mark.parametrize("make", [S, lambda t: S(t).to_sparse_csr(), lambda t: S(t).to_sparse_bsr((2, 3))])
def test_products_with_numbers(make):
    agree_error(lambda t: make(t) @ 3, "Tensor.*int")


def test_compiled_closure_sees_a_change():
    adj = S(torchlike)
    f = torchlike.compile(lambda b: torchlike.spmm(adj, b).sum())
    before = f(M(torchlike)).item()
    adj.mul_(2)
    assert f(M(torchlike)).item() == 2 * before
    adj._values().mul_(2)
    assert f(M(torchlike)).item() == 4 * before
    with pytest.raises(Exception, match="sparse"):
        torchlike.compile(lambda a, b: a @ b, fullgraph=True)(adj, M(torchlike))


def test_compiled_look_up():
    e = torchlike.nn.Embedding(4, 2, sparse=True)
    torchlike.compile(lambda i: e(i).sum())(torchlike.tensor([1, 2])).backward()
    assert e.weight.grad.is_sparse
    assert e.weight.grad.to_dense().tolist() == [[0, 0], [1, 1], [1, 1], [0, 0]]


def test_transforms():
    s, b = S(torchlike), torchlike.rand(3, 2)
    got = torchlike.func.grad(lambda b: (s @ b).tanh().sum())(b)
    assert torchlike.allclose(got, torchlike.func.grad(lambda b: (s.to_dense() @ b).tanh().sum())(b))
    for refused in (
        lambda: torchlike.vmap(lambda b: s @ b)(torchlike.ones(2, 3, 2)),
        lambda: torchlike.func.jvp(lambda b: s @ b, (b,), (b,)),
        lambda: torchlike.func.jacrev(torchlike.func.grad(lambda b: (s @ b).tanh().sum()))(b),
    ):
        with pytest.raises(NotImplementedError, match="sparse"):
            refused()
    agree(lambda t: list(parts(t.func.grad(lambda a: (a.to_dense() * 2).sin().sum())(S(t)))))


def parts(s):
    """Indices and values of a sparse tensor."""
    s = s.coalesce()
    return s.indices(), s.values()


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"])
def test_what_is_no_tensor_is_refused_as_ever(name):
    S(torchlike)  # from now on layouts are looked at
    more = {"full_like": (2,), "randint_like": (2,)}.get(name, ())
    agree_error(lambda t: getattr(t, name)(1, *more), "must be Tensor, not int|invalid combination")


def test_autocast_and_modes():
    def f(t):
        with t.inference_mode():
            inside = S(t) @ M(t)
        with t.no_grad():
            second = leaf(S(t)) @ M(t)
        return inside, second, second.requires_grad, inside.is_inference()

    same(f)
    with torchlike.autocast("cpu", dtype=torchlike.bfloat16):
        assert (S(torchlike) @ M(torchlike)).dtype is torchlike.bfloat16


def test_threads():
    """Graphs and sparse gradients of threads side by side."""
    results = {}

    def work(i):
        e = torchlike.nn.Embedding(6, 2, sparse=True)
        with torchlike.no_grad():
            e.weight.fill_(float(i))
        opt = torchlike.optim.SparseAdam(e.parameters(), lr=0.1)
        for k in range(5):
            opt.zero_grad()
            (e(torchlike.tensor([i, i, k])) ** 2).sum().backward()
            opt.step()
        results[i] = e.weight.detach().numpy()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    alone, together = dict(results), results
    for i in range(4):
        results = {}
        together = results
        work(i)
        np.testing.assert_allclose(together[i], alone[i], rtol=1e-6)


def test_optimizer_state_in_files():
    """A SparseAdam's state goes on in the other library."""

    def start(t, state=None):
        e = t.nn.Embedding(4, 2, sparse=True)
        with t.no_grad():
            e.weight.copy_(t.arange(8.0).reshape(4, 2))
        opt = t.optim.SparseAdam(e.parameters(), lr=0.1)
        if state is not None:
            state.seek(0)
            opt.load_state_dict(t.load(state))
        (e(t.tensor([1, 3])) ** 2).sum().backward()
        opt.step()
        return e, opt

    for ours, theirs in ((torchlike, torch), (torch, torchlike)):
        file = io.BytesIO()
        ours.save(start(ours)[1].state_dict(), file)
        assert repr(start(theirs, file)[0].weight) == repr(start(ours, file)[0].weight)


def test_steady_loops_compile_nothing(monkeypatch):
    """Other words of the same number, with other repetitions, need no new program."""
    e = torchlike.nn.Embedding(50, 4, sparse=True)
    opt = torchlike.optim.SparseAdam(e.parameters(), lr=0.1)

    def step(words):
        opt.zero_grad()
        e(torchlike.tensor(words)).square().sum().backward()
        opt.step()

    for k in range(70):
        step([k % 50, 1, 2, 3])
    import jax._src.compiler as compiler  # the one door of all compilations

    counted = []
    before = compiler.backend_compile_and_load
    monkeypatch.setattr(compiler, "backend_compile_and_load", lambda *a, **k: counted.append(1) or before(*a, **k))
    for k in range(10):
        step([k, k, k, k % 2])
    assert not counted


@cases(
    lambda t: t.testing.assert_close(S(t), S(t)),
    lambda t: t.testing.assert_close(U(t), U(t)),
    lambda t: t.testing.assert_close(S(t).to_sparse_csr(), S(t).to_sparse_csr()),
    lambda t: t.testing.assert_close(S(t), S(t).to_dense(), check_layout=False),
    lambda t: t.testing.assert_close([S(t)], [S(t) + S(t) * 1e-9]),
)
def test_close(f):
    same(f)


@pytest.mark.parametrize(
    ("f", "match"),
    [
        (lambda t: t.testing.assert_close(S(t), S(t) * 2), "Sparse COO values.*not close"),
        (lambda t: t.testing.assert_close(U(t), U(t).coalesce()), "number of specified values"),
        (lambda t: t.testing.assert_close(S(t).t(), S(t)), "shape"),
        (lambda t: t.testing.assert_close(S(t), S(t).to_dense()), "layout"),
        (
            lambda t: t.testing.assert_close(S(t), t.sparse_coo_tensor([[0, 1, 1], [1, 0, 2]], [3.0, 4.0, 5.0])),
            "indices",
        ),
        (lambda t: t.testing.assert_close(S(t).to_sparse_csr(), S(t).to_sparse_csr() * 2), "Sparse CSR values"),
    ],
)
def test_not_close(f, match):
    agree_error(f, match)


def test_gradcheck_of_values():
    x = S(torchlike, torchlike.float64).requires_grad_()
    m = torchlike.rand(3, 2, dtype=torchlike.float64, requires_grad=True)
    check = torchlike.autograd.gradcheck
    assert check(torchlike.sparse.mm, (x, m), masked=True)
    assert check(lambda x: x.to_dense(), x, masked=True, fast_mode=True)
    assert check(lambda x: x.to_dense(), x.detach().to_sparse_csr().requires_grad_(), masked=True)
    assert not check(lambda x: x.to_dense() * x.to_dense().detach(), x, masked=True, raise_exception=False)
    with pytest.raises(ValueError, match="Sparse output"):
        check(lambda x: x * 2, x, masked=True)


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x: t.sparse.sum(x),
        lambda t, x: t.sparse.mm(x, t.ones(3, 2, dtype=t.float64)).square(),
        lambda t, x: (x * 2).to_dense(),
        lambda t, x: x.t().to_dense(),
        lambda t, x: x.coalesce().values(),
        lambda t, x: x @ t.ones(3, 2, dtype=t.float64),
        lambda t, x: x * 2,
        lambda t, x: x + x,
        lambda t, x: x.t(),
        lambda t, x: x.coalesce(),
    ],
)
@pytest.mark.parametrize("how", [{}, {"masked": True}, {"fast_mode": True}], ids=str)
def test_second_derivatives_are_refused_whose_first_are_sparse_and_checked_otherwise(f, how):
    def script(t):
        x = S(t, t.float64).requires_grad_()
        found = attempt(lambda: t.autograd.gradgradcheck(lambda x: f(t, x), x, **how))
        return (type(found).__name__, str(found)) if isinstance(found, Exception) else found

    agree(script)


def test_gradcheck_refuses_sparse_outputs_of_dense_inputs():
    def script(t):
        x = t.ones(2, 2, dtype=t.float64, requires_grad=True)
        return t.autograd.gradcheck(lambda x: x.to_sparse(), x)

    agree_error(script, "Sparse output is not supported at gradcheck yet")


DENSE_DIMS = {
    "one": lambda x, t: x.to_sparse(dense_dim=1),
    "none": lambda x, t: x.to_sparse(dense_dim=0),
    "named": lambda x, t: x.to_sparse(layout=t.sparse_coo, dense_dim=1),
    "gradient": lambda x, t: t.autograd.grad(x.requires_grad_().to_sparse(dense_dim=1).to_dense().sin().sum(), x)[0],
    "all": lambda x, t: x.to_sparse(dense_dim=2),
    "negative": lambda x, t: x.to_sparse(dense_dim=-1),
    "no number": lambda x, t: x.to_sparse(dense_dim=1.5),
    "too many": lambda x, t: x.to_sparse(layout=t.sparse_csr, dense_dim=1),
    "too many for csr": lambda x, t: x.to_sparse_csr(1),
    "none for csr": lambda x, t: x.to_sparse_csr(0),
    "none for bsr": lambda x, t: x.to_sparse_bsr((1, 2), 0),
    "no option of coo": lambda x, t: x.to_sparse_coo(dense_dim=0),
    "of strided": lambda x, t: x.to_sparse(layout=t.strided, dense_dim=1),
    "with sparse_dim": lambda x, t: x.to_sparse(1, dense_dim=1),
    "of sparse": lambda x, t: x.to_sparse().to_sparse(dense_dim=0),
    "of csr": lambda x, t: x.to_sparse_csr().to_sparse(dense_dim=0),
    "csr of csr": lambda x, t: x.to_sparse_csr().to_sparse_csr(dense_dim=0),
    "blocks of coo": lambda x, t: x.to_sparse(layout=t.sparse_coo, blocksize=(1, 1)),
}


@pytest.mark.parametrize("case", DENSE_DIMS)
def test_dense_dim(case):
    def script(t):
        found = attempt(lambda: DENSE_DIMS[case](t.tensor([[0.0, 1, 0, 0], [2, 0, 0, 0]], dtype=t.float64), t))
        return type(found).__name__ if isinstance(found, Exception) else (str(found), found.layout is t.strided)

    agree(script)


def mended(t, layout, **keywords):
    values = t.tensor([[0.0, 1, 0, 0], [2, 0, 0, 0]], dtype=t.float64)
    return values.to_sparse(layout=getattr(t, layout), **keywords).requires_grad_()


SPARSE = {
    "coo": lambda t: mended(t, "sparse_coo"),
    "csr": lambda t: mended(t, "sparse_csr"),
    "csc": lambda t: mended(t, "sparse_csc"),
    "bsr": lambda t: mended(t, "sparse_bsr", blocksize=(1, 2)),
    "hybrid": lambda t: mended(t, "sparse_coo", dense_dim=1),
    "uncoalesced": lambda t: t.sparse_coo_tensor(
        [[0, 0], [1, 1]], [1.0, 2.0], (1, 2), dtype=t.float64, requires_grad=True
    ),
    "empty": lambda t: t.zeros(2, 2, dtype=t.float64).to_sparse().requires_grad_(),
    "complex": lambda t: t.eye(2, dtype=t.complex128).to_sparse().requires_grad_(),
}
OF_SPARSE = {
    "whole gradient": lambda x: x.to_dense(masked_grad=False).sin(),
    "masked gradient": lambda x: x.to_dense(masked_grad=True),
    "sum": lambda x: x.sum(),
    "sparse out": lambda x: x * 2,
    "detached": lambda x: x.to_dense(masked_grad=False) + x.detach().to_dense(),
}


@pytest.mark.parametrize(
    ("f", "layout"), [*[(f, "coo") for f in OF_SPARSE], *[("whole gradient", layout) for layout in SPARSE][1:]]
)
def test_gradcheck_of_all_elements(f, layout):
    """Elements that a sparse tensor does not have are perturbed too, unless ``masked``."""

    def script(t):
        found = attempt(lambda: t.autograd.gradcheck(OF_SPARSE[f], SPARSE[layout](t), masked=False))
        return (type(found).__name__, str(found).split("analytical")[0]) if isinstance(found, Exception) else found

    agree(script)


WITHIN = OF_SPARSE | {
    "product": lambda x: x @ x.to_dense().detach().T,
    "sparse product": lambda x: (x * 3).to_dense(masked_grad=True),
}
del WITHIN["detached"]  # its gradient is wrong too, which is found first


@pytest.mark.parametrize("layout", ["coo", "csr", "hybrid"])
@pytest.mark.parametrize("f", WITHIN)
def test_masked_gradcheck_finds_gradients_beyond_the_elements(f, layout):
    """A dense gradient that is not 0 where the input has no element is a mismatch, but for fast mode."""

    def script(t):
        found = attempt(lambda: t.autograd.gradcheck(WITHIN[f], SPARSE[layout](t), masked=True))
        told = (type(found).__name__, str(found).partition(",")[0]) if isinstance(found, Exception) else found
        quiet = attempt(lambda: t.autograd.gradcheck(WITHIN[f], SPARSE[layout](t), masked=True, raise_exception=False))
        return told, quiet if isinstance(quiet, bool) else None

    agree(script)


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
@pytest.mark.parametrize("f", [lambda x: x.to_dense(), lambda x: x @ x.to_dense(), lambda x: x * 2])
def test_fast_gradcheck_of_sparse_inputs(f, layout):
    """It perturbs the values that are there, whatever ``masked`` says, as PyTorch's."""

    def script(t, masked):
        x = t.eye(3, dtype=t.float64).to_sparse(layout=getattr(t, layout)).requires_grad_()
        found = attempt(lambda: t.autograd.gradcheck(f, x, masked=masked, fast_mode=True))
        return (type(found).__name__, str(found)) if isinstance(found, Exception) else found

    for masked in (None, False, True):
        agree(lambda t, masked=masked: script(t, masked))


def turned(t):
    """What transposing in place leaves: the matrix, gradients through it, and what others do to the result."""
    leaf_ = leaf(S(t).to_dense()).to_sparse()
    made = leaf_ * 2
    same_one = made.t_() is made
    back = S(t).transpose_(0, 1).swapaxes_(0, 1).mul_(2)
    return made.shape, same_one, made.to_dense(), U(t).t_().coalesce().to_dense(), back.to_dense(), U(t).t_()._version


def test_transposed_in_place():
    """It was not, in silence."""
    same(turned)


@cases(
    lambda t: S(t).to_sparse_csr().t_(), lambda t: S(t).unsqueeze_(0), lambda t: S(t).squeeze_(),
    lambda t: S(t).to_sparse_csc().transpose_(0, 1),
)  # fmt: skip
def test_geometry_that_does_not_change_in_place(f):
    same(f, refuses=True)
