"""Functions as backends of ``torch.compile``: the graphs that they are given, and calls of what they return."""

import types
import warnings

import pytest
import torch
import torch._dynamo
from both import agree

import torchlike


def kept(t, f, fullgraph=True, **options):
    """(``f`` compiled by a backend that keeps its graphs, these)."""
    graphs = []

    def backend(graph, inputs, **given):
        graphs.append((graph, inputs, given))
        return graph.forward

    t._dynamo.reset()
    return t.compile(f, backend=backend, fullgraph=fullgraph, **options), graphs


def steps(graph):
    """(kind, target) of the steps."""
    return [(n.op, getattr(n.target, "__name__", n.target)) for n in graph.graph.nodes if n.op != "placeholder"]


def numbers(t, *shape, grad=False):
    count = 1
    for n in shape:
        count *= n
    return (t.arange(float(count)).reshape(shape) / 4 - 1).requires_grad_(grad)


def net(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm, self.k = t.nn.Linear(2, 3), t.nn.BatchNorm1d(3), 2.0
            with t.no_grad():
                self.linear.weight.copy_(numbers(t, 3, 2))
                self.linear.bias.fill_(0.5)

        def forward(self, x):
            with t.no_grad():
                z = x.sum()
            return {"h": self.norm(t.relu(self.linear(x)) * self.k).T, "z": z, "x": x, "n": 3}

    return Net()


W = {}
FUNCTIONS = {
    "operators": lambda t, x: (x + 1) * 2 - x / 3 @ x.T if False else (x + 1) * 2 - x / 3,
    "functions": lambda t, x: t.relu(x).add(1) + t.nn.functional.softplus(x),
    "methods": lambda t, x: x.sum(0, keepdim=True).clamp(min=0.5).view(-1),
    "tuples": lambda t, x: [part * 2 for part in x.chunk(2)] + list(t.max(x, 0)),
    "rows": lambda t, x: [row + 1 for row in x],
    "subscripts": lambda t, x: x[1:, None] + x[0, 1],
    "attributes": lambda t, x: x.T + x.shape[0] + x.mT.ndim,
    "factories": lambda t, x: x + t.ones(4, 2, dtype=x.dtype) + t.full((2,), 3.0),
    "lists": lambda t, x: t.cat([x, x * 2]).sum() + t.stack((x, x)).mean(),
    "an attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    "an einsum": lambda t, x: t.einsum("ij,kj->ik", x, x),
    "arithmetic of results": lambda t, x: -(abs(x) ** 2) + (x > 0) * 1.0,
    "no grad": lambda t, x: without_grad(t, x),
    "a loss": lambda t, x: t.nn.functional.mse_loss(x, x * 2),
    "an argument": lambda t, x: (x, x + 1),
    "what it made twice": lambda t, x: 2 * [x + 1],
    "in place": lambda t, x: (x * 1).add_(2).mul_(x),
    "an entry": lambda t, x: put(x * 1),
}


def without_grad(t, x):
    with t.no_grad():
        y = x * 2
    return y + x * 3


def put(x):
    x[0] = 5
    x[1:2, 0] += 1
    return x


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_graph_and_its_results_are_pytorchs(name):
    def told(t):
        run, graphs = kept(t, lambda x: FUNCTIONS[name](t, x))
        x, again = numbers(t, 4, 2, grad=True), numbers(t, 4, 2, grad=True)
        results = [run(x), run(again)]
        flat = results[0] if isinstance(results[0], tuple | list) else [results[0]]
        sum([y.sum() for y in flat if y.requires_grad]).backward()
        shapes = [[tuple(i.shape) for i in inputs] for _, inputs, _ in graphs]
        return results, x.grad, [steps(graph) for graph, _, _ in graphs], shapes

    agree(lambda t: told(t)[:2])
    ours, theirs = told(torchlike)[2:], told(torch)[2:]
    assert ours[1] == theirs[1] and len(ours[0]) == 1
    if name != "rows":  # PyTorch takes each by getitem
        assert [sorted(map(str, g)) for g in ours[0]] == [sorted(map(str, g)) for g in theirs[0]]


def test_a_module_is_trained():
    def told(t):
        model, losses = net(t).double(), []
        run, graphs = kept(t, model)
        optimizer = t.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            out = run(numbers(t, 4, 2).double())
            loss = (out["h"] ** 2).sum() + out["z"]
            loss.backward()
            optimizer.step()
            losses.append(loss)
        graph, inputs, _ = graphs[0]
        names = sorted([type(i).__name__ for i in inputs])
        assert len(graphs) == 1 and list(out) == ["h", "z", "x", "n"]
        return losses, list(model.parameters())[:3], model.norm.running_mean, model.norm.num_batches_tracked, names

    agree(told)


def test_its_steps_are_pytorchs():
    def told(t):
        run, graphs = kept(t, net(t))
        run(numbers(t, 4, 2))
        return steps(graphs[0][0])

    assert told(torchlike) == told(torch)


def test_inputs_are_named_as_the_function_names_them():
    run, graphs = kept(torchlike, net(torchlike))
    run(torchlike.ones(4, 2))
    names = [n.target for n in graphs[0][0].graph.nodes if n.op == "placeholder"]
    assert names[:2] == ["L_x_", "L_self_modules_linear_parameters_weight_"]

    def f(x, *more, d, **others):
        return x + more[0] + d["a"][0] + others["z"]

    run, graphs = kept(torchlike, f)
    x = torchlike.ones(2)
    run(x, x * 2, d={"a": [x * 3]}, z=x * 4)
    assert [n.target for n in graphs[0][0].graph.nodes if n.op == "placeholder"] == [
        "L_x_",
        "L_args_1_",
        "L_d_a_0_",
        "L_z_",
    ]
    nodes = list(graphs[0][0].graph.nodes)
    assert nodes[0].meta["example_value"].shape == (2,) and nodes[4].meta["example_value"].device.type == "meta"


def test_what_the_backend_returns_is_what_runs():
    def told(t):
        calls = []

        def backend(graph, inputs):
            def run(*given):
                calls.append(len(given))
                return [2 * y for y in graph(*given)]

            return run

        run = t.compile(lambda x: (x.sin(), x + 1), backend=backend)
        return [run(t.ones(2) * i) for i in range(3)], calls

    agree(told)


def test_changes_of_what_it_read_give_other_graphs():
    def told(t):
        box = types.SimpleNamespace(k=2.0, w=t.ones(2), log=[])

        def f(x, d):
            box.log.append(x * box.k)
            d["y"] = x + box.w
            return d["y"] * 2 if x.shape[0] == 2 else d["y"].sum()

        run, graphs = kept(t, f)
        found, d = [], {}
        for k in (2.0, 2.0, "w", 2.0):
            if k == "w":
                box.w = t.ones(2) * 5
            found += [run(t.ones(2), d), d["y"]]
        box.w = t.ones(3)
        found.append(run(t.ones(3), d))
        box.k = 3.0
        return found, run(t.ones(3), d), box.log

    agree(told)


def test_numbers_that_change_become_inputs():
    box = types.SimpleNamespace(n=0.0)

    def f(x):
        box.n += 1
        return x * box.n

    run, graphs = kept(torchlike, f)
    assert [run(torchlike.ones(1)).item() for _ in range(4)] == [1, 2, 3, 4]
    assert len(graphs) == 1 and box.n == 4


def test_an_argument_changed_in_place_is_changed():
    def told(t):
        run, _ = kept(t, lambda x, y: x.add_(1) + y)
        x = t.ones(2)
        view = t.zeros(4)
        return run(x, x), x, run(view[:2], view[1:3]), view

    agree(told)


def test_a_function_of_its_own_derivative_is_one_step():
    class Double(torchlike.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 10

    run, graphs = kept(torchlike, lambda x: Double.apply(x) + 1)
    x = torchlike.ones(2, requires_grad=True)
    run(x).sum().backward()
    assert x.grad.tolist() == [10, 10] and len(graphs) == 1


def test_a_map_is_one_step():
    run, graphs = kept(torchlike, lambda x: torchlike.vmap(lambda row: row.sum())(x) + 1)
    assert run(torchlike.ones(3, 2)).tolist() == [3, 3, 3] and len(graphs) == 1


def test_without_tensors_to_compute_no_backend_is_asked():
    run, graphs = kept(torchlike, lambda x: (x, 5))
    x = torchlike.ones(2)
    assert run(x)[0] is x and graphs == []


def test_random_numbers_are_drawn_as_in_eager_code():
    torchlike.manual_seed(3)
    want = [torchlike.rand(2) for _ in range(3)]
    run, _ = kept(torchlike, lambda x: x + torchlike.rand(2))
    torchlike.manual_seed(3)
    assert [run(torchlike.zeros(2)).tolist() for _ in range(3)] == [w.tolist() for w in want]


def test_modes_and_options_are_given_to_the_backend():
    def told(t):
        run, graphs = kept(t, lambda x: x + 1, options={"a": 1})
        run(t.ones(1))
        run, more = kept(t, lambda x: x + 1, mode="fast")
        run(t.ones(1))
        return graphs[0][2], more[0][2]

    assert told(torchlike) == told(torch)


BREAKS = {
    "a value": lambda x: x * 2 if x.sum() > 0 else x,
    "a backward": lambda x: x.detach().requires_grad_().sum().backward() or x,
    "autocast": lambda x: within(torchlike.autocast("cpu", dtype=torchlike.bfloat16), lambda: x + 1),
    "a closure that is mapped": lambda x: (lambda y: torchlike.vmap(lambda row: row + y[0])(x))(x * 2),
}


def within(context, f):
    with context:
        return f()


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_no_graph_runs_in_eager_code_with_a_warning(name):
    run, graphs = kept(torchlike, BREAKS[name], fullgraph=False)
    x = torchlike.arange(4.0).reshape(2, 2)
    with pytest.warns(UserWarning, match="is not one graph, runs in eager code and is not given to its backend"):
        for _ in range(3):
            assert run(x).tolist() == BREAKS[name](x).tolist()
    assert graphs == []
    with pytest.raises(torchlike._dynamo.exc.Unsupported, match="is not one program"):
        kept(torchlike, BREAKS[name])[0](x)


def failing(graph, inputs):
    raise ValueError("not this one")


@pytest.mark.parametrize("backend, message", [(failing, "not this one"), (lambda g, i: 3, "did not return callable")])
def test_a_backend_that_fails(backend, message):
    for t in (torchlike, torch):
        with pytest.raises(t._dynamo.exc.BackendCompilerFailed, match=message):
            t.compile(lambda x: x + 1, backend=backend)(t.ones(2))


def test_what_returns_something_else_is_refused():
    run = torchlike.compile(lambda x: (x + 1, x + 2), backend=lambda graph, inputs: lambda x: (x,))
    with pytest.raises(RuntimeError, match="returned 1 values; its graph gives a tuple of 2"):
        run(torchlike.ones(2))


def test_backends_by_name():
    for t in (torchlike, torch):
        graphs = []

        @t._dynamo.register_backend(name="of_this_test", tags=("debug",))
        def backend(graph, inputs, graphs=graphs):
            graphs.append(graph)
            return graph.forward

        assert t.compile(lambda x: x + 1, backend="of_this_test")(t.ones(1)).tolist() == [2] and len(graphs) == 1
        assert "of_this_test" not in t._dynamo.list_backends() and "of_this_test" in t._dynamo.list_backends(None)
        assert t._dynamo.lookup_backend("of_this_test") is backend and t._dynamo.lookup_backend(backend) is backend
        with pytest.raises(AssertionError, match="duplicate name: of_this_test"):
            t._dynamo.register_backend(backend, name="of_this_test")
        with pytest.raises(t._dynamo.exc.InvalidBackend, match="Invalid backend: 'none'"):
            t._dynamo.lookup_backend("none")
        graph = t.fx.symbolic_trace(lambda x: (x * 2,))
        for name in ("eager", "inductor") if t is torchlike else ("eager",):
            assert t._dynamo.lookup_backend(name)(graph, [t.ones(2)])(t.ones(2))[0].tolist() == [2, 2]


def test_a_default_backend():
    graphs = []
    torchlike.compiler.set_default_backend(lambda graph, inputs: graphs.append(graph) or graph.forward)
    try:
        torchlike.compile(lambda x: x + 1)(torchlike.ones(2))
    finally:
        torchlike.compiler.set_default_backend(None)
    torchlike.compile(lambda x: x + 1)(torchlike.ones(2))
    assert len(graphs) == 1


def test_graphs_are_transformed_and_compiled_by_xla():
    def backend(graph, inputs):
        for node in graph.graph.nodes:
            if node.target is torchlike.relu:
                node.target = torchlike.tanh
        graph.recompile()
        return torchlike.compile(graph.forward)

    run = torchlike.compile(lambda x: torchlike.relu(x) + 1, backend=backend)
    x = torchlike.randn(3)
    assert torchlike.allclose(run(x), x.tanh() + 1) and torchlike.allclose(run(x * 2), (x * 2).tanh() + 1)


def test_warnings_of_the_module():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run, _ = kept(torchlike, lambda x: x + 1, fullgraph=False)
        assert run(torchlike.ones(1)).item() == 2
