"""Compiled functions against the same functions in eager code: results, state, gradients, random numbers."""

import copy
import gc
import logging
import pickle
import warnings
import weakref
from unittest import TestCase

import pytest
from compile_kit import both, data, numbers, same, state_of

import torchlike as torch
from torchlike import nn

F = nn.functional


# -- training steps ------------------------------------------------------------------------------------
OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "Nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "AdamW amsgrad": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "NAdam": lambda p: torch.optim.NAdam(p),
    "ASGD": lambda p: torch.optim.ASGD(p),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_whole_step(name):
    def make():
        model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
        optimizer = OPTIMIZERS[name](model.parameters())

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        arguments = lambda i: (data(i, 6, 5), torch.tensor([0, 1, 2, 0, 1, 2]))  # noqa: E731
        return step, arguments, state_of(model, optimizer)

    both(make)


def test_a_convolutional_net_with_buffers_and_dropout():
    def make():
        layers = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten()
        model = nn.Sequential(*layers, nn.Linear(36, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, lambda i: (data(i, 4, 2, 8, 8),), state_of(model, optimizer)

    both(make)


def test_a_changed_learning_rate_needs_no_new_program():
    def make():
        model = nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss

        def arguments(i):
            if i:
                scheduler.step()
            return (data(i, 4, 3),)

        return step, arguments, state_of(model, optimizer)

    both(make, calls=6)


def test_gradients_accumulate_over_calls():
    """The first call finds no .grad, later ones add to it: two programs."""

    def make():
        model = nn.Linear(3, 2)
        return lambda x: model(x).sum().backward(), lambda i: (data(i, 4, 3),), state_of(model)

    both(make, programs=2)


def test_an_optimizer_step_alone():
    """The gradients are new tensors in every call."""

    def make():
        model = nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

        def arguments(i):
            model.zero_grad()
            model(data(i, 4, 3)).pow(2).sum().backward()
            return ()

        return lambda: optimizer.step(), arguments, state_of(model, optimizer)

    both(make)


def test_parameter_groups_and_frozen_layers():
    def make():
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2))
        model[1].requires_grad_(False)
        groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters(), "momentum": 0.5}]
        optimizer = torch.optim.SGD(groups, lr=0.01)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss

        return step, lambda i: (data(i, 4, 3),), state_of(model, optimizer)

    both(make)


# -- forward compiled, backward outside ----------------------------------------------------------------


def test_a_compiled_module_trains():
    def make():
        model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.GELU(), nn.Dropout(0.2), nn.Linear(6, 2))
        return model, lambda i: (data(i, 5, 4),), state_of(model)

    seen = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model, arguments, look = make()
        run = torch.compile(model, fullgraph=True) if compiled else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trail = []
        for i in range(4):
            optimizer.zero_grad()
            run(*arguments(i)).pow(2).sum().backward()
            optimizer.step()
            trail.append(numbers(look()))
        seen.append(trail)
    same(*seen)


def test_gradients_flow_through_arguments():
    def make():
        x = data(0, 3, 2).requires_grad_()
        w = data(1, 3, 2).requires_grad_()

        def arguments(i):
            x.grad = w.grad = None
            return x * (i + 1.0), w

        def look():
            return x.grad, w.grad

        return lambda a, b: (a.exp() * b, b.sum(), a.detach()), arguments, look

    seen = []
    for compiled in (False, True):
        function, arguments, look = make()
        run = torch.compile(function, fullgraph=True) if compiled else function
        trail = []
        for i in range(3):
            a, b, c = run(*arguments(i))
            (a.sum() * 2 + b).backward()
            trail.append((numbers((a, b, c)), numbers(look())))
        seen.append(trail)
    same(*seen)


def test_backward_of_one_of_several_results():
    w = torch.ones(2, requires_grad=True)
    f = torch.compile(lambda x: (w * x, w * x * x, x * 2))
    a, b, c = f(torch.full((2,), 3.0))
    b.sum().backward()
    assert w.grad.tolist() == [9, 9] and not c.requires_grad
    assert type(a.grad_fn).__name__ == "CompiledFunctionBackward"


def test_backward_twice_is_refused_and_retained():
    w = torch.ones(2, requires_grad=True)
    out = torch.compile(lambda: (w * w).sum())()
    out.backward(retain_graph=True)
    out.backward()
    assert w.grad.tolist() == [4, 4]
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.backward()


def test_the_graph_of_a_whole_step_is_freed():
    w = torch.ones(2, requires_grad=True)

    def step():
        loss = (w * w).sum()
        loss.backward()
        return loss

    loss = torch.compile(step)()
    assert loss.requires_grad
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_double_backward_of_a_compiled_forward_is_refused():
    w = torch.ones(2, requires_grad=True)
    out = torch.compile(lambda: (w**3).sum())()
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(out, w, create_graph=True)


def test_double_backward_inside():
    def make():
        w = torch.tensor([1.0, 2.0], requires_grad=True)

        def f(x):
            (g,) = torch.autograd.grad((w**3 * x).sum(), w, create_graph=True)
            return torch.autograd.grad(g.sum(), w)

        return f, lambda i: (data(i, 2),), lambda: w.grad

    both(make)


# -- tensors from outside ------------------------------------------------------------------------------


def test_arguments_are_written_in_place():
    def make():
        kept = []

        def arguments(i):
            base = data(i, 4)
            kept[:] = [base, base[1:3], data(i, 2, 2)]
            return kept[1], kept[2]

        def f(view, whole):
            view.mul_(10)
            whole[0] = 7.0
            return view

        return f, arguments, lambda: [*kept, *(t._version for t in kept)]

    both(make)


def test_a_result_that_is_an_argument_or_a_view_of_it():
    x, w = torch.arange(4.0), torch.ones(2, 2)
    same_, row, outside = torch.compile(lambda t: (t, t[1:], w[0]), fullgraph=True)(x)
    assert same_ is x
    row.add_(1)
    assert x.tolist() == [0, 2, 3, 4]
    outside.zero_()
    assert w.tolist() == [[0, 0], [1, 1]]


def test_aliased_arguments():
    def f(a, b):
        a.add_(1)
        return a + b

    g = torch.compile(f, fullgraph=True)
    x, y = torch.ones(2), torch.ones(2)
    assert g(x, y).tolist() == [3, 3]
    assert g(x, x).tolist() == [6, 6]
    assert g(x, y).tolist() == [5, 5]
    assert g.count == 2


def test_a_tensor_in_a_closure_is_read_anew():
    w = torch.ones(2)
    f = torch.compile(lambda x: x * w, fullgraph=True)
    assert f(torch.ones(2)).tolist() == [1, 1]
    w.fill_(5)
    assert f(torch.ones(2)).tolist() == [5, 5]
    assert f.count == 1


def test_buffers_count_calls():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    model = Counter()
    run = torch.compile(model, fullgraph=True)
    assert [run(torch.ones(1)).item() for _ in range(3)] == [1, 2, 3]
    assert model.calls.item() == 3


def test_views_and_in_place_inside():
    def make():
        w = data(5, 4, 4).requires_grad_()

        def f(x):
            h = w * x
            h[1].mul_(2)
            h.t()[0] = 0
            a, b = h.split(2)
            return (a * b).sum()

        return f, lambda i: (data(i, 4, 4),), lambda: None

    both(make)


# -- random numbers ------------------------------------------------------------------------------------


def test_random_numbers_continue_the_stream():
    def make():
        g = torch.Generator().manual_seed(5)
        f = lambda: (torch.rand(3), torch.randn(2, generator=g), F.dropout(torch.ones(8)))  # noqa: E731
        return f, lambda i: (), g.get_state

    both(make)


# -- guards --------------------------------------------------------------------------------------------


def test_shapes_dtypes_and_modes_select_a_program():
    f = torch.compile(lambda x: (x * 2, torch.is_grad_enabled()), fullgraph=True)
    x = torch.ones(3)
    for args, grad in ((x, True), (torch.ones(4), True), (x.double(), True), (x, False), (x, True), (x.int(), False)):
        with torch.set_grad_enabled(grad):
            out, mode = f(args)
        assert out.dtype is args.dtype and mode is grad and out.shape == args.shape
    assert f.count == 5


def test_python_values_are_guarded():
    class Config:
        scale = 1.0

    config, options = Config(), {"shift": 1.0}
    config.scale = 2.0
    f = torch.compile(lambda x, n=1: x * config.scale + options["shift"] * n, fullgraph=True)
    x = torch.ones(1)
    assert f(x).item() == 3
    config.scale = 3.0
    assert f(x).item() == 4
    options["shift"] = 5.0
    assert f(x).item() == 8
    assert f(x, n=2).item() == 13
    assert f(x).item() == 8 and f.count == 4


def test_training_is_guarded():
    model = nn.Dropout(0.5)
    f = torch.compile(model, fullgraph=True)
    x = torch.ones(64)
    assert (f(x) == 0).any()
    model.eval()
    assert torch.equal(f(x), x)
    f.train()
    assert model.training and (f(x) == 0).any()


def test_a_replaced_parameter_is_noticed():
    model = nn.Linear(2, 1, bias=False)
    f = torch.compile(model, fullgraph=True)
    f(torch.ones(1, 2))
    model.weight = nn.Parameter(torch.full((1, 2), 3.0))
    assert f(torch.ones(1, 2)).item() == 6
    model.weight.data = torch.full((1, 2), 4.0)
    assert f(torch.ones(1, 2)).item() == 8


def test_too_many_programs_warn_with_the_guard():
    scale = ["0"]
    f = torch.compile(lambda x: x * float(scale[0]))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for i in range(12):
            scale[0] = str(i)
            assert f(torch.ones(1)).item() == i
    (warning,) = [w for w in shown if "torch.compile" in str(w.message)]
    assert "compiled 8 times" in str(warning.message) and "scale[0]" in str(warning.message)


# -- what cannot be one program ------------------------------------------------------------------------


def test_a_value_that_python_needs():
    def f(x):
        return x + 1 if x.sum() > 0 else x - 1

    with TestCase().assertLogs("torchlike.compile", logging.INFO) as logged:
        g = torch.compile(f)
        assert g(torch.ones(1)).item() == 2 and g(-torch.ones(1)).item() == -2
    text = "\n".join(logged.output)
    assert "needs the value of a tensor" in text and "if x.sum() > 0" in text
    with pytest.raises(RuntimeError, match="needs the value of a tensor"):
        torch.compile(f, fullgraph=True)(torch.ones(1))


def test_a_failed_trace_leaves_everything_as_it_was():
    w = torch.ones(2, requires_grad=True)
    b = torch.zeros(2)

    def f():
        b.add_(1)
        (w * b).sum().backward()
        return b.sum().item()

    g = torch.compile(f)
    assert g() == 2 and b.tolist() == [1, 1] and w.grad.tolist() == [1, 1]
    assert g() == 4 and w.grad.tolist() == [3, 3]


def test_errors_of_the_function_are_its_own():
    f = torch.compile(lambda x: x @ torch.ones(3, 3))
    with pytest.raises(RuntimeError, match="shape"):
        f(torch.ones(2, 2))
    with pytest.raises(ZeroDivisionError):
        torch.compile(lambda x: x * (1 / 0))(torch.ones(1))


def test_tensors_kept_by_python_are_real():
    """Each call appends a tensor, as in eager; a program could not do that again, so the function is traced anew."""
    kept = []
    f = torch.compile(lambda x: kept.append(x * 2) or x * 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(5):
            assert f(torch.full((1,), float(i))).item() == 3 * i
    assert [t.item() for t in kept] == [0, 2, 4, 6, 8]


def test_attributes_that_are_tensors():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.h = torch.zeros(2)

        def forward(self, x):
            self.h = self.h + x
            return self.h * 1

    model = Recurrent()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = torch.compile(model)
        outs = [run(torch.ones(2)).tolist() for _ in range(5)]
    assert outs == [[i, i] for i in (1.0, 2.0, 3.0, 4.0, 5.0)]


# -- the interface -------------------------------------------------------------------------------------


def test_is_compiling_disable_and_stance():
    def f(x):
        return x + 1 if torch.compiler.is_compiling() else x

    def compiled(function):
        return function(torch.zeros(1)).item() == 1

    g = torch.compile(f)
    assert compiled(g) and compiled(g) and not compiled(f)
    with torch.compiler.set_stance("force_eager"):
        assert not compiled(g)
    assert not compiled(torch.compiler.disable(g))
    torch.compiler.reset()
    assert compiled(g)


def test_module_compile_and_optimized_module():
    model = nn.Linear(2, 2)
    x = torch.ones(1, 2)
    expected = model(x)
    optimized = torch.compile(model)
    assert list(optimized.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    assert optimized._orig_mod is model and optimized.weight is model.weight and optimized.in_features == 2
    assert torch.allclose(optimized(x), expected)
    assert torch.allclose(copy.deepcopy(optimized)(x), expected)
    assert model.compile() is None and list(model.state_dict()) == ["weight", "bias"]
    assert torch.allclose(model(x), expected)
    assert torch.allclose(copy.deepcopy(model)(x), expected)
    assert torch.allclose(pickle.loads(pickle.dumps(model))(x), expected)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"mode": "fast"}, RuntimeError, "Unrecognized mode"),
        ({"mode": "default", "options": {}}, RuntimeError, "both can't be specified"),
    ],
)
def test_wrong_options(options, error, match):
    with pytest.raises(error, match=match):
        torch.compile(lambda x: x, **options)


def test_what_is_not_callable():
    with pytest.raises(AssertionError, match="callable function is expected"):
        torch.compile(3)


def test_methods_and_decorators():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        @torch.compile(fullgraph=True)
        def __call__(self, x):
            return x * self.factor

    assert Scale(2.0)(torch.ones(1)).item() == 2 and Scale(3.0)(torch.ones(1)).item() == 3
    assert torch.compile(len, disable=True) is len


def test_nothing_of_a_trace_is_kept():
    """Neither tracers nor arguments stay alive after a call."""
    w = torch.ones(3, requires_grad=True)
    f = torch.compile(lambda x: (w * x).sum())
    x = torch.ones(3)
    f(x)
    died = weakref.ref(x._storage)
    del x
    gc.collect()
    assert died() is None


def test_value_checks_are_raised_by_the_next_call():
    """The program cannot raise; reading its flags at once would make every call wait."""
    table = torch.arange(6.0).reshape(3, 2)
    f = torch.compile(lambda i: F.embedding(i, table), fullgraph=True)
    good, bad = torch.tensor([0, 2]), torch.tensor([0, 5])
    assert f(good).tolist() == [[0, 1], [4, 5]]
    f(bad)
    with pytest.raises(
        (IndexError, RuntimeError), match="found after a compiled program had run(.|\n)*test_compile.py"
    ):
        f(good)
    assert f(good).tolist() == [[0, 1], [4, 5]]


def test_gradients_that_are_assigned():
    """One program, although every call leaves another ``.grad``; one that is known elsewhere is told apart."""
    seen = []
    for wrap in (lambda f: f, torch.compile):
        w = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.5)

        def f(x, w=w, optimizer=optimizer):
            loss = (w * w * x).sum()
            w.grad = torch.autograd.grad(loss, w)[0]
            optimizer.step()
            return loss.detach()

        run = wrap(f)
        seen.append([[run(torch.ones(3) * i), w.detach().clone(), w.grad.clone()] for i in range(6)])
    assert run.count <= 2
    torch.testing.assert_close(*seen)


def test_a_gradient_that_the_function_knows_otherwise():
    w = torch.nn.Parameter(torch.ones(3))
    kept = torch.ones(3) * 5
    w.grad = kept

    @torch.compile
    def f(x):
        w.grad = x * 2
        return kept + 0

    for i in range(4):
        kept += 1
        assert f(torch.ones(3) * i).tolist() == [6.0 + i] * 3
        assert w.grad.tolist() == [2.0 * i] * 3
