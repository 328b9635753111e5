"""make_fx of functions that torch.func transforms: their graphs compute the same of other inputs."""

import importlib
import re

import pytest
from both import agree

import torchlike


def make_fx(t):
    return importlib.import_module(f"{t.__name__}.fx.experimental.proxy_tensor").make_fx


def vector(t, by=0.0):
    return t.arange(1.0, 4.0) / 3 + by


def rows(t, by=0.0):
    return t.arange(1.0, 7.0).reshape(2, 3) / 5 + by


def saving(x):
    """Whose derivatives save results."""
    return (x.sigmoid() * x.exp()).tanh().sum()


def changing(x):
    y = x.clone()
    y[0] = 0.0
    return y.mul_(x).add_(1)


def views(x):
    moved = x.view(3, 1).transpose(0, 1), x.unsqueeze(0).squeeze(0), x.reshape(1, 3).permute(1, 0)
    return *moved, x[1], x[:2], x.expand(4, 3), x.unfold(0, 2, 1), x.view(3, 1).t()


def reductions(x):
    return x.mean(), x.var(), x.max(0)[0], x.argmax(), x.cumsum(0), x.sort()[0], x.logsumexp(0)


# name: (t -> the function, its inputs)
RIGHT = {
    "views": (lambda t: t.vmap(views), rows),
    "reductions": (lambda t: t.vmap(reductions), rows),
    "changes in place": (lambda t: t.vmap(changing), rows),
    "another axis": (lambda t: t.vmap(lambda x: x.softmax(-1) @ x, in_dims=1), rows),
    "two levels": (lambda t: t.vmap(t.vmap(lambda x: x * 2 + 1)), rows),
    "cat": (lambda t: t.vmap(lambda x: t.cat([x, t.where(x > 1, x, 0)])), rows),
    "layer norm": (lambda t: t.vmap(lambda x: t.nn.functional.layer_norm(x, (3,))), rows),
    "per example": (lambda t: t.vmap(t.func.grad(saving)), rows),
    "grad of grad": (lambda t: t.func.grad(lambda x: t.func.grad(saving)(x).sum()), vector),
    "jvp": (lambda t: lambda x: t.func.jvp(t.tanh, (x,), (x,)), vector),
    "jvp of grad": (lambda t: lambda x: t.func.jvp(t.func.grad(saving), (x,), (x,)), vector),
    "jacrev": (lambda t: t.func.jacrev(lambda x: x.softmax(0)), vector),
    "jacfwd": (lambda t: t.func.jacfwd(lambda x: x.softmax(0)), vector),
    "hessian": (lambda t: t.func.hessian(saving), vector),
    "jacfwd of jacrev": (lambda t: t.func.jacfwd(t.func.jacrev(saving)), vector),
    "hessians": (lambda t: t.vmap(t.func.hessian(saving)), rows),
}


@pytest.mark.parametrize("case", RIGHT)
def test_graphs_compute_the_same_of_other_inputs(case):
    make, x = RIGHT[case]

    def script(t):
        f = make(t)
        graph = make_fx(t)(f)(x(t))
        assert not any(n.op == "call_function" and "torchlike" in str(n.target) for n in graph.graph.nodes)
        got, want = (t.utils._pytree.tree_leaves(g(x(t, 0.25))) for g in (graph, f))
        return [a.shape for a in got], all(t.allclose(a, b, atol=1e-5) for a, b in zip(got, want, strict=True))

    agree(script)


CALLS = {
    "pointwise": lambda t: (t.vmap(lambda x: x.sin() + 1), rows(t)),
    "sum": lambda t: (t.vmap(lambda x: x.sum()), rows(t)),
    "softmax": lambda t: (t.vmap(lambda x: x.softmax(-1)), rows(t)),
    "shared": lambda t: (t.vmap(lambda x, y: x + y, in_dims=(0, None)), rows(t), vector(t)),
    "another axis": lambda t: (t.vmap(lambda x: x * 2, in_dims=1, out_dims=1), rows(t)),
    "views": lambda t: (t.vmap(lambda x: x.view(3, 1).transpose(0, 1)), rows(t)),
}


@pytest.mark.parametrize("case", CALLS)
def test_the_calls_are_pytorchs(case):
    def script(t):
        f, *inputs = CALLS[case](t)
        return [str(n.target) for n in make_fx(t)(f)(*inputs).graph.nodes if n.op == "call_function"]

    agree(script)


@pytest.mark.parametrize(
    ("f", "match"),
    [
        (lambda t: t.vmap(lambda x: x + t.rand(3), randomness="different"), "random numbers under torch.func.vmap"),
        (lambda t: t.vmap(lambda x: t.nn.functional.dropout(x), randomness="same"), "random numbers under"),
        (lambda t: t.vmap(lambda x: t.conv1d(x[None, None], t.ones(1, 1, 2))), "convolution.* is no aten call"),
    ],
)
def test_what_a_graph_could_only_have_as_numbers_is_refused(f, match):
    with pytest.raises(NotImplementedError, match=re.compile("make_fx: .*" + match)):
        make_fx(torchlike)(f(torchlike))(rows(torchlike))


def test_random_numbers_outside_of_transforms_are_calls():
    def script(t):
        def f(x):
            return t.nn.functional.dropout(t.bernoulli(x / 9) + t.rand(3)) * 0

        return make_fx(t)(f)(rows(t))(rows(t))

    agree(script)
