"""Views in place (``t_``, ``squeeze_``...) inside of vmap, grad, jvp and dual levels, as PyTorch's."""

import pytest
import torch as reference

import torchlike as torch


def written(m, x):
    def f(x):
        y = x * 1
        flat = y.view(-1)
        y.transpose_(0, 1)
        y[0] = 7
        return y, flat

    return m.func.vmap(f)(m.stack([x, x + 1]))


def dual(m, x):
    with m.autograd.forward_ad.dual_level():
        d = m.autograd.forward_ad.make_dual(x, x + 1) * 2
        flat = d.view(-1)
        d.t_()
        d[0] = 0
        return [m.autograd.forward_ad.unpack_dual(t).tangent for t in (d.sin(), flat.sin())]


def weights(m):
    return m.arange(6.0).reshape(3, 2)


STORIES = {
    "vmap transpose_": lambda m, x: m.func.vmap(lambda y: (y.view(1, 3) * y).transpose_(0, 1))(x),
    "vmap t_": lambda m, x: m.func.vmap(lambda y: (y.view(1, 3) * y).t_())(x),
    "vmap unsqueeze_ squeeze_": lambda m, x: m.func.vmap(lambda y: (y * 1).unsqueeze_(0).unsqueeze_(-1).squeeze_(0))(x),
    "vmap of another axis": lambda m, x: m.func.vmap(lambda y: (y * 1).squeeze_(0), in_dims=1, out_dims=1)(x[None]),
    "vmap of vmap": lambda m, x: m.func.vmap(m.func.vmap(lambda y: (y * 1).unsqueeze_(0).sin_()))(x),
    "aliases and writes": written,
    "jvp": lambda m, x: m.func.jvp(lambda x: (x * 2).t_() * weights(m), (x,), (x + 1,)),
    "jvp of a square": lambda m, x: m.func.jvp(lambda s: (s * s).t_(), (x[:, :2],), (x[:, 1:],)),
    "jvp of vmap": lambda m, x: m.func.jvp(lambda x: m.func.vmap(lambda y: (y * y).unsqueeze_(0))(x), (x,), (x + 1,)),
    "vmap of jvp": lambda m, x: m.func.vmap(lambda y: m.func.jvp(lambda z: (z * z).unsqueeze_(0), (y,), (y,)))(x),
    "dual": dual,
    "grad": lambda m, x: m.func.grad(lambda x: ((x**3).t_() * weights(m)).sum())(x),
    "grad of vmap": lambda m, x: m.func.grad(lambda x: (m.func.vmap(lambda y: (y * y).unsqueeze_(0))(x) ** 2).sum())(x),
    "hessian": lambda m, x: m.func.hessian(lambda x: ((x**3).t_() * weights(m)).sum())(x),
    "jacrev": lambda m, x: m.func.jacrev(lambda x: (x * x).t_().sum(0))(x),
    "tape of vmap": lambda m, x: m.autograd.grad(
        (m.func.vmap(lambda y: (y.view(1, 3) * y).t_().sin())(p := x.clone().requires_grad_()) ** 2).sum(), p
    ),
}


def lists(out):
    return [lists(x) for x in out] if isinstance(out, tuple | list) else (tuple(out.shape), out.detach().tolist())


@pytest.mark.parametrize("name", STORIES)
def test_as_pytorch(name):
    ours, expected = (STORIES[name](m, m.arange(6.0).reshape(2, 3)) for m in (torch, reference))
    flat = lambda x: [v for y in x for v in flat(y)] if isinstance(x, list | tuple) else [x]  # noqa: E731
    ours, expected = flat(lists(ours)), flat(lists(expected))
    assert ours == pytest.approx(expected, rel=1e-5, abs=1e-6)


def each_loss(m, change):
    def loss(w, x):
        y = x.mm(w)
        head = y[0]
        z = change(y).mul_(2)
        return (y.sin() * z).sum() + head.sum()

    rows = m.arange(12.0).reshape(4, 1, 3) / 10
    by_weight = m.func.grad(loss)
    return [
        m.func.vmap(by_weight, (None, 0))(weights(m), rows),
        m.func.vmap(m.func.grad(loss, 1), (None, 0))(weights(m), rows),
        m.func.vmap(m.func.hessian(loss), (None, 0))(weights(m), rows[:2]) + 0.0,
        m.func.vmap(lambda x: m.func.vjp(lambda x: change(x * 3), x)[0])(rows),
        m.func.grad(lambda w: m.func.vmap(lambda x: loss(w, x))(rows).sum())(weights(m)),
    ]


CHANGES = {
    "squeeze_": lambda y: y.squeeze_(0), "unsqueeze_": lambda y: y.unsqueeze_(1), "t_": lambda y: y.t_(),
    "transpose_": lambda y: y.transpose_(0, 1), "twice": lambda y: y.squeeze_(0).unsqueeze_(0),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_gradients_of_each_example(name):
    ours, theirs = each_loss(torch, CHANGES[name]), each_loss(reference, CHANGES[name])
    for a, b in zip(ours, theirs, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        reference.testing.assert_close(reference.tensor(a.tolist()), b, rtol=1e-5, atol=1e-5)
