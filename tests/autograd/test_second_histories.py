"""Gradients that do not depend on the values they were computed from have no history, as in PyTorch."""

import pytest
from both import agree

# what PyTorch composes of operators with masks and indices ...
_COMPOSED = {
    "amax": lambda t, x: x.amax(1),
    "aminmax": lambda t, x: t.aminmax(x, dim=0).max,
    "angle": lambda t, x: x.angle(),
    "clamp": lambda t, x: x.clamp(-0.3, 0.5),
    "clamp of tensors": lambda t, x: t.clamp(x, t.zeros_like(x), t.ones_like(x)),
    "cummax": lambda t, x: x.cummax(0).values,
    "fmax": lambda t, x: t.fmax(x, t.zeros_like(x)),
    "gather": lambda t, x: x.gather(0, t.tensor([[0, 1, 1]])),
    "index_add": lambda t, x: t.zeros_like(x).index_add(0, t.tensor([1, 0]), x),
    "index_copy": lambda t, x: t.zeros_like(x).index_copy(0, t.tensor([1, 0]), x),
    "margin_ranking_loss": lambda t, x: t.nn.functional.margin_ranking_loss(x, x.detach() * 2, t.ones_like(x)),
    "masked_select": lambda t, x: x[x > 0],
    "maximum": lambda t, x: t.maximum(x, t.zeros_like(x)),
    "median": lambda t, x: x.median(),
    "sort": lambda t, x: x.sort(1).values,
    "take": lambda t, x: x.take(t.tensor([0, 2])),
    "where": lambda t, x: t.where(x > 0, x * 2, 0.0),
}
# ... and what has an operator of its own for its derivative, or one whose own derivative is 0
_OWN = {
    "abs": lambda t, x: x.abs(),
    "avg_pool1d": lambda t, x: t.nn.functional.avg_pool1d(x, 2),
    "hardtanh": lambda t, x: t.nn.functional.hardtanh(x),
    "leaky_relu": lambda t, x: t.nn.functional.leaky_relu(x),
    "max_pool1d": lambda t, x: t.nn.functional.max_pool1d(x, 2),
    "pow": lambda t, x: x.pow(1),
    "relu": lambda t, x: x.relu(),
    "rrelu": lambda t, x: t.nn.functional.rrelu(x),
    "square": lambda t, x: x.square(),
}
_CASES = _COMPOSED | _OWN


def _point(t):
    return t.tensor([[0.3, -0.6, 0.4], [0.9, 0.1, -0.2]], dtype=t.float64, requires_grad=True)


@pytest.mark.parametrize("name", _CASES)
def test_a_gradient_has_the_history_that_pytorchs_has(name):
    def f(t):
        x = _point(t)
        out = _CASES[name](t, x)
        (g,) = t.autograd.grad(out, x, t.ones_like(out), create_graph=True)
        second = t.autograd.grad(g, x, t.ones_like(g)) if g.requires_grad else None
        return out, g, second

    agree(f)


@pytest.mark.parametrize("name", ["clamp", "index_add", "abs", "where"])
def test_the_same_within_transforms(name):
    def f(t):
        x = _point(t)
        out, pull = t.func.vjp(lambda x: _CASES[name](t, x), x)
        rows = t.vmap(t.func.grad(lambda v: _CASES[name](t, v[None].expand(2, 3)).sum()))(x)
        return out, pull(t.ones_like(out)), rows

    agree(f)


def test_a_gradient_without_history_has_no_second_derivative():
    def f(t):
        x = _point(t)
        (g,) = t.autograd.grad(x.clamp(-0.3, 0.5).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="does not require grad"):
            g.sum().backward()
        y = (g * x).sum()  # but what is made of it does
        return t.autograd.grad(y, x)

    agree(f)


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("name", ["maximum", "clamp", "fmax", "where", "sort", "relu"])
def test_gradients_without_elements_have_the_same_history(name, wanted):
    def f(t):
        x = t.ones(0, 3, dtype=t.float64, requires_grad=True)
        out = _CASES[name](t, x)
        (g,) = t.autograd.grad(out, x, t.ones_like(out).requires_grad_(wanted), create_graph=True)
        return out, g

    agree(f)
