"""aot_function: graphs of forward and backward as PyTorch's, whose compiled parts give the function's gradients."""

import importlib

import pytest
from both import agree, agree_error

import torchlike


def aot(t):
    return importlib.import_module(t.__name__ + "._functorch.aot_autograd")


def steps(module):
    return [(n.op, str(n.target), n.name) for n in module.graph.nodes]


def compiled(t, f):
    """The compiled function, and the graphs that its compilers were given."""
    graphs = []

    def compiler(module, examples):
        graphs.append((steps(module), len(examples)))
        return module

    return aot(t).aot_function(f, compiler, compiler), graphs


FUNCTIONS = {
    "two": lambda t, x, y: (x * y).sin(),
    "results": lambda t, x, y: (x.exp(), [y * 2, x + y]),
    "a result that is kept": lambda t, x, y: (x * y).tanh(),
    "unused": lambda t, x, y: x.square(),
    "integers": lambda t, x, y: (x @ y, (x > 0).long()),
    "linear": lambda t, x, y: t.nn.functional.linear(x, y).relu(),
    "changed inside": lambda t, x, y: x.clone().mul_(y).add_(1) * x,
    "a view changed inside": lambda t, x, y: (x.clone(), [z := x + y, z.view(-1).mul_(2)][0])[1].cos(),
    "what was before a change": lambda t, x, y: (z := x * y, (z * 2).sum() + z.exp_().sum() + (z * x).sum())[1],
    "one of several results": lambda t, x, y: t.nn.functional.layer_norm(x @ y, (2,)) * x.max(1, keepdim=True)[0],
    "loss": lambda t, x, y: t.nn.functional.cross_entropy(x @ y, t.tensor([0, 1])),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    def run(t):
        f, seen = compiled(t, lambda x, y: FUNCTIONS[name](t, x, y))
        found = []
        for i in range(2):
            x = (t.arange(4.0, dtype=t.float64).view(2, 2) - i).requires_grad_()
            y = t.eye(2, dtype=t.float64).requires_grad_()
            out = f(x, y)
            flat = out if isinstance(out, tuple) else (out,)
            flat = [o for part in flat for o in (part if isinstance(part, list) else [part])]
            sum(o.sum() * (j + 1) for j, o in enumerate(flat) if o.requires_grad).backward()
            found += [*flat, x.grad, y.grad]
        same = name in ("two", "unused")
        return [*found, [o.requires_grad for o in flat], seen[:2] if same else None]

    agree(run)


def test_a_module_and_its_modes():
    def run(t):
        model = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Dropout(0.0), t.nn.Tanh(), t.nn.Linear(3, 1)).double()
        with t.no_grad():
            for i, p in enumerate(model.parameters()):
                p.copy_(t.arange(p.numel(), dtype=t.float64).view(p.shape).sin() + i)
        f = aot(t).aot_module(model, lambda module, examples: module)
        f(t.ones(4, 2, dtype=t.float64)).sum().backward()
        return [p.grad for p in model.parameters()], [n for n, _ in f.named_parameters()]

    agree(run)


def test_each_call_draws_and_keeps_its_mask():
    f = aot(torchlike).aot_function(lambda x: torchlike.nn.functional.dropout(x), lambda module, examples: module)
    masks = []
    for _ in range(2):
        x = torchlike.ones(64, requires_grad=True)
        out = f(x)
        out.sum().backward()
        assert out.equal(x.grad)
        masks.append(out.detach())
    assert not masks[0].equal(masks[1])


OUTSIDE = torchlike.ones(2, requires_grad=True)
REFUSED = {
    "changes an argument": lambda x: x.add_(1) * 2,
    "changes an argument, through a view": lambda x: x.view(2).mul_(2).sum(),
    "is an argument or a view": lambda x: x.view(2, 1),
    "requires grad is no argument": lambda x: x * OUTSIDE,
    "not a tensor": lambda x: (x * 2, 3),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_refusals(name, requires_grad):
    f = aot(torchlike).aot_function(REFUSED[name], lambda module, examples: module)
    x = torchlike.ones(2)
    x = x.requires_grad_() * 1 if requires_grad else x
    with pytest.raises(RuntimeError, match=name.split(",")[0] + "|in-place"):  # a NotImplementedError is one
        f(x)
    assert x.tolist() == [1.0, 1.0]


def test_statistics_that_would_move_are_refused():
    f = aot(torchlike).aot_module(torchlike.nn.BatchNorm1d(2), lambda module, examples: module)
    with pytest.raises(NotImplementedError, match="changes an argument"):
        f(torchlike.ones(3, 2))
    f.orig_module.eval()
    assert f(torchlike.zeros(3, 2)).tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize("f", [lambda x: x * x, lambda x: x.sin().exp(), lambda x: x.exp()])
def test_second_derivatives_are_refused(f):
    """Also where another way to the argument goes on, whose part alone would be wrong."""

    def second(t):
        x = t.ones(2, requires_grad=True)
        y = aot(t).aot_function(f, lambda module, examples: module)(x) * x
        return t.autograd.grad(t.autograd.grad(y.sum(), x, create_graph=True)[0].sum(), x)

    agree_error(second, "does not currently support double backward")


def test_boxed_functions_take_a_list():
    boxed = aot(torchlike).make_boxed_compiler(lambda module, examples: module.forward)
    f = aot(torchlike).aot_function(lambda x: x * 3, boxed)
    x = torchlike.ones(2, requires_grad=True)
    f(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
