"""Compiled: functional calls, lazy modules, copies and pickles of modules."""

import copy
import io

import pytest
from story_kit import story

import torchlike as tl


@story
def test_functional_call(t):
    """Parameters given from outside are inputs of the program: values, gradients, tied weights, buffers."""
    m = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
    with t.no_grad():
        m[0].weight.copy_(t.eye(2))
        m[0].bias.zero_()
    step = lambda params, x: t.func.functional_call(m, params, (x,))  # noqa: E731
    step = t.compile(step) if t is tl else step
    seen = []
    for scale in (1.0, 2.0, 3.0):
        w = (t.eye(2) * scale + t.tensor([[0.0, 0.5], [1.5, 0.0]])).requires_grad_()
        mean = t.zeros(2)
        y = step({"0.weight": w, "1.running_mean": mean}, t.tensor([[1.0, 2.0], [3.0, 5.0], [4.0, 0.0]]))
        (y * t.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]])).sum().backward()
        seen.append((y, w.grad.round(decimals=3), mean, m[1].running_mean, m[0].weight, m[0].weight.grad))
    return seen


@story
def test_functional_call_under_transforms(t):
    m = t.nn.Linear(2, 1)
    with t.no_grad():
        m.weight.copy_(t.tensor([[1.0, 2.0]]))
        m.bias.fill_(0.5)
    loss = lambda params, x: t.func.functional_call(m, params, (x,)).square().sum()  # noqa: E731
    each = t.func.vmap(t.func.grad(loss), in_dims=(None, 0))
    each = t.compile(each) if t is tl else each
    params = {k: v.detach() for k, v in m.named_parameters()}
    x = t.tensor([[1.0, 2.0], [3.0, 4.0]])
    return [sorted(each(params, x).items()) for _ in range(2)]


@story
def test_stacked_models(t):
    models = [t.nn.Linear(2, 1) for _ in range(3)]
    with t.no_grad():
        for i, m in enumerate(models):
            m.weight.fill_(i)
            m.bias.fill_(1)
    params, buffers = t.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    run = lambda p, b, x: t.func.functional_call(base, (p, b), (x,))  # noqa: E731
    run = t.func.vmap(run, in_dims=(0, 0, None))
    run = t.compile(run) if t is tl else run
    return run(params, buffers, t.tensor([[1.0, 2.0]]))


def graph_breaks():
    return sum(tl._dynamo.utils.counters["graph_break"].values())


@pytest.mark.parametrize("fullgraph", [False, True])
def test_lazy_modules(fullgraph):
    """The first call makes the parameters, compiled or not; later ones are calls of one program."""
    m = tl.nn.Sequential(tl.nn.LazyLinear(3), tl.nn.ReLU(), tl.nn.LazyBatchNorm1d(), tl.nn.LazyLinear(1))
    x = tl.arange(8.0).reshape(4, 2)
    compiled, before = tl.compile(m, fullgraph=fullgraph), graph_breaks()
    for _ in range(3):
        y = compiled(x)
    assert type(m[0]) is tl.nn.Linear and m[0].weight.shape == (3, 2) and type(m[2]) is tl.nn.BatchNorm1d
    assert int(m[2].num_batches_tracked) == 3
    assert graph_breaks() == before
    y.sum().backward()
    assert m[0].weight.grad.shape == (3, 2) and tl.allclose(m.eval()(x), tl.compile(m)(x))


def test_a_lazy_module_made_and_used_inside():
    m = tl.nn.LazyConv2d(2, 3)
    x = tl.ones(1, 3, 4, 4)
    compiled = tl.compile(lambda x: m(x) * 2)
    assert compiled(x).shape == (1, 2, 2, 2) and m.in_channels == 3
    assert tl.allclose(compiled(x), m(x) * 2)


def test_compiled_modules_are_saved_without_their_programs():
    m = tl.nn.Linear(2, 2)
    m.compile()
    x = tl.ones(1, 2)
    want = m(x)
    file = io.BytesIO()
    tl.save(m, file)
    file.seek(0)
    again = tl.load(file, weights_only=False)
    assert tl.equal(again(x), want) and tl.equal(copy.deepcopy(m)(x), want)
    assert m._compiled_call_impl is not None and "_compiled_call_impl" not in vars(again)
