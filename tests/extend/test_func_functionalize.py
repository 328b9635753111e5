"""``functionalize`` within derivatives: what these have kept may be changed in place."""

import pytest
from both import agree


def _squares_itself(t, x):
    y = x.clone()
    y.mul_(y)
    y += 1
    return y


def _changes_a_kept_input(t, x):
    y = x * 1
    u = y * y
    y.add_(1)
    return u


def _changes_a_kept_result(t, x):
    y = x.exp()
    y.add_(1)
    return y * y


def _changes_a_view(t, x):
    y = x.sigmoid()
    y.view(-1).mul_(2)
    return y * x


def _accumulates(t, x):
    h = x * 0
    for _ in range(3):
        h.add_(x).tanh_()
    return h


def _fills(t, x):
    y = x * 3
    z = y.exp()
    y.masked_fill_(y > 0, 0.5)
    return y * z


def _adds_rows(t, x):
    y = x * 1
    z = y**2
    y.index_add_(0, t.tensor([0, 2]), z[:2])
    return y * z


def _reshapes(t, x):
    y = x * 1
    y.unsqueeze_(0)
    z = y * y
    y.mul_(2)
    return (z * y).squeeze(0)


FUNCTIONS = [
    _squares_itself, _changes_a_kept_input, _changes_a_kept_result, _changes_a_view, _accumulates, _fills,
    _adds_rows, _reshapes,
]  # fmt: skip


def _pulled(t, f, x):
    out, pull = t.func.vjp(f, x)
    return out, pull(t.ones_like(out))


def _taped(t, f, x):
    x.requires_grad_()
    return t.autograd.grad(f(x * 1).sum(), x)


AROUND = {
    "grad of grad": lambda t, f, x: t.func.grad(lambda y: t.func.grad(lambda z: f(z).sum())(y).sum())(x),
    "hessian": lambda t, f, x: t.func.hessian(lambda y: f(y).sum())(x),
    "jacfwd": lambda t, f, x: t.func.jacfwd(f)(x),
    "jvp": lambda t, f, x: t.func.jvp(f, (x,), (t.ones_like(x),)),
    "tape": _taped,
    "vjp": _pulled,
    "vmap of grad": lambda t, f, x: t.vmap(t.func.grad(lambda y: f(y).sum()))(t.stack([x, x * 2])),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__[1:])
def test_what_a_derivative_keeps_may_change(f, around):
    def run(t):
        functional = t.func.functionalize(lambda x: f(t, x))
        return AROUND[around](t, functional, t.tensor([0.3, -0.7, 1.1], dtype=t.float64))

    agree(run)


def test_without_it_such_a_change_is_an_error():
    def run(t):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            t.func.grad(lambda x: _changes_a_kept_input(t, x).sum())(t.ones(3))

    agree(run)


def test_a_result_keeps_the_name_of_its_node():
    agree(lambda t: t.func.functionalize(lambda x: (x * 2).add_(1) * 3)(t.ones(2, requires_grad=True)).grad_fn)


def test_results_with_names_within_a_derivative():
    def f(y):
        return y.sort().values[0] * y.max(0).values

    agree(lambda t: t.func.grad(t.func.functionalize(f))(t.tensor([2.0, 3.0])))
