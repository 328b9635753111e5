"""make_fx of what depends on values: a step of the graph as in PyTorch, or refused; never a constant of this trace."""

import importlib

import pytest
import torch
from both import agree

import torchlike
from torchlike._core.tensor.mutation import write


def make_fx(t):
    return importlib.import_module(t.__name__ + ".fx.experimental.proxy_tensor").make_fx


def filled(t, x, mask, value):
    y = x.clone()
    y[mask] = value
    return y


STEPS = {
    "unique": lambda t, x, i: t.unique(i),
    "unique of rows": lambda t, x, i: t.unique(i.view(2, 2), return_inverse=True, dim=0),
    "unique with counts": lambda t, x, i: t.unique(i, return_inverse=True, return_counts=True),
    "runs": lambda t, x, i: t.unique_consecutive(i, return_counts=True),
    "runs of rows": lambda t, x, i: t.unique_consecutive(i.view(2, 2), return_counts=True, dim=0),
    "repeated indices": lambda t, x, i: t.repeat_interleave(i),
    "repeated": lambda t, x, i: t.repeat_interleave(x, i, dim=0),
    "counted": lambda t, x, i: t.bincount(i, minlength=2),
    "weighed": lambda t, x, i: t.bincount(i, x),
    "selected": lambda t, x, i: t.masked_select(x, x > 0),
    "mask": lambda t, x, i: x[x > 0],
    "put": lambda t, x, i: t.index_put(x, [i > 1], t.tensor(3.0)),
    "put in place": lambda t, x, i: x.clone().index_put_([i > 1], x[0]),
    "added": lambda t, x, i: t.index_put(x, [i > 1], x[0], accumulate=True),
    "filled": lambda t, x, i: filled(t, x, i > 1, 2.0),
    "filled, of a tensor": lambda t, x, i: filled(t, x, i > 1, x[0]),
    "places": lambda t, x, i: filled(t, x, [0, 1], 2.0),
    "list": lambda t, x, i: x[[0, 2]],
    "copied": lambda t, x, i: t.tensor(x) + 1,
    "copied as": lambda t, x, i: t.tensor(i, dtype=t.float64),
    "new tensor": lambda t, x, i: x.new_tensor(i),
    "nonzero": lambda t, x, i: t.nonzero(x > 0, as_tuple=True),
}


def inputs(t):
    return t.tensor([1.0, -2.0, 3.0, -4.0]), t.tensor([0, 2, 2, 1])


def others(t):
    return t.tensor([1.0, 2.0, -3.0, 4.0]), t.tensor([1, 1, 0, 3])


def steps(graph):
    return [n.target if n.op != "call_function" else str(n.target) for n in graph.graph.nodes]


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("name", STEPS)
def test_steps_and_numbers_of_other_inputs(name):
    def run(t):
        graph = make_fx(t)(lambda x, i: STEPS[name](t, x, i))(*inputs(t))
        return steps(graph), graph(*others(t))

    agree(run)


GRADIENTS = {
    "mask": lambda t, x: x[x > 0].square(),
    "selected": lambda t, x: x.masked_select(x > 0).square(),
    "filled": lambda t, x: x.clone().masked_fill(x > 0, 2.0) * x,
    "a mask among others": lambda t, x: x.view(2, 2)[:, x[:2] > 0].square(),
    "linear": lambda t, x: t.nn.functional.linear(x.view(2, 2), x.view(2, 2)).square(),
    "linear, of a stack": lambda t, x: t.nn.functional.linear(x.view(2, 1, 2), x.view(2, 2), x[:2]).square(),
    "vector and matrix": lambda t, x: (x[:2] @ x.view(2, 2)).square(),
    "stacks": lambda t, x: (x.view(2, 1, 2) @ x.view(1, 2, 2)).square(),
    "outer": lambda t, x: t.outer(x, x).square(),
    "cross entropy": lambda t, x: t.nn.functional.cross_entropy(x.view(2, 2), t.tensor([0, 1])),
    "cross entropy, weighed": lambda t, x: t.nn.functional.cross_entropy(
        x.view(2, 2), t.tensor([0, 1]), weight=x[:2].detach()
    ),
    "distance": lambda t, x: t.nn.functional.l1_loss(x, OUTSIDE[t.__name__]) * x,
    "replicated": lambda t, x: t.nn.functional.pad(x.view(1, 4), (1, 2), mode="replicate").square(),
    "batch norm": lambda t, x: t.nn.functional.batch_norm(
        x.view(2, 2), t.zeros(2), t.ones(2), x[:2], x[2:], training=True
    ).square(),
    "instance norm": lambda t, x: t.nn.functional.instance_norm(x.view(1, 2, 2)) * x.view(1, 2, 2),
    "causal attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(
        *[x.view(1, 2, 2)] * 3, is_causal=True
    ).square(),
    "attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(*[x.view(1, 2, 2)] * 3).square(),
}
OUTSIDE = {"torch": torch.tensor([0.5, -3.0, 2.0, 1.0]), "torchlike": torchlike.tensor([0.5, -3.0, 2.0, 1.0])}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_other_inputs(name):
    """As many are positive, but at other places: PyTorch's graphs have sizes of the example."""

    def run(t):
        def f(x):
            x = x.detach().requires_grad_()
            return t.autograd.grad(GRADIENTS[name](t, x).sum(), x)[0]

        other = t.tensor([5.0, 2.0, -3.0, -4.0])
        found = make_fx(t)(f)(inputs(t)[0])(other)
        t.testing.assert_close(found, f(other))
        return found

    agree(run)


def test_a_saved_tensor_that_changed_is_refused():
    def f(x, w):
        y = torchlike.nn.functional.l1_loss(x.requires_grad_(), w)
        w.add_(1)
        return torchlike.autograd.grad(y, x)[0]

    with pytest.raises(NotImplementedError, match="make_fx: a tensor of shape"):
        make_fx(torchlike)(f)(torchlike.ones(3), torchlike.zeros(3))


@pytest.mark.parametrize("channels", [0, 1, 2, 3])
def test_dropout_of_channels_and_its_gradient(channels):
    """The graph draws anew: what is dropped, whole channels, is dropped in the gradient too."""
    name = f"dropout{channels or ''}" + "d" * bool(channels)
    drop = getattr(torchlike.nn.functional, name)

    def f(x):
        x = x.detach().requires_grad_()
        y = drop(x, 0.5)
        return y, torchlike.autograd.grad(y.sum(), x)[0]

    x = torchlike.ones(4, 8, *[3] * channels)
    y, grad = make_fx(torchlike)(f)(x)(x)
    assert y.equal(grad) and set(y.unique().tolist()) == {0.0, 2.0}
    if channels:
        assert y.flatten(2).std(2).eq(0).all()


MODULES = {
    "linears": lambda nn: nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 4), nn.LayerNorm(4)),
    "transformer": lambda nn: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0),
    "attention": lambda nn: nn.MultiheadAttention(4, 2),
    "convolution": lambda nn: nn.Sequential(nn.Unflatten(1, (4, 1)), nn.Conv1d(4, 2, 1), nn.BatchNorm1d(2).eval()),
    "spectral": lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)).eval(),
}


@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_parameters(name):
    """Which are constants of the graph, and so are views of them."""
    layer = MODULES[name](torchlike.nn).double()

    def f(x):
        x = x.detach().requires_grad_()
        out = layer(x, x, x) if name == "attention" else layer(x)
        out = out[0] if isinstance(out, tuple) else out
        return torchlike.autograd.grad(out.square().sum(), [x, *layer.parameters()], allow_unused=True)

    x, other = torchlike.randn(2, 3, 4, 4, dtype=torchlike.float64)[:, :, 0].unbind()
    for found, wanted in zip(make_fx(torchlike)(f)(x)(other), f(other), strict=True):
        assert (found is None) == (wanted is None)
        if wanted is not None:
            torchlike.testing.assert_close(found, wanted)


def norms(t, name, moved):
    """The graph of a norm with running statistics, which it moves when it runs as the function does."""
    norm = getattr(t.nn, name)(3, affine=True, track_running_stats=True).double()
    x = t.arange(36.0, dtype=t.float64).view(4, 3, 3).sin()
    graph = make_fx(t)(norm)(x)
    with t.no_grad():
        outs = [graph(x * i) for i in range(1, moved + 1)]
    return [n.target if n.op != "call_function" else str(n.target) for n in graph.graph.nodes][:4], [
        *outs, *norm.buffers()]  # fmt: skip


@pytest.mark.parametrize("name", ["BatchNorm1d", "InstanceNorm1d"])
def test_running_statistics_are_steps(name):
    agree(lambda t: norms(t, name, 2))


READ = {
    "list": lambda t, x: t.tensor(x.tolist()),
    "numpy": lambda t, x: t.from_numpy(x.detach().numpy()),
    "array": lambda t, x: x + x.detach().__array__().sum(),
    "jax": lambda t, x: t.from_dlpack(x.detach()) + 1,
    "classes": lambda t, x: t.nn.functional.one_hot(x.long()),
    "sparse": lambda t, x: x.to_sparse().coalesce().values(),
}


@pytest.mark.parametrize("name", READ)
def test_values_become_no_numbers(name):
    with pytest.raises((RuntimeError, NotImplementedError), match="tracing tensor|make_fx"):
        make_fx(torchlike)(lambda x: READ[name](torchlike, x))(torchlike.ones(3))


def test_a_step_without_an_aten_call_is_named():
    def f(x):
        return torchlike.autograd.grad(torchlike.matrix_exp(x.outer(x)).sum(), x)[0]

    with pytest.raises(NotImplementedError, match="matrix_exp_backward.* is no aten call of PyTorch's"):
        make_fx(torchlike)(f)(torchlike.ones(2, requires_grad=True))


def test_numbers_of_constants_are_known():
    """What was there before, or is made of numbers, may be read; printing reads too, and chooses nothing."""
    weights = torchlike.tensor([2.0, 3.0])

    def f(x):
        assert "1." in repr(x)
        return x * weights.tolist()[1] + torchlike.tensor(4.0).item()

    assert make_fx(torchlike)(f)(torchlike.ones(2))(torchlike.zeros(2)).tolist() == [4.0, 4.0]


def test_changes_without_calls_are_refused():
    p = torchlike.nn.Parameter(torchlike.ones(2))
    p.grad = torchlike.ones(2)

    def changed(x):
        write(p.grad, p.grad.jax() * 2)
        return x

    with pytest.raises(NotImplementedError, match="changed by what is no aten call"):
        make_fx(torchlike)(changed)(torchlike.ones(2))


BAGS = {
    "sum": lambda t, w, f: t.nn.functional.embedding_bag(BAG(t), w, t.tensor([0, 0, 3]), mode="sum"),
    "mean, padded": lambda t, w, f: t.nn.functional.embedding_bag(BAG(t).view(2, 2), w, padding_idx=1),
    "max": lambda t, w, f: t.nn.functional.embedding_bag(BAG(t), w, t.tensor([0, 3]), mode="max", padding_idx=0),
    "factors": lambda t, w, f: t.nn.functional.embedding_bag(
        BAG(t).view(2, 2), w, per_sample_weights=f.view(2, 2), mode="sum"
    ),
    "function": lambda t, w, f: t.embedding_bag(w, BAG(t), t.tensor([0, 1, 4]), mode=1, include_last_offset=True)[0],
}


def BAG(t):
    return t.tensor([2, 1, 1, 0])


@pytest.mark.parametrize("name", BAGS)
def test_bags_of_rows_and_their_gradients(name):
    def run(t):
        def f(w, factors):
            w, factors = w.detach().requires_grad_(), factors.detach().requires_grad_()
            out = BAGS[name](t, w, factors)
            return out, *t.autograd.grad(out.square().sum(), (w, factors), allow_unused=True)

        graph = make_fx(t)(f)(t.ones(3, 2), t.ones(4))
        found = graph(t.tensor([[1.0, -2.0], [5.0, 1.0], [3.0, 4.0]]), t.tensor([1.0, 2.0, 3.0, 4.0]))
        return [g for g in found if g is not None]

    agree(run)


def test_bags_without_gradients_are_one_call():
    agree(lambda t: steps(make_fx(t)(lambda w: BAGS["max"](t, w, None))(t.ones(3, 2)))[-6:])


def test_bags_that_are_none_are_refused():
    with pytest.raises(RuntimeError, match="offsets must not decrease"):
        make_fx(torchlike)(lambda w: torchlike.embedding_bag(w, BAG(torchlike), torchlike.tensor([0, 3, 1])))(
            torchlike.ones(3, 2, requires_grad=True)
        )


SHAPE = (2, 4, 3, 2)
ATTENTIONS = {
    "plain": lambda t, x, p: t.nn.functional.scaled_dot_product_attention(x, x, x * 2, dropout_p=p),
    "causal": lambda t, x, p: t.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=p, is_causal=True),
    "mask": lambda t, x, p: t.nn.functional.scaled_dot_product_attention(
        x, x, x, t.ones(3, 3, dtype=t.bool).tril(-1), p, scale=0.3
    ),
    "numbers": lambda t, x, p: t.nn.functional.scaled_dot_product_attention(x, x, x, x[0, 0] @ x[0, 0].T, p),
    "groups": lambda t, x, p: t.nn.functional.scaled_dot_product_attention(
        x, x[:, ::2], x[:, ::2], dropout_p=p, enable_gqa=True
    ),
}


def dropping(t, f, x):
    """A graph of ``f`` and its gradient: its steps are as many draws as PyTorch's, its numbers those of ``f``."""

    def both(x):
        x = x.detach().requires_grad_()
        out = f(x)
        return out, t.autograd.grad((out * out.detach().cos()).sum(), x)[0]

    graph = make_fx(t)(both)(x)
    found = [steps(graph).count("aten.bernoulli_.float")]
    for run in (graph, both):
        t.manual_seed(1)
        found += run(x.flip(0))
    return found


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_that_drops_weights(name):
    agree(
        lambda t: dropping(t, lambda x: ATTENTIONS[name](t, x, 0.4), t.arange(48.0, dtype=t.float64).view(SHAPE).sin())
    )


@pytest.mark.parametrize("weights", [False, True])
def test_attention_of_heads_that_drops_weights(weights):
    def run(t):
        t.manual_seed(0)
        layer = t.nn.MultiheadAttention(4, 2, dropout=0.4, batch_first=True).double()
        x = t.arange(24.0, dtype=t.float64).view(2, 3, 4).cos()
        return dropping(t, lambda x: layer(x, x, x, need_weights=weights)[0], x)

    agree(run)
