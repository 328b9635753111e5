"""Gradients of and through sparse tensors, and training with them, as PyTorch's."""

import pytest
import torch
from both import agree
from sparse_kit import C, D, H, M, S, U, cases, leaf, same

import torchlike


def grads(f, *make):
    """A function of a library: the name of the node of ``f``'s result, and the gradients of the leaves ``make``."""

    def run(t):
        leaves = [leaf(m(t)) for m in make]
        out = f(t, *leaves)
        dense = out if out.layout is t.strided else out.to_dense()
        (dense * t.arange(1.0, dense.numel() + 1).reshape(dense.shape)).sum().backward()
        return out, out.grad_fn, [x.grad for x in leaves]

    return run


@cases(
    *[grads(f, S, M) for f in (
        lambda t, s, m: t.mm(s, m), lambda t, s, m: t.spmm(s, m), lambda t, s, m: s @ m,
        lambda t, s, m: t.sparse.mm(s, m), lambda t, s, m: t.addmm(t.ones(2, 4), s, m, beta=2, alpha=3),
        lambda t, s, m: t.sparse.addmm(t.ones(2, 4), s, m, beta=2, alpha=3))],
    *[grads(f, C, M) for f in (lambda t, s, m: s @ m, lambda t, s, m: t.sparse.mm(s, m))],
    *[grads(f, S, D) for f in (
        lambda t, s, d: d + s, lambda t, s, d: d - s, lambda t, s, d: t.add(d, s, alpha=2), lambda t, s, d: s * d,
        lambda t, s, d: d.T @ s)],
    *[grads(f, x) for x in (S, C) for f in (
        lambda t, s: s.to_dense(), lambda t, s: s.sum(), lambda t, s: s.t(), lambda t, s: s.transpose(0, 1),
        lambda t, s: -s, lambda t, s: s.abs(), lambda t, s: s * 2, lambda t, s: s.relu(), lambda t, s: s.clone(),
        lambda t, s: s.values(), lambda t, s: s.to_sparse_coo().to_dense(), lambda t, s: s.to_sparse_csr(),
        lambda t, s: s @ t.arange(3.0), lambda t, s: t.ones(4, 2) @ s)],
    *[grads(f, S) for f in (
        lambda t, s: s / 2, lambda t, s: s ** 2, lambda t, s: t.sparse.sum(s), lambda t, s: t.sparse.sum(s, 0),
        lambda t, s: t.sparse.sum(s, 1), lambda t, s: t.sparse.sum(s, [0, 1]), lambda t, s: t.sparse.softmax(s, 1),
        lambda t, s: t.sparse.log_softmax(s, 1), lambda t, s: t.sparse.softmax(s, 0), lambda t, s: s.permute(1, 0),
        lambda t, s: s.sparse_mask(U(t)), lambda t, s: t.stack([s, 2 * s]),
        lambda t, s: s * t.tensor(3.0))],
    *[grads(f, H) for f in (
        lambda t, s: s.to_dense(), lambda t, s: t.sparse.sum(s, 0), lambda t, s: t.sparse.sum(s, 1),
        lambda t, s: s * 2)],
    *[grads(f, D) for f in (
        lambda t, d: d.to_sparse(), lambda t, d: d.to_sparse(1), lambda t, d: d.to_sparse_csr(),
        lambda t, d: d.sparse_mask(S(t)), lambda t, d: d.sparse_mask(U(t)).coalesce())],
    grads(lambda t, v: t.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], v, (2, 3)), lambda t: t.arange(3.0)),
    grads(lambda t, v: t.sparse_coo_tensor([[0, 1, 1], [2, 2, 2]], v, (2, 3)), lambda t: t.arange(3.0)),
    grads(lambda t, v: t.sparse_coo_tensor([[0, 1, 1], [2, 2, 2]], v, (2, 3)) @ M(t), lambda t: t.arange(3.0)),
    grads(lambda t, v: t.sparse.mm(_of(v, t), M(t)), lambda t: t.arange(3.0)),
    grads(lambda t, v: t.sparse_csr_tensor([0, 1, 3], [2, 0, 2], v, (2, 3)) @ M(t), lambda t: t.arange(3.0)),
    grads(lambda t, v: t.sparse_coo_tensor([[0, 1, 1]], v, (3, 2)), lambda t: t.arange(6.0).reshape(3, 2)),
)  # fmt: skip
def test_gradients(f):
    same(f)


@cases(
    *[grads(f, S) for f in (
        lambda t, s: s.sin(), lambda t, s: s.sqrt(), lambda t, s: s.select(0, 1), lambda t, s: s[1],
        lambda t, s: s.index_select(1, t.tensor([2, 0])), lambda t, s: t.cat([s, s]), lambda t, s: s.unsqueeze(0))],
)  # fmt: skip
def test_refused_gradients(f):
    same(f, refuses=True)


@cases(
    lambda t: _accumulated(t, lambda s: s.to_dense().sum(), 2),
    lambda t: _accumulated(t, lambda s: s.to_dense().sum() + (s @ M(t)).sum(), 1),
    lambda t: [x := leaf(S(t)), x.register_hook(lambda g: g * 2), x.to_dense().sum().backward(), x.grad][3],
    lambda t: [x := leaf(S(t)), y := x * 2, y.retain_grad(), y.to_dense().sum().backward(), x.grad, y.grad][4:],
    lambda t: [x := leaf(S(t)), t.autograd.grad(x.to_dense().sum(), x)][1],
)
def test_leaves(f):
    same(f)


def test_second_backward():
    same(lambda t: [x := leaf(S(t)), y := (x @ M(t)).sum(), y.backward(), y.backward()], refuses=True)


def _accumulated(t, f, times):
    x = leaf(S(t))
    for _ in range(times):
        f(x).backward()
    return x.grad.to_dense(), x.grad.layout


def test_second_derivatives():
    """Those of PyTorch's sparse product are not those of the dense one; ours are."""

    def f(t, sparse):
        v, w = leaf(t.arange(1.0, 4.0)), leaf(M(t))
        x = t.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], v * v, (2, 3))
        if not sparse:
            x = t.zeros(2, 3).index_put((t.tensor([0, 1, 1]), t.tensor([2, 0, 2])), v * v)
        out = ((t.sparse.mm(x, w) if sparse else x @ w) ** 2).sum()
        first = t.autograd.grad(out, (v, w), create_graph=True)
        return [x.detach() for x in (*first, *t.autograd.grad(first[0].sum() + first[1].sum(), (v, w)))]

    same(lambda t: f(t, sparse=t is torchlike))


def test_saved_tensor_changed():
    def f(t):
        m = M(t)
        x = leaf(S(t))
        out = (x @ m).sum()
        m.add_(1)
        out.backward()

    same(f, refuses=True)


def test_dense_by_sparse_has_no_gradient_of_the_dense():
    def f(t):
        x = leaf(t.ones(2, 2))
        t.sparse.addmm(t.ones(2, 3), x, S(t).to_sparse_csr()).sum().backward()

    same(f, refuses=True)


def test_what_nodes_saved():
    def f(t):
        x, m = leaf(S(t)), leaf(M(t))
        product, same_twice = (x @ m).grad_fn, (x * x).grad_fn
        return [product._saved_self, product._saved_mat2, same_twice._saved_self, hasattr(same_twice, "_saved_mat")]

    same(f)


def test_gradcheck():
    x = S(torchlike, torchlike.float64).requires_grad_()
    m = torchlike.rand(3, 2, dtype=torchlike.float64, requires_grad=True)
    assert torchlike.autograd.gradcheck(lambda v: _of(v) @ m.detach(), x.values().detach().requires_grad_())
    assert torchlike.autograd.gradcheck(
        lambda v, m: torchlike.sparse.mm(_of(v), m), (x.values().detach().requires_grad_(), m)
    )


def _of(v, t=torchlike):
    return t.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], v, (2, 3))


# -- look-ups ----------------------------------------------------------------------------------------------

WORDS = [[1, 2], [1, 4]]


def table(t, **kwargs):
    e = t.nn.Embedding(5, 2, sparse=True, **kwargs)
    with t.no_grad():
        e.weight.copy_(t.arange(10.0).reshape(5, 2))
    return e


def looked_up(t, *rounds, **kwargs):
    e = table(t, **kwargs)
    shown = []
    for words in rounds:
        out = e(t.tensor(words))
        (out * t.arange(1.0, out.numel() + 1).reshape(out.shape)).sum().backward()
        shown.append((out, e.weight.grad.coalesce() if e.weight.grad.is_sparse else e.weight.grad))
    return shown


@cases(
    lambda t: looked_up(t, WORDS),
    lambda t: looked_up(t, WORDS, [[0, 0]]),
    lambda t: looked_up(t, WORDS, padding_idx=1),
    lambda t: looked_up(t, [[1, 1]], padding_idx=1),
    lambda t: looked_up(t, [3]),
    lambda t: [e := table(t), e(t.tensor(WORDS)).sum().backward(), e.weight.grad._nnz(), e.weight.grad.is_coalesced()],
    lambda t: [e := table(t), (e(t.tensor(WORDS)).sum() + e.weight.sum()).backward(), e.weight.grad],
    lambda t: [e := table(t), (e.weight * 2).sum().backward(), e(t.tensor(WORDS)).sum().backward(), e.weight.grad],
    lambda t: [w := leaf(D(t)), t.gather(w, 1, t.tensor([[0, 0], [1, 1]]), sparse_grad=True).sum().backward(), w.grad],
    lambda t: [w := leaf(D(t)), w.gather(0, t.tensor([[0, 1, 0]]), sparse_grad=True).sum().backward(), w.grad],
)
def test_look_ups(f):
    same(f)


def both_leaves(t, f):
    """Two leaves that one sparse gradient goes to, and what ``f`` does to that of the first."""
    a, b = leaf(D(t)), leaf(D(t))
    t.nn.functional.embedding(t.tensor([1, 0]), a + b, sparse=True).sum().backward()
    f(a.grad)
    return a.grad.to_dense(), b.grad.to_dense()


@cases(
    lambda t: both_leaves(t, lambda grad: grad._values().mul_(3)),
    lambda t: both_leaves(t, lambda grad: grad._indices().zero_()),
    lambda t: both_leaves(t, lambda grad: grad.mul_(3)),
    lambda t: both_leaves(t, lambda grad: grad._values().data_ptr()),
)
def test_leaves_share_no_parts_of_gradients(f):
    same(f)


def test_gradient_shares_no_parts_with_what_was_given():
    def run(t):
        class Given(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                return given

        given = t.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,))
        x = t.zeros(2, requires_grad=True)
        Given.apply(x).sum().backward()
        x.grad._values().mul_(5)
        return given.to_dense(), x.grad.to_dense()

    same(run)


def test_wrong_word():
    same(lambda t: table(t)(t.tensor([7])), refuses=True)


OPTIMIZERS = {
    "sgd": lambda t, p: t.optim.SGD(p, lr=0.1),
    "sgd up": lambda t, p: t.optim.SGD(p, lr=0.1, maximize=True),
    "sgd momentum": lambda t, p: t.optim.SGD(p, lr=0.1, momentum=0.9),
    "sgd nesterov": lambda t, p: t.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adagrad": lambda t, p: t.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "sparse adam": lambda t, p: t.optim.SparseAdam(p, lr=0.1),
    "sparse adam up": lambda t, p: t.optim.SparseAdam(p, lr=0.1, betas=(0.5, 0.9), eps=1e-3, maximize=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    def f(t):
        e = table(t)
        opt = OPTIMIZERS[name](t, e.parameters())
        for words in (WORDS, [[0, 1], [1, 1]], WORDS):
            opt.zero_grad()
            (e(t.tensor(words)) ** 2).sum().backward()
            opt.step()
        state = {k: v for k, v in opt.state[e.weight].items() if k != "momentum_buffer"}
        return e.weight, state

    same(f)


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_dense_and_sparse_in_one_group(name):
    def f(t):
        e, w = table(t), t.nn.Parameter(t.ones(2))
        opt = getattr(t.optim, name)([*e.parameters(), w], lr=0.1)
        for _ in range(2):
            opt.zero_grad()
            (e(t.tensor(WORDS)) * w).sum().backward()
            opt.step()
        return e.weight, w

    same(f)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"])
def test_optimizers_that_refuse(name):
    def f(t):
        e = table(t)
        e(t.tensor(WORDS)).sum().backward()
        getattr(t.optim, name)(e.parameters()).step()

    same(f, refuses=True)
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        f(torchlike)


@cases(
    lambda t: t.optim.SGD(_with_grad(t), lr=0.1, weight_decay=0.1).step(),
    lambda t: t.optim.Adagrad(_with_grad(t), lr=0.1, weight_decay=0.1).step(),
    lambda t: t.optim.SparseAdam([p := t.nn.Parameter(t.ones(2)), setattr(p, "grad", t.ones(2))][:1]).step(),
    lambda t: t.nn.utils.clip_grad_norm_(_with_grad(t), 1.0),
)
def test_refused_steps(f):
    same(f, refuses=True)


def _with_grad(t):
    p = t.nn.Parameter(t.ones(2, 3))
    p.grad = S(t)
    return [p]


def test_zero_grad():
    def f(t):
        (p,) = _with_grad(t)
        t.optim.SGD([p], lr=0.1).zero_grad(set_to_none=False)
        return p.grad

    same(f)


@cases(
    *[
        lambda t, f=f: [
            v := leaf(t.arange(1.0, 5.0)),
            x := t.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 0, 1]], v, (2, 3)),
            (f(t, x).square() * t.arange(1.0, 3.0)[:, None]).sum().backward(),
            v.grad,
        ][3]
        for f in (
            lambda t, x: x.to_dense(), lambda t, x: t.sparse.mm(x, M(t)), lambda t, x: x @ M(t),
            lambda t, x: (x * D(t)).to_dense(), lambda t, x: (2 * x - x / 4).to_dense(),
            lambda t, x: x.abs().to_dense(),
            lambda t, x: t.sparse.mm(x, M(t)) * t.sparse.mm(x, t.ones(3, 1)), lambda t, x: x.coalesce().to_dense(),
            lambda t, x: t.sparse.sum(x, 1).to_dense()[:, None], lambda t, x: t.sparse.softmax(x, 1).to_dense(),
            lambda t, x: t.addmm(t.ones(2, 4), x, M(t)), lambda t, x: x.t().to_dense().T,
            lambda t, x: (x * x).to_dense(),
            lambda t, x: x.to_sparse_csr().to_dense(), lambda t, x: x.to_sparse_csr() @ M(t), lambda t, x: D(t) + x,
            lambda t, x: x.sparse_mask(S(t)).to_dense(), lambda t, x: (x + x.coalesce()).to_dense(),
            lambda t, x: t.stack([x, x]).to_dense()[1], lambda t, x: (-x).to_dense(), lambda t, x: (x**2).to_dense(),
        )
    ]
)  # fmt: skip
def test_values_that_share_a_place(f):
    same(f)


@pytest.mark.filterwarnings("ignore:Using backward")
def test_what_is_added_to_a_sparse_gradient_with_history():
    def case(t):
        leaf = t.tensor([1.5, 1.5]).requires_grad_()
        leaf.grad = before = t.sparse_coo_tensor([[1, 1]], [1.0, 1.0])
        leaf.backward(t.tensor([1.5, 1.5]), create_graph=True)
        return leaf.grad, leaf.grad is before

    agree(case)


def test_sums_without_entries_or_sparse_dimensions():
    def case(t, indices, values, size):
        x = t.sparse_coo_tensor(t.zeros(indices).long(), t.ones(values), size)
        total = (x + x).coalesce()
        return total.values(), total.indices()

    for shapes in (((2, 0), (0, 1, 0, 2), (2, 1, 1, 0, 2)), ((0, 3), (3, 2), (2,)), ((0, 0), (0, 2), (2,))):
        agree(lambda t, shapes=shapes: case(t, *shapes))


@pytest.mark.parametrize("how", ["mean", "amax", "amin"])
def test_gradients_of_products_that_are_not_sums(how):
    def run(t):
        s, m = C(t).requires_grad_(), (M(t) * 0 + 1).requires_grad_()
        return t.autograd.grad(t.sparse.mm(s, m, how).pow(2).sum(), (s, m))

    same(run)


@pytest.mark.parametrize("beta, alpha", [(1.0, 1.0), (0.5, 2.0), (0.0, -1.0)])
def test_sampled_addmm(beta, alpha):
    def f(t):
        a, b = t.arange(4.0).reshape(2, 2).requires_grad_(), t.arange(6.0).reshape(2, 3).requires_grad_()
        c = leaf(C(t))
        y = t.sparse.sampled_addmm(c, a, b, beta=beta, alpha=alpha)
        (y.to_dense() * D(t)).sum().backward()
        return y, y.grad_fn, c.grad, a.grad, b.grad

    same(f)


@pytest.mark.parametrize("t", [torch, torchlike], ids=["torch", "torchlike"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradcheck_of_sampled_addmm(t, dtype):
    kind = getattr(t, dtype)
    factor, beta, alpha = (0.5 + 0.25j, 2 - 1j, 0.5 + 1j) if kind.is_complex else (0.5, 2, 0.5)
    a = t.arange(1, 5).reshape(2, 2).to(kind).requires_grad_()
    b = t.arange(1, 7).reshape(2, 3).to(kind).mul(factor).requires_grad_()

    def f(a, b):
        return t.sparse.sampled_addmm(C(t).to(kind), a, b, beta=beta, alpha=alpha).to_dense()

    assert t.autograd.gradcheck(f, (a, b))


OUTS = {
    "the same places": lambda t: C(t) * 0,
    "other places": lambda t: t.eye(2, 3).to_sparse_csr(),
    "another size": lambda t: t.eye(4).to_sparse_csr(),
    "dense": lambda t: t.eye(2, 3),
    "float64": lambda t: C(t).double(),
}


@pytest.mark.parametrize("out", OUTS.values(), ids=OUTS)
def test_sampled_addmm_into(out):
    def f(t):
        o = out(t)
        r = t.sparse.sampled_addmm(C(t), t.ones(2, 2), D(t), beta=2.0, out=o)
        return r is o, o, o._version

    same(f, refuses=out in (OUTS["dense"], OUTS["float64"]))


@cases(
    lambda t: t.addmm(D(t), t.ones(2, 2).to_sparse_csr(), C(t), beta=2, alpha=3),
    lambda t: t.sparse.addmm(D(t), t.ones(2, 2), D(t)),
    lambda t: (C(t) * (1 + 2j)).conj_physical(),
)
def test_products_and_conjugates(f):
    same(f)


@cases(
    lambda t: t.zeros(0, 2, 2).to_sparse_csr(),
    lambda t: t.zeros(2, 0, 2, 2).to_sparse(layout=t.sparse_bsc, blocksize=(1, 1)),
)
def test_batches_of_no_matrices(f):
    same(f, refuses=True)


def _loose(*places):
    """A matrix [2, 3] of entries at these places, of which nobody knows whether they repeat."""
    return lambda t: t.sparse_coo_tensor(t.tensor(places).t(), t.arange(1.0, len(places) + 1), (2, 3))


@pytest.mark.parametrize("one", [_loose((0, 1), (1, 2)), _loose((1, 0)), _loose((1, 2), (0, 1), (0, 1)), S])
@pytest.mark.parametrize("other", [_loose((0, 1), (1, 0)), _loose((1, 2)), U, S])
def test_products_of_repeated_entries_have_the_places_of_one(one, other):
    def run(t):
        product = one(t) * other(t)
        return product._indices(), product._values(), grads(lambda t, a, b: a * b, one, other)(t)

    same(run)
