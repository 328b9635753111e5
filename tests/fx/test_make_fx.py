"""make_fx: the aten calls of a function as a graph, equal to PyTorch's; its numbers on other inputs too."""

from functools import partial

import pytest
import torch
import torch.fx.experimental.proxy_tensor
from both import agree, plain
from fx_programs import numbers
from story_kit import said

import torchlike

F = "nn.functional"


def gradient(t):
    def f(x):
        x = x.detach().requires_grad_()
        return t.autograd.grad((t.sin(x) * x).sum(), x)[0]

    return f


def of_weights(t):
    return lambda x, w: t.autograd.grad(t.nn.functional.linear(x, w.requires_grad_()).relu().sum(), w)[0]


def written(t):
    def f(x):
        y = x.clone()
        y.add_(1)
        y[0].mul_(2)
        return y

    return f


def layer(t):
    linear = t.nn.Linear(3, 2)
    for p in linear.parameters():
        p.data.fill_(0.1)
    return lambda x: linear(x)


def square(t):
    return (numbers(t, 2, 3),)


def two(t):
    return numbers(t, 2, 3), numbers(t, 4, 3)


def annotated(t):
    def f(x: t.Tensor) -> t.Tensor:
        return x.sin()

    return f


def constant(t):
    k = t.ones(3)
    return lambda x: x + k + k


def written_literal(t):
    def f(x):
        y = t.tensor(3.0)
        y.add_(1)
        return x + y

    return f


CASES = {
    "relu": (lambda t: lambda x: t.relu(x) + 1, square),
    "linear": (lambda t: lambda x, w: t.nn.functional.linear(x, w), two),
    "views": (lambda t: lambda x: x.view(3, 2).t().contiguous().sum(0), square),
    "gradient": (gradient, square),
    "gradient of weights": (of_weights, two),
    "softmax": (lambda t: lambda x: t.nn.functional.softmax(x, -1), square),
    "layer": (layer, square),
    "in place": (written, square),
    "tree": (lambda t: lambda d: {"a": d["q"] * 2, "b": [d["r"].exp()]},
             lambda t: ({"q": numbers(t, 2), "r": numbers(t, 3)},)),
    "split": (lambda t: lambda x: t.split(x, 1), square),
    "max": (lambda t: lambda x: x.max(1)[0], square),
    "factory": (lambda t: lambda x: x + t.zeros(3), square),
    "literal": (lambda t: lambda x: x + t.tensor([1.0, 2.0, 3.0]), square),
    "literal that is written to": (written_literal, square),
    "constant": (constant, square),
    "annotated": (annotated, square),
    "annotated, functionalized": (lambda t: t.func.functionalize(annotated(t)), square),
    "number": (lambda t: lambda x, n: x * n, lambda t: (numbers(t, 2), 3)),
    "not tensors": (lambda t: lambda x: (x.detach(), x.shape[0]), square),
    "slices": (lambda t: lambda x: x[:, 1:] + x[0, 0], square),
    "layer norm": (lambda t: lambda x: t.nn.functional.layer_norm(x, (3,)), square),
    "mean": (lambda t: lambda x: x.to(t.float64).mean(), square),
    "nothing": (lambda t: lambda x: None, square),
    "no arguments": (lambda t: lambda: t.ones(2) + 1, lambda t: ()),
    "attention": (lambda t: lambda x: t.softmax(x @ x.transpose(0, 1), -1) @ x, square),
}  # fmt: skip


def texts(t, name):
    make, inputs = CASES[name]
    gm = t.fx.experimental.proxy_tensor.make_fx(make(t))(*inputs(t))
    return gm.code, str(gm.graph), sorted(gm.state_dict()), gm.print_readable(False), type(gm).__name__


@pytest.mark.parametrize("name", CASES)
def test_text(name):
    agree(lambda t: texts(t, name))


SCALED = [name for name in CASES if name not in ("tree", "number", "no arguments", "nothing")]


@pytest.mark.parametrize("name", SCALED)
def test_numbers_of_other_inputs(name):
    """The graph is of the function, not of the numbers that it was traced with."""
    make, inputs = CASES[name]
    function = make(torchlike)
    gm = torchlike.fx.experimental.proxy_tensor.make_fx(function)(*inputs(torchlike))
    others = [x.detach() * 3 - 1 for x in inputs(torchlike)]
    again = [x.clone() for x in others]
    assert plain(list(gm(*others)) if name == "split" else gm(*others)) == plain(
        list(function(*again)) if name == "split" else function(*again)
    )


def test_gradients_of_func():
    """torch.func.grad: the same numbers, also of other inputs; PyTorch's graph has the seed as a call."""
    function = torchlike.func.grad(lambda y: (y.sin() * y).sum())
    gm = torchlike.fx.experimental.proxy_tensor.make_fx(function)(torchlike.ones(3))
    x = torchlike.tensor([0.1, 0.2, 0.3])
    assert torchlike.allclose(gm(x), function(x))


DEPENDENT = {
    "item": lambda x: x.sum().item(),
    "branch": lambda x: x if x.sum() > 0 else -x,
    "index": lambda x: x[x.long()[0]],
    "select": lambda x: x.select(0, x.long()[0]),
    "repeat": lambda x: x.repeat(x.long()[0]),
    "alpha": lambda x: x.add(x, alpha=x[0]),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_what_depends_on_values(name):
    begins = "It appears that you're trying to get value out of a tracing tensor with aten._local_scalar_dense"
    agree(lambda t: said(lambda: t.fx.experimental.proxy_tensor.make_fx(DEPENDENT[name])(t.ones(2)), begins))
    x = torchlike.ones(2)
    assert (x + x).tolist() == [2.0, 2.0]  # no mode is left


ANSWERS = {
    "allclose": lambda t, x: t.allclose(x, x + 0),
    "equal": lambda t, x: x if t.equal(x, x.clone()) else -x,
    "of a constant": lambda t, x: t.equal(t.tensor(1.0), x[0]),
    "method": lambda t, x: x.equal(x * 1),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_comparisons_whose_answer_is_a_bool(name):
    """A graph would keep the answer of the tensors that were traced."""
    begins = "It appears that you're trying to get value out of a tracing tensor with aten."
    agree(lambda t: said(lambda: t.fx.experimental.proxy_tensor.make_fx(partial(ANSWERS[name], t))(t.ones(2)), begins))


PICKED = {
    "mask": lambda t, x, i: x[i > 0],
    "mask of a part": lambda t, x, i: x[:, i > 0],
    "no dimensions": lambda t, x, i: t.ops.aten.index(x, [i[0], i[1]]),
    "a constant": lambda t, x, i: x[t.tensor(1)],
}


@pytest.mark.parametrize("name", PICKED)
def test_what_indices_pick(name):
    """The graph picks by its own inputs, not by the values that were traced."""

    def run(t):
        graph = t.fx.experimental.proxy_tensor.make_fx(lambda x, i: PICKED[name](t, x, i))
        x = t.arange(4.0).reshape(2, 2)
        return graph(x, t.tensor([1, 1]))(x, t.tensor([0, 1]))

    agree(run)


def test_indices_of_no_dimensions_among_others():
    def run(t):
        x, one, more = t.arange(24.0).reshape(2, 3, 4), t.tensor(1), t.tensor([0, 1, 1])
        return t.ops.aten.index(x, [one, None, more]), t.ops.aten.index_put(x, [one, None, more], x[0, :, :3])

    agree(run)


def test_decompositions():
    def run(t):
        table = {t.ops.aten.sin.default: lambda x: x.cos() + 1}
        make_fx = t.fx.experimental.proxy_tensor.make_fx
        return make_fx(lambda x: x.sin() * 2, decomposition_table=table)(t.ones(2)).code

    agree(run)


def test_modes_and_values():
    module = torchlike.fx.experimental.proxy_tensor
    seen = []

    def f(x):
        seen.append(module.get_proxy_mode())
        with module.disable_proxy_modes_tracing():
            seen.append(module.get_innermost_proxy_mode())
        return x + 1

    gm = module.make_fx(f, tracing_mode="fake")(torchlike.ones(2, 3))
    assert isinstance(seen[0], module.ProxyTorchDispatchMode) and seen[1] is None and module.get_proxy_mode() is None
    values = [n.meta["val"] for n in gm.graph.nodes if "val" in n.meta]
    assert [(tuple(v.shape), v.device.type) for v in values] == [((2, 3), "meta")] * 2


def test_modules_and_other_callables():
    def run(t):
        net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.ReLU())
        make_fx = t.fx.experimental.proxy_tensor.make_fx
        return make_fx(net)(t.ones(1, 2)).code, make_fx(lambda *xs: xs[0] + xs[1])(t.ones(1), t.ones(1)).code

    agree(run)


def test_operators_take_proxies():
    def f(aten):
        return lambda x: (aten.add.Tensor(x, x), aten.cat([x, x], 1), aten.sum.dim_IntList(x, [x.size(0)]))

    agree(lambda t: t.fx.symbolic_trace(f(t.ops.aten)).code)


def test_refused():
    make_fx = torchlike.fx.experimental.proxy_tensor.make_fx
    agree(lambda t: said(lambda: t.fx.experimental.proxy_tensor.make_fx(abs, tracing_mode="bogus")))
    for options in ({"tracing_mode": "symbolic"}, {"pre_dispatch": True}, {"record_module_stack": True}):
        with pytest.raises(NotImplementedError, match=f"make_fx.{next(iter(options))}"):
            make_fx(abs, **options)
    assert torch.fx
