"""torch._dynamo.export gives PyTorch's graphs, as modules that are called like the function."""

import pytest
from both import agree, agree_error

import torchlike


def net(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = t.nn.Linear(3, 2)
            self.register_buffer("seen", t.ones(2))

        def forward(self, x, more=None):
            y = self.inner(x).relu() + self.seen
            return y if more is None else (y, more["b"] * 2)

    t.manual_seed(1)
    return Net()


def exported(t, f, *args, **options):
    t._dynamo.reset()
    return t._dynamo.export(f, **options)(*args).graph_module


def steps(module):
    """(kind, name of the target) of the steps, without places of tensors."""
    return [
        (n.op, getattr(n.target, "__name__", n.target) if n.op.startswith("call") else "") for n in module.graph.nodes
    ]


CALLS = {
    "containers": (lambda x, y: {"a": x.sin() + y["k"], "b": [x * 2, 3]}, lambda t: (t.ones(2), {"k": t.zeros(2)})),
    "a number": (lambda x, n: x * n, lambda t: (t.ones(2), 4)),
    "an argument back": (lambda x, y: (y, x.exp()), lambda t: (t.ones(2), t.zeros(1))),
    "a branch": (lambda x: x + 1 if x.shape[0] > 1 else x, lambda t: (t.ones(3),)),
    "nothing": (lambda x: x, lambda t: (t.ones(3),)),
    "the rest": (lambda *xs: xs[0] - xs[1], lambda t: (t.ones(3), t.zeros(3))),
}


@pytest.mark.parametrize("name", CALLS)
def test_graphs_of_functions(name):
    f, make = CALLS[name]

    def code(t):
        args = make(t)
        module = exported(t, f, *args)
        return module(*args), isinstance(module, t.fx.GraphModule), [k for k, _ in steps(module) if k != "output"]

    agree(code)


@pytest.mark.parametrize("given", [(), ({"b": 1},)])
def test_graphs_of_modules(given):
    def code(t):
        model, x = net(t), t.ones(2, 3)
        args = [{k: t.full((2,), 3.0) for k in d} for d in given]
        module = exported(t, model, x, *args)
        shapes = sorted(tuple(p.shape) for p in module.parameters()), [tuple(b.shape) for b in module.buffers()]
        more = {"more": args[0]} if args else {}
        ours, theirs = [sorted(m.parameters(), key=t.numel) for m in (module, model)]
        return (
            module(x, *args),
            module(t.zeros(5, 3), **more),
            shapes,
            [p is q for p, q in zip(ours, theirs, strict=True)],
        )

    agree(code)


def test_graphs_of_aten_calls():
    def code(t):
        module = exported(t, lambda x, y: (x @ y).relu() + 1, t.ones(2, 2), t.ones(2, 2), aten_graph=True)
        return steps(module), module(t.ones(2, 2), t.ones(2, 2))

    agree(code)


def test_the_function_itself_does_not_run():
    def code(t):
        x = t.zeros(2)
        module = exported(t, lambda x: x.add_(1) * 2, x)
        return x.clone(), module(x), x

    agree(code)


def test_at_once_and_refused():
    agree(lambda t: t._dynamo.export(lambda x, y: x - y, t.ones(2), t.zeros(2))[0](t.ones(2), t.ones(2)))
    agree_error(lambda t: exported(t, lambda x: x if x.sum() > 0 else -x, t.ones(2)), "")
    agree_error(lambda t: exported(t, lambda x: x, t.ones(2))(t.ones(2), 1), "positional arguments")
    agree_error(lambda t: exported(t, lambda x: x, t.ones(2), decomposition_table={}), "aten_graph")
    with pytest.raises(NotImplementedError, match="torch.export.export"):
        torchlike._dynamo.export(lambda x: x, dynamic_shapes=[None])
