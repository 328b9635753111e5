"""torch.export against PyTorch's: results, state, gradients, signatures and errors of exported modules."""

import collections
import copy

import numpy as np
import pytest
from both import agree, agree_error
from export_kit import filled, module, numbers, seen

import torchlike as torch
from torchlike.export import UserError

pytestmark = pytest.mark.compilers

Pair = collections.namedtuple("Pair", "a b")


def _mlp(t):
    return filled(t, t.nn.Sequential(t.nn.Linear(3, 4), t.nn.ReLU(), t.nn.Linear(4, 2)))


def _cnn(t):
    convolution = [t.nn.Conv2d(2, 3, 3, padding=1), t.nn.BatchNorm2d(3), t.nn.ReLU(), t.nn.MaxPool2d(2)]
    return filled(t, t.nn.Sequential(*convolution, t.nn.Flatten(), t.nn.Linear(12, 2)))


def _attention(t):
    m = t.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    return filled(t, m)


def _tied(t):
    m = module(t, lambda self, x: self.b(self.a(x)), a=t.nn.Linear(3, 3), b=t.nn.Linear(3, 3))
    m.b.weight = m.a.weight
    return m


def _transient(t):
    m = module(t, lambda self, x: x * self.k)
    m.register_buffer("k", t.ones(3) * 2, persistent=False)
    return m


def _constant(t):
    def forward(self, x):
        return x + self.c

    m = module(t, forward)
    m.c = t.ones(3) * 3
    return m


def _reassigned(t):
    def forward(self, x):
        self.n = self.n + x.detach().mean()
        return x * self.n

    return module(t, forward, n=t.zeros(()))


def _mutated_parameter(t):
    def forward(self, x):
        with t.no_grad():
            self.p.mul_(2)
        return x * self.p

    return module(t, forward, p=t.nn.Parameter(t.ones(3)))


def _of(forward):
    return lambda t: module(t, lambda self, *args, **kwargs: forward(t, *args, **kwargs))


X = lambda t: (numbers(t, 2, 3),)  # noqa: E731
MODULES = {
    "mlp": (_mlp, X),
    "cnn with batch norm": (_cnn, lambda t: (numbers(t, 2, 2, 4, 4),)),
    "attention": (_attention, lambda t: (numbers(t, 2, 5, 4),)),
    "layer norm": (lambda t: filled(t, t.nn.LayerNorm(3)), X),
    "lstm": (lambda t: filled(t, t.nn.LSTM(3, 2)), lambda t: (numbers(t, 4, 1, 3),)),
    "embedding": (lambda t: filled(t, t.nn.Embedding(5, 2)), lambda t: (t.tensor([[0, 4, 4]]),)),
    "batch norm in eval": (lambda t: filled(t, t.nn.BatchNorm1d(3)).eval(), X),
    "tied parameters": (_tied, X),
    "transient buffer": (_transient, X),
    "constant": (_constant, X),
    "reassigned buffer": (_reassigned, X),
    "mutated parameter": (_mutated_parameter, X),
    "the argument itself": (_of(lambda t, x: (x, x * 2)), X),
    "kinks": (_of(lambda t, x: t.relu(x - x).abs() + x.clamp(0.5, 1)), X),
    "no tensors": (_of(lambda t, n: n), lambda t: (3,)),
    "numbers among the arguments": (
        _of(lambda t, x, n, s, b: x * n if b and s == "a" else x), lambda t: (t.ones(2), 3, "a", True),
    ),
    "nested arguments": (_of(lambda t, d, p: d["k"][0] * p[1]), lambda t: ({"k": [t.ones(2)]}, (None, numbers(t, 2)))),
    "nested results": (_of(lambda t, x: {"y": [x * 2, 3, None], "z": (x.sum(), "s", 1.5, True)}), X),
    "named tuples": (_of(lambda t, p: Pair(p.a * p.b, p.a)), lambda t: (Pair(t.ones(2), numbers(t, 2)),)),
    "empty": (_of(lambda t, x: x * 2), lambda t: (t.ones(0, 3),)),
    "scalar": (_of(lambda t, x: x.exp()), lambda t: (t.tensor(0.5),)),
    "integers": (_of(lambda t, x: x + 1), lambda t: (t.tensor([1, 2]),)),
    "complex": (_of(lambda t, x: t.view_as_real(x * x)), lambda t: (t.complex(*numbers(t, 2, 3)),)),
    "no grad inside": (_of(lambda t, x: _without_grad(t, x) + x), X),
    "one result twice": (_of(lambda t, x: _twice(x * 2)), X),
    "views of a result": (_of(lambda t, x: (x * 2).T), X),
}  # fmt: skip


def _twice(y):
    return y, [y]


def _without_grad(t, x):
    with t.no_grad():
        return x * 5


@pytest.mark.parametrize("name", MODULES)
def test_exported_modules(name):
    make, args = MODULES[name]
    agree(lambda t: seen(t, make(t), args(t)))


def test_keyword_arguments():
    agree(lambda t: seen(t, module(t, lambda self, x, *, scale=2.0: x * scale), (t.ones(2),), {"scale": 3.0}))
    agree(lambda t: seen(t, module(t, lambda self, x, y=None: x if y is None else x * y), (t.ones(2),)))


def _inference(t):
    f = module(t, lambda self, x: x.add_(1) * 2)
    g = t.export.export(f, (t.zeros(3),)).module()
    x = t.zeros(3)
    view = x[1:]
    return g(x), x, view, g(x), x


def test_a_changed_argument_is_changed():
    agree(_inference)


def test_results_share_memory_as_in_eager():
    def script(t):
        g = t.export.export(module(t, lambda self, x: (x, x.T, x[0], x[:, 1:])), (t.ones(2, 3),)).module()
        x = t.ones(2, 3)
        same, transposed, row, rest = g(x)
        row.mul_(5)
        return same is x, transposed._base is x, rest.is_leaf, transposed.stride(), x, transposed, rest.stride(), rest

    agree(script)


def test_tensors_are_those_of_the_module():
    def script(t):
        m = filled(t, t.nn.BatchNorm1d(3))
        ep = t.export.export(m, (numbers(t, 4, 3),))
        g, h = ep.module(), ep.module()
        g(numbers(t, 4, 3))
        return g is h, g.weight is m.weight, h.running_mean is m.running_mean, m.running_mean, m.num_batches_tracked

    agree(script)


def test_new_values_are_seen():
    def script(t):
        m = _mlp(t)
        ep = t.export.export(m, (t.ones(1, 3),))
        g = ep.module()
        with t.no_grad():
            m[0].weight.zero_()
        first = g(t.ones(1, 3))
        g.load_state_dict({k: t.ones_like(v) for k, v in m.state_dict().items()})
        return first, g(t.ones(1, 3)), ep.state_dict

    agree(script)


def test_training_an_exported_module():
    def script(t):
        g = t.export.export(_mlp(t), (numbers(t, 4, 3),)).module()
        optimizer = t.optim.SGD(g.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = g(numbers(t, 4, 3)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        return losses, g.state_dict()

    agree(script)


def test_signature():
    def script(t):
        m = module(t, lambda self, x, d: (self.bn(x) + d["k"] + self.t + self.c, x, 3), bn=t.nn.BatchNorm1d(3))
        m.register_buffer("t", t.ones(3), persistent=False)
        m.c = t.ones(3)
        ep = t.export.export(m, (t.ones(4, 3), {"k": t.ones(3)}))
        s, r = ep.graph_signature, ep.run_decompositions().graph_signature if t is not torch else ep.graph_signature
        return (
            s.parameters, sorted(s.buffers), s.non_persistent_buffers, s.user_inputs, s.lifted_tensor_constants,
            dict(s.inputs_to_parameters), dict(s.inputs_to_lifted_tensor_constants), sorted(s.inputs_to_buffers),
            sorted(r.buffers_to_mutate.values()), s.user_outputs[1:], str(ep.call_spec.in_spec),
            [n for n, _ in ep.named_parameters()], sorted(n for n, _ in ep.named_buffers()), sorted(ep.constants),
            list(ep.state_dict), sorted(map(str, s.input_specs)),
        )  # fmt: skip

    agree(script)


def test_random_numbers_follow_the_default_generator():
    m = torch.nn.Dropout(0.5)
    f = lambda x: m(x) + torch.rand(2, 50)  # noqa: E731
    x = torch.ones(2, 50)
    torch.manual_seed(3)
    g = torch.export(f, (x,)).module()
    eager = [f(x), f(x), torch.rand(1)]
    torch.manual_seed(3)
    exported = [g(x), g(x), torch.rand(1)]
    for a, b in zip(eager, exported, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_functions_closing_over_tensors():
    w, k = torch.tensor([2.0, 3.0], requires_grad=True), torch.ones(2)
    ep = torch.export(lambda x: x * w + k, (torch.ones(2),))
    g = ep.module()
    k.add_(1)
    x = torch.ones(2, requires_grad=True)
    out = g(x)
    out.sum().backward()
    assert out.tolist() == [4.0, 5.0] and w.grad.tolist() == [1.0, 1.0] and x.grad.tolist() == [2.0, 3.0]
    assert set(ep.constants) == {"lifted_tensor_0", "lifted_tensor_1"}
    assert "dense<[2" not in ep.text()  # no number of w in the program


def test_methods_of_modules_keep_their_names():
    m = torch.nn.Linear(3, 2)
    ep = torch.export(m.forward, (torch.ones(1, 3),))
    assert list(ep.state_dict) == ["weight", "bias"]


def test_the_export_changes_nothing():
    m = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout())
    m.notes = []
    before, state = copy.deepcopy(m.state_dict()), torch.get_rng_state()
    torch.export.export(m, (torch.ones(4, 3),))
    assert all(torch.equal(v, before[k]) for k, v in m.state_dict().items())
    assert torch.equal(state, torch.get_rng_state()) and all(p.grad is None and p.is_leaf for p in m.parameters())
    m(torch.ones(4, 3))  # and holds no tracer


def test_an_attribute_set_while_exporting_is_taken_back():
    def forward(self, x):
        self.last = x * 2
        return self.last + 1

    m = module(torch, forward)
    g = torch.export.export(m, (torch.ones(2),)).module()
    assert g(torch.ones(2)).tolist() == [3.0, 3.0] and not hasattr(m, "last")


def test_without_gradients():
    x = torch.ones(3, requires_grad=True)
    ep = torch.export(lambda x: x * 2, (x,), vjp_order=0)
    with torch.no_grad():
        assert not ep.module()(x).requires_grad
    out = ep.module()(x)
    with pytest.raises(RuntimeError, match=r"exported without its derivative \(vjp_order=0\)"):
        out.sum().backward()
    with pytest.raises(ValueError, match="vjp_order=0"):
        ep.text("backward")


def test_backward_once():
    x = torch.ones(3, requires_grad=True)
    out = torch.export(lambda x: x * x, (x,)).module()(x)
    assert out.grad_fn.name() == "ExportedProgramBackward"
    (grad,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
    assert grad.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(out.sum(), x, create_graph=True)
    torch.autograd.grad(out.sum(), x)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(out.sum(), x)


def test_gradients_inside():
    def slope(x):
        y = x.detach().requires_grad_()
        return torch.autograd.grad((y**3).sum(), y)[0]

    g = torch.export(slope, (torch.ones(2),)).module()
    assert g(torch.tensor([1.0, 2.0])).tolist() == [3.0, 12.0]


def test_inside_compiled_and_exported_functions():
    g = torch.export.export(_mlp(torch), (numbers(torch, 2, 3),)).module()
    x = numbers(torch, 2, 3, start=1)
    expected = g(x).detach().numpy()
    np.testing.assert_allclose(torch.compile(lambda x: g(x))(x).detach().numpy(), expected)
    np.testing.assert_allclose(torch.export(g, (x,)).module()(x).detach().numpy(), expected)


def test_exported_again():
    n = torch.export.Dim("n")
    inner = torch.export.export(torch.nn.Dropout(0.5), (torch.ones(4),), dynamic_shapes=({0: n},))
    outer = torch.export(inner.module(), (torch.ones(4),), dynamic_shapes={"args": ({0: n},)}).module()
    step = torch.compile(lambda x: inner.module()(x))
    results = []
    for f in (torch.nn.Dropout(0.5), inner.module(), outer, step):
        torch.manual_seed(1)
        x = torch.ones(50, requires_grad=True)
        out = f(x), f(x)
        sum(out).sum().backward()
        results.append([*out, x.grad])
    for found in results[1:]:
        for a, b in zip(found, results[0], strict=True):
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_a_copy_of_an_exported_module():
    g = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),)).module()
    h = copy.deepcopy(g)
    with torch.no_grad():
        h.weight.zero_()
        h.bias.zero_()
    assert h(torch.ones(1, 3)).tolist() == [[0.0, 0.0]] and g.weight.abs().sum() > 0


def test_text_and_cost():
    ep = torch.export(lambda x, y: x @ y, (torch.ones(4, 8), torch.ones(8, 2)), platforms=("cpu", "tpu", "cuda"))
    assert "stablehlo.dot_general" in ep.text() and ep.cost_analysis()["flops"] == 128
    assert ep.platforms == ("cpu", "tpu", "cuda") and "float32[4, 8]" in repr(ep)
    assert "stablehlo.dot_general" in ep.text("backward")
    with pytest.raises(ValueError, match="which must be one of"):
        ep.text("sideways")


def test_another_platform():
    ep = torch.export(lambda x: x * 2, (torch.ones(2),), platforms=("tpu",))
    with pytest.raises(ValueError, match="exported for platforms.*tpu"):
        ep.module()(torch.ones(2))


def test_lowered():
    program = torch.export.lowered(torch.compile(lambda x, y: x @ y), torch.ones(4, 8), torch.ones(8, 2))
    assert "dot_general" in program.text() and "HloModule" in program.text(optimized=True)
    assert program.cost_analysis()["flops"] == 128
    m, state = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Dropout()), torch.get_rng_state()
    assert "rsqrt" in torch.export.lowered(torch.compile(m), torch.ones(4, 3)).text()
    assert torch.equal(state, torch.get_rng_state()) and m[0].num_batches_tracked.item() == 0


# ----- wrong calls -----


def _called(t, call, forward=lambda self, x, n=2: x * n, args=(2,)):
    return call(t.export.export(module(t, forward), (t.ones(4, 3), *args)).module())


WRONG = {
    "length": (lambda t, g: g(t.ones(5, 3), 2), r"Guard failed: x.size\(\)\[0\] == 4"),
    "number": (lambda t, g: g(t.ones(4, 3), 3), "Guard failed: n == 2"),
    "tensor for a number": (lambda t, g: g(t.ones(4, 3), "a"), "Guard failed: n == 2"),
    "number for a tensor": (lambda t, g: g(3, 2), "'int' object has no attribute 'size'"),
    "missing": (lambda t, g: g(t.ones(4, 3)), "input tree spec"),
    "too many": (lambda t, g: g(t.ones(4, 3), 2, 2), "input tree spec"),
    "nested": (lambda t, g: g([t.ones(4, 3)], 2), "input tree spec"),
    "by name": (lambda t, g: g(x=t.ones(4, 3), n=2), r"\['x', 'n'\] but expected \[\]"),
    "eval": (lambda t, g: g.eval(), r"Calling eval\(\) is not supported yet"),
    "train": (lambda t, g: g.train(), r"Calling train\(\) is not supported yet"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    call, match = WRONG[name]
    agree_error(lambda t: _called(t, lambda g: call(t, g)), match)


ADDS = _of(lambda t, x: x.add_(1) * 2)
REFUSED = {
    "function": (lambda t: t.export.export(lambda x: x, (t.ones(1),)), "Expected `mod` to be an instance"),
    "tensor as args": (lambda t: t.export.export(t.nn.ReLU(), t.ones(1)), "Expecting `args` to be a tuple"),
    "list as args": (lambda t: t.export.export(t.nn.ReLU(), [t.ones(1)]), "Expecting `args` to be a tuple"),
    "missing argument": (lambda t: t.export.export(t.nn.ReLU(), ()), "missing a required argument: 'input'"),
    "object": (lambda t: t.export.export(t.nn.ReLU(), (object(),)), "Unsupported input type <class 'object'>"),
    "complex number": (lambda t: t.export.export(t.nn.ReLU(), (1j,)), "Unsupported input type <class 'complex'>"),
    "object returned": (
        lambda t: t.export.export(_of(lambda t, x: (x, object()))(t), (t.ones(1),)), "Found <class 'object'> in output",
    ),
    "direct call": (lambda t: t.export.export(t.nn.ReLU(), (t.ones(1),))(t.ones(1)), "Unable to call ExportedProgram"),
    "index": (
        lambda t: t.export.export(t.nn.Embedding(3, 2), (t.tensor([0]),)).module()(t.tensor([5])), "index out of range",
    ),
    "leaf changed in place": (
        lambda t: t.export.export(ADDS(t), (t.ones(2),)).module()(t.ones(2, requires_grad=True)),
        "a leaf Variable that requires grad is being used in an in-place operation",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_in_pytorch(name):
    f, match = REFUSED[name]
    agree_error(f, match)


def test_a_mutated_constant_is_refused():
    m = module(torch, lambda self, x: x + self.c.add_(1))
    m.c = torch.ones(3)
    with pytest.raises(UserError, match="Constant c is mutated by M. Register it as a buffer"):
        torch.export.export(m, (torch.ones(3),))
    assert m.c.tolist() == [1.0, 1.0, 1.0]


def _backward(x):
    w = torch.ones(2, requires_grad=True)
    OUTSIDE.grad = None
    (OUTSIDE * x * w).sum().backward()
    return x


OUTSIDE = torch.ones(2, requires_grad=True)


def _grown(self, x):
    self.n = torch.cat([self.n, x.detach()])
    return x


OWN = {
    "another shape": (module(torch, _grown, n=torch.ones(2)), r"shape \[2\] .* a value of shape \[4\]"),
    "optimizer": (lambda x: OPTIMIZER.step() or x, "takes a step of an optimizer"),
    "branch": (lambda x: x if x.sum() > 0 else -x, r"needs the value of a tensor.*test_export.py:\d+: .*torch.cond"),
    "item": (lambda x: x * x.sum().item(), "needs the value of a tensor"),
    "generator": (lambda x: x + torch.rand(2, generator=GENERATOR), "generator of its own"),
    "seed": (lambda x: torch.manual_seed(5) and x, "sets the seed"),
    "grad": (_backward, r"accumulates gradients into \.grad"),
    "hook": (lambda x: OUTSIDE.register_hook(print) and x, "hooks"),
}
GENERATOR = torch.Generator()
OPTIMIZER = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))])
OPTIMIZER.param_groups[0]["params"][0].grad = torch.ones(2)


@pytest.mark.parametrize("name", OWN)
def test_what_cannot_be_a_program(name):
    f, match = OWN[name]
    with pytest.raises(UserError, match=match):
        torch.export(f, (torch.ones(2),))
    assert OUTSIDE.grad is None and not OUTSIDE._backward_hooks


def test_wrong_dtype_and_state():
    g = torch.export.export(_mlp(torch), (torch.ones(1, 3),)).module()
    with pytest.raises(RuntimeError, match=r"input has dtype torch.float64.*exported for torch.float32.*\.to\("):
        g(torch.ones(1, 3, dtype=torch.float64))
    g._modules["0"]._parameters["weight"] = torch.nn.Parameter(torch.ones(2, 2))
    with pytest.raises(RuntimeError, match=r"parameter 0.weight is torch.float32 of shape \[2, 2\]"):
        g(torch.ones(1, 3))


def test_a_failed_call_changes_nothing():
    m = module(torch, lambda self, i: (self.n.add_(1), self.w[i])[1], n=torch.zeros(()), w=torch.ones(3))
    g = torch.export.export(m, (torch.tensor(0),)).module()
    with pytest.raises(IndexError):
        g(torch.tensor(7))
    assert m.n.item() == 0
    g(torch.tensor(2))
    assert m.n.item() == 1


def test_aliased_arguments_of_a_program_that_writes():
    g = torch.export(lambda x, y: x.add_(1) + y, (torch.ones(2), torch.ones(2))).module()
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="shares its memory"):
        g(x, x)
    assert x.tolist() == [1.0, 1.0]


def test_other_arguments():
    with pytest.raises(TypeError, match="expected a function or a module, got int"):
        torch.export(3, (torch.ones(1),))
    with pytest.raises(ValueError, match="vjp_order must be 0, 1 or None, not 2"):
        torch.export(torch.relu, (torch.ones(1),), vjp_order=2)
    with pytest.raises(NotImplementedError, match="preserve_module_call_signature"):
        torch.export.export(torch.nn.ReLU(), (torch.ones(1),), preserve_module_call_signature=("a",))
    with pytest.raises(AttributeError, match="does not have torch.export.draft_export yet"):
        torch.export.draft_export  # noqa: B018


def test_a_program_has_no_graph():
    program = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    for name in ("graph", "graph_module", "run_decompositions"):
        assert not hasattr(program, name)
        with pytest.raises(NotImplementedError, match=rf"ExportedProgram.{name}: the program is StableHLO.*make_fx"):
            getattr(program, name)
    with pytest.raises(AttributeError, match="no attribute 'grpah'"):
        _ = program.grpah
    assert program.tensor_constants == program.constants == {}
